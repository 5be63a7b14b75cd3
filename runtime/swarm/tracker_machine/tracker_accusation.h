/* tracker_accusation: what voters say of other members with their votes. */
#ifndef SKEP_SWARM_TRACKER_MACHINE_TRACKER_ACCUSATION_H
#define SKEP_SWARM_TRACKER_MACHINE_TRACKER_ACCUSATION_H

#include "runtime/swarm/tracker_machine/tracker_state.h"

/* tracker_judge_accusations: suspend the member that more than half of the roster accuses of the
 * same lie. Returns true if the round cannot be committed. */
bool tracker_judge_accusations(struct tracker *tracker);

/* tracker_is_proposal_refused: whether the proposal cannot get a quorum, and no more votes can name
 * a liar. */
bool tracker_is_proposal_refused(const struct tracker *tracker, int64_t now_ms);

/* tracker_lying_owners: the owners that are replaced for a false statement. None, if no other
 * voters are live. */
uint64_t tracker_lying_owners(const struct tracker *tracker);

/* tracker_find_silent_seats: the seats whose sketches did not reach half of the other voters. */
uint64_t tracker_find_silent_seats(const struct tracker *tracker);

/* tracker_find_opposed_seats: the seats whose contributions oppose the others, as more than half of
 * the other voters say.
 * tracker_is_opposition_undecided: whether most votes so far say this of a seat, and more are
 * needed to decide it. */
uint64_t tracker_find_opposed_seats(const struct tracker *tracker);
bool tracker_is_opposition_undecided(const struct tracker *tracker);

#endif
