/* reachability: whether other processes can connect to the address that a member advertises. The
 * tracker tries it with a bare TCP connection of its own, one attempt at a time for each member. */
#ifndef SKEP_SWARM_TRACKER_REACHABILITY_H
#define SKEP_SWARM_TRACKER_REACHABILITY_H

#include "transport/messages/connect_probe.h"

#include <stdint.h>

enum {
    PROBE_TIMEOUT_MS = 5000,
    PROBE_RETRY_MS = 30000,
};

struct member_probe {
    struct connect_probe connection;
    int64_t started_ms; /* of the last attempt; 0: none for this address yet */
};

/* member_probe_idle: no attempt is in progress, and none was made. member_probe_end: back to that;
 * harmless when the probe is idle. */
struct member_probe member_probe_idle(void);
void member_probe_end(struct member_probe *probe);

struct tracker_loop;

/* reachability_run_due: continue the attempts in progress, and start those that are due: for
 * connected members with an address that has not been reached. Never waits. */
void reachability_run_due(struct tracker_loop *loop, int64_t now_ms);

#endif
