/* tracker_guests: which members are guests, by the operator's newest roster epoch. */
#include "runtime/swarm/tracker_machine/tracker_state.h"

void tracker_restore_roster_epoch(struct tracker *tracker, const struct roster_epoch *roster) {
    ASSERT(roster->serial >= tracker->roster.epoch.serial);
    tracker->roster.epoch = *roster;
}

/* Whether the member in a row is a guest. In a closed swarm none is, because the roster epoch names
 * every member that is admitted. */
bool tracker_is_guest(const struct tracker *tracker, uint32_t row) {
    const struct roster_epoch *epoch = &tracker->roster.epoch;
    ASSERT(row < SWARM_MEMBERS_MAX);
    return epoch->is_open == 1 &&
           !roster_epoch_has_key(epoch, tracker->record.members[row].id.bytes);
}

uint64_t tracker_live_voters(const struct tracker *tracker) {
    return tracker_live_seats(tracker) & entry_voting_seats(&tracker->record.head);
}
