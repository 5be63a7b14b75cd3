/* tracker_rollback: the states of the ledger, and the rollback to one of them, by an order of the
 * operator or because no member has the newest state. */
#include "runtime/swarm/tracker_machine/tracker_state.h"

void tracker_add_rollback_state(struct tracker_rollback *rollback, const struct entry *entry) {
    struct state_history *history = &rollback->history;
    bool was_full = history->count == ROLLBACK_STATES_MAX;
    uint32_t at = state_history_apply_entry(history, entry);
    bool is_new = hash_equal(&history->states[at].entry, &entry->hash);
    if (was_full && is_new) { /* state_history_add has dropped the second state */
        memmove(&rollback->cursors[1], &rollback->cursors[2],
                (ROLLBACK_STATES_MAX - 2) * sizeof rollback->cursors[0]);
    }
    rollback->cursors[at] = entry->cursor;
}

void tracker_replay_entry(struct tracker *tracker, const struct entry *entry) {
    ASSERT(entry->commits <= tracker->record.head.commits);
    if (entry->kind == ENTRY_SUSPEND) {
        tracker_replay_suspension(tracker, entry);
    } else {
        tracker_add_rollback_state(&tracker->rollback, entry);
        repeats_replay_entry(&tracker->repeats, entry);
    }
}

bool tracker_member_stores_state(const struct tracker_member *member, const struct hash *root) {
    bool has_state = hash_equal(&member->report.durable_root, root);
    for (uint32_t i = 0; i < STORED_STATES_MAX; i++) {
        has_state |= hash_equal(&member->report.stored[i], root);
    }
    return has_state;
}

/* Whether a connected voter has this state on disk. */
static bool is_state_available(const struct tracker *tracker, const struct hash *root) {
    for (uint32_t row = 0; row < tracker->record.member_count; row++) {
        const struct tracker_member *member = &tracker->members[row];
        if (!member->is_silent && !tracker_is_guest(tracker, row) &&
            tracker_member_stores_state(member, root)) {
            return true;
        }
    }
    return false;
}

/* Returns the index of the newest state that a connected voter has on disk, or history->count. */
static uint32_t find_available_state(const struct tracker *tracker) {
    const struct state_history *history = &tracker->rollback.history;
    for (uint32_t at = history->count; at > 0; at--) {
        if (is_state_available(tracker, &history->states[at - 1].root)) {
            return at - 1;
        }
    }
    return history->count;
}

/* Writes a ROLLBACK to the state with the index `at` of the history. The cursor returns to its
 * position at that state, so samples assigned since then are assigned again. */
static void write_rollback(struct tracker *tracker, uint32_t at, const struct rollback_order *order,
                           struct actions *actions) {
    const struct tracker_rollback *rollback = &tracker->rollback;
    ASSERT(tracker->stage.kind == STAGE_READY && at < rollback->history.count);
    struct entry *entry = tracker_draft_entry(tracker, ENTRY_ROLLBACK);
    entry->root = rollback->history.states[at].root;
    entry->cursor = rollback->cursors[at];
    entry->order = *order;
    tracker_write_draft(tracker, RECORD_HEAD, actions);
}

void tracker_roll_back_if_state_lost(struct tracker *tracker, int64_t now_ms,
                                     struct actions *actions) {
    static const struct rollback_order NO_ORDER;
    const struct state_history *history = &tracker->rollback.history;
    ASSERT(tracker->stage.kind == STAGE_READY);
    uint32_t after_ms = tracker->settings.rollback_after_ms;
    uint32_t at = find_available_state(tracker);
    if (after_ms == 0 || now_ms - tracker->stage.last_current_ms < after_ms ||
        at == history->count ||
        hash_equal(&history->states[at].root, &tracker->record.commit.root)) {
        /* no rollback; for example, a member has the current state on disk and will report it
         * soon */
        return;
    }
    write_rollback(tracker, at, &NO_ORDER, actions);
}

bool tracker_order_rollback(struct tracker *tracker, const struct hash *root,
                            const struct rollback_order *order) {
    struct tracker_rollback *rollback = &tracker->rollback;
    if (rollback_order_find_target(&rollback->history, root, order) == rollback->history.count) {
        return false;
    }
    rollback->is_ordered = true;
    rollback->ordered_root = *root;
    rollback->order = *order;
    return true;
}

bool tracker_is_rollback_order_due(const struct tracker *tracker) {
    const struct tracker_rollback *rollback = &tracker->rollback;
    return rollback->is_ordered &&
           rollback_order_find_target(&rollback->history, &rollback->ordered_root,
                                      &rollback->order) < rollback->history.count &&
           is_state_available(tracker, &rollback->ordered_root);
}

void tracker_follow_rollback_order(struct tracker *tracker, struct actions *actions) {
    const struct tracker_rollback *rollback = &tracker->rollback;
    ASSERT(tracker_is_rollback_order_due(tracker));
    write_rollback(tracker, state_history_find_root(&rollback->history, &rollback->ordered_root),
                   &rollback->order, actions);
}
