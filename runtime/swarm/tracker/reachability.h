/* reachability: tests whether other processes can connect to the address that a member advertises.
 * The tracker connects to it, one attempt at a time for each member, and the member proves its key.
 * Only an address that the member connects from is tested, so that a member can direct neither the
 * tracker nor other members to a third party. */
#ifndef SKEP_SWARM_TRACKER_REACHABILITY_H
#define SKEP_SWARM_TRACKER_REACHABILITY_H

#include "transport/messages/connect_probe.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PROBE_TIMEOUT_MS = 5000, /* time after which an attempt has failed */
    PROBE_RETRY_MS = 30000,  /* time between the starts of two attempts */
};

struct member_probe {
    struct connect_probe connection; /* the connection attempt in progress */
    int64_t started_ms;              /* start of the last attempt; 0: none for this address */
    bool failure_is_logged;          /* a failed attempt for this address was logged */
};

/* make_idle_member_probe: returns a probe without an attempt.
 * member_probe_end: ends an attempt in progress, and resets the probe to idle. */
struct member_probe make_idle_member_probe(void);
void member_probe_end(struct member_probe *probe);

struct tracker_loop;

/* reachability_run_due: continues the attempts in progress, and starts those that are due: for
 * connected members whose address is not known to be reachable. Does not block. */
void reachability_run_due(struct tracker_loop *loop, int64_t now_ms);

#endif
