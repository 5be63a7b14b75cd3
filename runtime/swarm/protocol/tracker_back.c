/* tracker_back: the states that the ledger came by, and the way back to one of them. */
#include "runtime/swarm/protocol/tracker_state.h"

#include <string.h>

int tracker_has_state(const struct tracker_member *member) {
    static const struct hash zero;
    return !hash_equal(&member->root, &zero);
}

/* The newest state with this root, or past_count. */
static uint32_t find_past(const struct tracker *tracker, const struct hash *root) {
    uint32_t at = tracker->past_count;
    while (at > 0 && !hash_equal(&tracker->past[at - 1].root, root)) {
        at--;
    }
    return at > 0 ? at - 1 : tracker->past_count;
}

/* A full list loses its second: the first may be the genesis, which everybody can make again. */
void tracker_add_rollback_state(struct tracker *tracker, const struct entry *entry) {
    uint32_t at =
        entry->kind == ENTRY_ROLLBACK ? find_past(tracker, &entry->root) : tracker->past_count;
    if (at == ROLLBACK_STATES_MAX) {
        memmove(&tracker->past[1], &tracker->past[2],
                (ROLLBACK_STATES_MAX - 2) * sizeof(tracker->past[0]));
        at--;
    }
    tracker->past[at] = (struct rollback_state){entry->root, entry->cursor};
    tracker->past_count = at + 1;
}

void tracker_replay_entry(struct tracker *tracker, const struct entry *entry) {
    tracker_add_rollback_state(tracker, entry);
}

/* The newest state that a member stands on, or has on its disk while it tries to get another; or
 * past_count. */
static uint32_t reachable(const struct tracker *tracker) {
    uint32_t best = tracker->past_count;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        uint32_t at = find_past(tracker, &member->durable);
        if (!member->silent && at < tracker->past_count &&
            (best == tracker->past_count || at > best)) {
            best = at;
        }
    }
    return best;
}

/* The cursor goes back to where that state left it: what was given out after it is given again. */
void tracker_roll_back(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    uint32_t after_ms = tracker->settings.rollback_after_ms;
    uint32_t at = reachable(tracker);
    if (after_ms == 0 || now_ms - tracker->reached_ms < after_ms || at == tracker->past_count ||
        hash_equal(&tracker->past[at].root, &tracker->record.commit.root)) {
        return; /* the last: whoever has it on its disk will soon stand on it */
    }
    struct entry *entry = tracker_begin_entry(tracker, ENTRY_ROLLBACK);
    entry->root = tracker->past[at].root;
    entry->cursor = tracker->past[at].cursor;
    tracker_write(tracker, RECORD_HEAD, actions);
}
