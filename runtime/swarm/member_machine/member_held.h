/* member_held: requests for this member's contribution that arrive before it has the table of the
 * round. Until then the tracker still accepts declarations, so a member that received the
 * contribution could declare it as its own. Honest members send such requests only once they have
 * the table: a request is therefore held at most for the time between the table's arrivals at two
 * members. */
#ifndef SKEP_SWARM_MEMBER_MACHINE_MEMBER_HELD_H
#define SKEP_SWARM_MEMBER_MACHINE_MEMBER_HELD_H

#include "runtime/swarm/protocol/protocol.h"

/* A request for a slice of this member's contribution. */
struct held_request {
    uint32_t slice; /* 1 + index of the requested slice; 0: no request */
    uint32_t epoch; /* epoch of the slice in which the contribution is requested */
};

/* The held requests, by the seat of the requester. Each seat has at most
 * CONTRIBUTION_SLOTS_PER_MEMBER of them; a further request replaces the oldest. */
struct member_held {
    struct held_requests {
        struct held_request rows[CONTRIBUTION_SLOTS_PER_MEMBER];
        uint32_t next; /* row in which the next request is stored */
    } seats[SWARM_MEMBERS_MAX];
};

void held_clear(struct member_held *held);

#endif
