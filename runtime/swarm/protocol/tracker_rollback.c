/* tracker_rollback: the states of the ledger, and the rollback to one of them. */
#include "runtime/swarm/protocol/tracker_state.h"

/* Returns the index of the newest state with this root, or `count` if there is none. */
static uint32_t find_rollback_state(const struct tracker_rollback *rollback,
                                    const struct hash *root) {
    ASSERT(rollback->count <= ROLLBACK_STATES_MAX);
    uint32_t at = rollback->count;
    while (at > 0 && !hash_equal(&rollback->states[at - 1].root, root)) {
        at--;
    }
    return at > 0 ? at - 1 : rollback->count;
}

/* When the list is full, its second state is removed: the first may be the GENESIS, which every
 * member can recreate. */
void tracker_add_rollback_state(struct tracker_rollback *rollback, const struct entry *entry) {
    ASSERT(entry->kind != ENTRY_OPEN && entry->kind != ENTRY_ABORT);
    uint32_t at = entry->kind == ENTRY_ROLLBACK ? find_rollback_state(rollback, &entry->root)
                                                : rollback->count;
    if (at == ROLLBACK_STATES_MAX) {
        memmove(&rollback->states[1], &rollback->states[2],
                (ROLLBACK_STATES_MAX - 2) * sizeof rollback->states[0]);
        at--;
    }
    ASSERT(at < ROLLBACK_STATES_MAX);
    rollback->states[at] = (struct rollback_state){entry->root, entry->cursor};
    rollback->count = at + 1;
}

void tracker_replay_entry(struct tracker *tracker, const struct entry *entry) {
    ASSERT(entry->commits <= tracker->record.head.commits);
    tracker_add_rollback_state(&tracker->rollback, entry);
}

/* Returns the index of the newest state that a connected member has on disk, or `count`. */
static uint32_t find_available_state(const struct tracker *tracker) {
    const struct tracker_rollback *rollback = &tracker->rollback;
    uint32_t best = rollback->count;
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        uint32_t at = find_rollback_state(rollback, &member->report.durable_root);
        if (!member->is_silent && at < rollback->count && (best == rollback->count || at > best)) {
            best = at;
        }
    }
    return best;
}

/* Rolls back to the newest available state. The cursor returns to its position at that state, so
 * samples assigned since then are assigned again. */
void tracker_roll_back(struct tracker *tracker, int64_t now_ms, struct actions *actions) {
    const struct tracker_rollback *rollback = &tracker->rollback;
    ASSERT(tracker->stage.kind == STAGE_READY);
    uint32_t after_ms = tracker->settings.rollback_after_ms;
    uint32_t at = find_available_state(tracker);
    if (after_ms == 0 || now_ms - tracker->stage.last_current_ms < after_ms ||
        at == rollback->count ||
        hash_equal(&rollback->states[at].root, &tracker->record.commit.root)) {
        return; /* or a member has the current state on its disk and will soon report it */
    }
    struct entry *entry = tracker_draft_entry(tracker, ENTRY_ROLLBACK);
    entry->root = rollback->states[at].root;
    entry->cursor = rollback->states[at].cursor;
    tracker_write_draft(tracker, RECORD_HEAD, actions);
}
