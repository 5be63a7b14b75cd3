/* tracker_guests: the guests of an open swarm: members that the operator's roster epoch does not
 * name. A guest trains and contributes. It has no vote, owns no slices, and does not count in a
 * median of times. What it reports about states and results is ignored.
 * Private to the tracker's files; included by tracker_state.h. */
#ifndef SKEP_SWARM_TRACKER_MACHINE_TRACKER_GUESTS_H
#define SKEP_SWARM_TRACKER_MACHINE_TRACKER_GUESTS_H

#include "runtime/swarm/ledger/operator_documents.h"

#include <stdbool.h>
#include <stdint.h>

struct tracker;

struct tracker_roster {        /* the roster epoch in use; assigned only by tracker_guests.c */
    struct roster_epoch epoch; /* the operator's newest document; serial 0: none, and no guests */
};

/* tracker_is_guest: whether the row has the seat of a guest in the next round.
 * tracker_live_voters: the voting seats of the open round whose session is current and not
 * silent. */
bool tracker_is_guest(const struct tracker *tracker, uint32_t row);
uint64_t tracker_live_voters(const struct tracker *tracker);

#endif
