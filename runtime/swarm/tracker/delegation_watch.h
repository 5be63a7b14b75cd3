/* delegation_watch: the delegation of a running tracker: it serves a newer one, writes it to the
 * ledger, and ends when the operator has delegated to another key or the delegation expires. */
#ifndef SKEP_SWARM_TRACKER_DELEGATION_WATCH_H
#define SKEP_SWARM_TRACKER_DELEGATION_WATCH_H

#include "runtime/swarm/delegation/delegation.h"
#include "runtime/swarm/tracker/rollback_file.h"

struct tracker_loop;

struct delegation_watch {
    struct rollback_watch file;    /* detects a new file */
    struct known_delegation known; /* the newest one; serial 0: none */
    bool is_revoked;               /* it names another key */
    bool has_expired;              /* its time is over */
    uint64_t warn_s;               /* Unix time of the next warning of its expiry; 0: none yet */
};

/* delegation_watch_open: use options.delegation. delegation_watch_run: read a new file, and compare
 * the time. delegation_watch_has_ended: whether the tracker must end.
 * delegation_watch_fault: the reason, as STATUS_INPUT. */
void delegation_watch_open(struct tracker_loop *loop);
void delegation_watch_run(struct tracker_loop *loop, int64_t now_ms);
bool delegation_watch_has_ended(const struct tracker_loop *loop);
enum status delegation_watch_fault(const struct tracker_loop *loop, struct fault *fault);

#endif
