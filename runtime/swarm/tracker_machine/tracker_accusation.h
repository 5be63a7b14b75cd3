/* tracker_accusation: what voters report about other members with their votes. */
#ifndef SKEP_SWARM_TRACKER_MACHINE_TRACKER_ACCUSATION_H
#define SKEP_SWARM_TRACKER_MACHINE_TRACKER_ACCUSATION_H

#include "runtime/swarm/tracker_machine/tracker_state.h"

/* tracker_judge_accusations: suspend the member that more than half of the roster accuses of a
 * false statement. Returns true if the round cannot be committed. */
bool tracker_judge_accusations(struct tracker *tracker);

/* tracker_is_proposal_refused: whether the proposal cannot get a quorum, and the votes that are
 * still missing cannot identify a liar. */
bool tracker_is_proposal_refused(const struct tracker *tracker, int64_t now_ms);

/* tracker_lying_owners: the owners that are replaced because of a false statement; none if no other
 * voter is live. */
uint64_t tracker_lying_owners(const struct tracker *tracker);

/* tracker_find_silent_seats: the seats whose sketches at least half of the other voters did not
 * get. */
uint64_t tracker_find_silent_seats(const struct tracker *tracker);

/* tracker_find_opposed_seats: the seats whose contributions more than half of the other voters
 * reported as opposed.
 * tracker_is_opposition_undecided: whether more votes may decide that a seat is opposed. */
uint64_t tracker_find_opposed_seats(const struct tracker *tracker);
bool tracker_is_opposition_undecided(const struct tracker *tracker);

#endif
