/* delegation_watch: the delegation of a running tracker. The tracker serves a newer one and writes
 * it to the ledger. It exits when the operator has delegated to another key, or when the delegation
 * has expired. */
#ifndef SKEP_SWARM_TRACKER_DELEGATION_WATCH_H
#define SKEP_SWARM_TRACKER_DELEGATION_WATCH_H

#include "runtime/swarm/delegation/delegation.h"
#include "runtime/swarm/tracker/rollback_file.h"

struct tracker_loop;

/* The newest delegation, and whether the tracker may continue with it. */
struct delegation_watch {
    struct file_watch file;        /* detects a new delegation file */
    struct known_delegation known; /* the newest delegation; serial 0: none */
    bool is_revoked;               /* the newest delegation names the key of another tracker */
    bool has_expired;              /* the newest delegation has expired */
    uint64_t warn_s; /* Unix time of the next warning of the delegation's expiry; 0: none */
};

/* delegation_watch_open: start with the delegation in the loop's options.
 * delegation_watch_run: read a new delegation file, and check whether the delegation has expired.
 * delegation_watch_requires_exit: whether the tracker must exit, because its delegation was revoked
 * or has expired.
 * delegation_watch_set_fault: set the fault with that reason, and return STATUS_INPUT. */
void delegation_watch_open(struct tracker_loop *loop);
void delegation_watch_run(struct tracker_loop *loop, int64_t now_ms);
bool delegation_watch_requires_exit(const struct tracker_loop *loop);
enum status delegation_watch_set_fault(const struct tracker_loop *loop, struct fault *fault);

#endif
