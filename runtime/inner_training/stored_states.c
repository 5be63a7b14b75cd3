/* stored_states: writes the states that this member was drawn to store for a rollback. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/inner_training/member_run_state.h"

static bool is_drawn_to_store(const struct member_run *member, const struct entry *entry) {
    const uint8_t *id = member->swarm.keys.public_keys.sign;
    const uint64_t keepers = state_storing_seats(entry);
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        if ((keepers >> seat & 1) != 0 && memcmp(entry->seats[seat].id.bytes, id, KEY_BYTES) == 0) {
            return true;
        }
    }
    return false;
}

void stored_states_publish(struct member_run *member) {
    struct hash roots[STORED_STATES_MAX];
    state_store_list_roots(&member->outer.states, roots);
    mailbox_set_stored_states(member_loop_mailbox(member->loop), roots);
}

void stored_states_update(struct member_run *member, const struct entry *entry) {
    struct outer_state *outer = &member->outer;
    outer->state_is_due = entry->kind == ENTRY_COMMIT && is_state_stored_after(entry->commits) &&
                          is_drawn_to_store(member, entry);
    state_store_remove_expired(&outer->states, entry->commits);
    stored_states_publish(member);
}

void stored_states_write_if_due(struct member_run *member, enum action_kind ended_job) {
    struct outer_state *outer = &member->outer;
    const struct training_position *position = &member->position;
    const bool may_write =
        ended_job == ACTION_APPLY || ended_job == ACTION_ADOPT || ended_job == ACTION_TRAIN;
    if (!outer->state_is_due || !may_write) {
        return;
    }
    struct fault fault;
    const int64_t begin_ns = clock_monotonic_ns();
    if (state_store_add(&outer->states, position->round, position->commits, &outer->replica,
                        &fault) != OK) {
        log_line(LOG_WARNING,
                 "%s: %s; the state of round %u is not stored, so the operator cannot order a "
                 "rollback to it%s",
                 fault.subject, fault.reason, position->round,
                 ended_job == ACTION_TRAIN ? "" : "; retrying when the next round was trained");
        return;
    }
    outer->state_is_due = false;
    log_line(LOG_INFO,
             "stored the state of round %u in %.2f s; the operator can order a rollback to it",
             position->round, clock_seconds_since(begin_ns));
    stored_states_publish(member);
}
