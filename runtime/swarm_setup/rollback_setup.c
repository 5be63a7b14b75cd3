#include "runtime/swarm_setup/rollback_setup.h"

#include "runtime/swarm/client/ledger_source.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/tracker/allow_list.h"
#include "runtime/swarm/tracker/rollback_file.h"
#include "runtime/swarm_setup/tracker_delegation.h"
#include "transport/identity/operator_key.h"

#include <string.h>

/* The chain of a tracker's ledger, and the states of it that members store. */
struct stored_chain {
    struct ledger_chain chain;
    uint32_t count; /* number of elements of `states` in use */
    /* [count]: states that members store, by ascending round */
    struct stored_state states[STORED_STATES_MAX];
};

/* ---- the ledger ---- */

static void set_storing_members(const struct entry *entry, struct stored_state *stored) {
    const uint64_t keepers = state_storing_seats(entry);
    stored->keeper_count = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        if ((keepers >> seat & 1) != 0) {
            stored->keepers[stored->keeper_count++] = entry->seats[seat].id;
        }
    }
}

/* Removes the states that are no longer in the history of the chain, or that their members have
 * deleted. */
static void remove_unavailable_states(struct stored_chain *stored) {
    const struct ledger_chain *chain = &stored->chain;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < stored->count; i++) {
        const struct past_state *state = &stored->states[i].state;
        if (state_history_find_entry(&chain->history, &state->entry) < chain->history.count &&
            is_stored_state_retained(state->commits, chain->commits)) {
            stored->states[kept++] = stored->states[i];
        }
    }
    stored->count = kept;
}

static const char *append_entry_to_chain(const struct entry *entry, struct stored_chain *stored) {
    const char *error = ledger_append(&stored->chain, entry);
    if (error != NULL || entry->kind == ENTRY_OPEN || entry->kind == ENTRY_ABORT) {
        return error;
    }
    remove_unavailable_states(stored);
    if (entry->kind == ENTRY_COMMIT && is_state_stored_after(entry->commits)) {
        const struct state_history *history = &stored->chain.history;
        ASSERT(stored->count < STORED_STATES_MAX);
        struct stored_state *state = &stored->states[stored->count++];
        state->state = history->states[history->count - 1];
        set_storing_members(entry, state);
    }
    return NULL;
}

static enum status read_entries(struct ledger_source *source, struct stored_chain *stored,
                                struct fault *fault) {
    bool has_entry = true;
    TRY(ledger_source_next(source, &has_entry, fault));
    while (has_entry) {
        const char *error = append_entry_to_chain(source->entry, stored);
        if (error != NULL) {
            return fault_set(fault, STATUS_INPUT, source->location,
                             "restore the tracker's store from a copy", "the entry %s", error);
        }
        TRY(ledger_source_next(source, &has_entry, fault));
    }
    return OK;
}

/* Opens the tracker's store as the source of the ledger, or, if a running tracker has it open,
 * queries the tracker. */
static enum status open_ledger(const struct tracker_setup *setup, struct region *region,
                               struct ledger_source **source, struct fault *fault) {
    struct fault unanswered;
    struct tracker_contact *contact = region_alloc(region, 1, sizeof *contact);
    contact->keys = setup->keys.public_keys;
    memcpy(contact->address, setup->join.address, sizeof contact->address);
    if (ledger_source_open(setup->store_path, region, source, fault) == OK) {
        return OK;
    }
    return ledger_source_open_remote(&setup->keys, contact, region, source, &unanswered) == OK
               ? OK
               : fault->status;
}

static enum status read_chain(const struct tracker_setup *setup, struct region *region,
                              struct stored_chain *stored, struct fault *fault) {
    struct ledger_source *source = NULL;
    ledger_set_operator_key(&stored->chain, setup->manifest.join.operator_keys.sign);
    TRY(open_ledger(setup, region, &source, fault));
    enum status status = read_entries(source, stored, fault);
    ledger_source_close(source);
    return status;
}

/* ---- the order ---- */

/* Counts the states to which a rollback is possible: all but the current one. */
static uint32_t count_rollback_targets(const struct stored_chain *stored) {
    const struct state_history *history = &stored->chain.history;
    const struct past_state *current = &history->states[history->count - 1];
    const uint32_t count = stored->count;
    return count > 0 && hash_equal(&stored->states[count - 1].state.entry, &current->entry)
               ? count - 1
               : count;
}

static enum status set_unavailable_round_fault(const struct stored_chain *stored, uint32_t round,
                                               struct fault *fault) {
    char remedy[sizeof fault->remedy];
    struct text text = text_over(remedy, sizeof remedy);
    const uint32_t count = count_rollback_targets(stored);
    text_add(
        &text,
        count == 0
            ? "wait until the swarm has more than %d commits, as the first state is stored then"
            : "pass one of the rounds with a stored state:",
        STORED_STATE_COMMITS);
    for (uint32_t i = 0; i < count; i++) {
        text_add(&text, "%s %u", i == 0 ? "" : ",", stored->states[i].state.round);
    }
    return fault_set(fault, STATUS_INPUT, "--rollback", remedy, "no state after round %u is stored",
                     round);
}

static enum status find_rollback_state(const struct stored_chain *stored, uint32_t round,
                                       struct rollback_effect *plan, struct fault *fault) {
    const struct state_history *history = &stored->chain.history;
    const uint32_t count = count_rollback_targets(stored);
    uint32_t at = 0;
    while (at < count && stored->states[at].state.round != round) {
        at++;
    }
    if (at == count) {
        return set_unavailable_round_fault(stored, round, fault);
    }
    const struct past_state *newest = &history->states[history->count - 1];
    plan->target = stored->states[at];
    plan->newest_round = newest->round;
    plan->undone_commits =
        history->count - 1 - state_history_find_entry(history, &plan->target.state.entry);
    return OK;
}

static enum status sign_and_write_order(const struct tracker_setup *setup,
                                        const struct stored_chain *stored,
                                        const struct rollback_effect *plan,
                                        const struct operator_key *key, struct fault *fault) {
    const struct state_history *history = &stored->chain.history;
    struct rollback_file file = {.swarm = setup->manifest.hash, .root = plan->target.state.root};
    file.order = rollback_order_sign(&key->keys, &file.swarm, &file.root,
                                     &history->states[history->count - 1].entry);
    return rollback_file_write(setup->order_path, &file, fault);
}

enum status continue_setup_sign_order(const struct tracker_setup_args *args, struct region *region,
                                      struct tracker_setup *setup, struct continue_file *file,
                                      struct fault *fault) {
    struct operator_key key;
    TRY(tracker_setup_open(args, region, setup, fault));
    if (!file_exists(setup->waiting_path)) {
        return fault_set(fault, STATUS_INPUT, "--continue",
                         "wait until the tracker's log reports a possible fork",
                         "this tracker is not waiting for the operator's order");
    }
    TRY(continue_file_read(setup->waiting_path, file, fault));
    if (!hash_equal(&file->swarm, &setup->manifest.hash)) {
        return fault_set(fault, STATUS_INPUT, setup->waiting_path, NULL,
                         "belongs to another swarm");
    }
    TRY(tracker_setup_read_operator_key(setup, &key, fault));
    continue_order_sign(&key.keys, &file->swarm, &file->state, &file->start, &file->order);
    keys_wipe(&key.keys);
    return continue_file_write(setup->continue_path, file, fault);
}

enum status rollback_setup_sign_order(const struct tracker_setup_args *args, uint32_t round,
                                      struct region *region, struct tracker_setup *setup,
                                      struct rollback_effect *plan, struct fault *fault) {
    struct stored_chain *stored = region_alloc(region, 1, sizeof *stored);
    struct operator_key key;
    TRY(tracker_setup_open(args, region, setup, fault));
    TRY(tracker_setup_read_operator_key(setup, &key, fault));
    enum status status = read_chain(setup, region, stored, fault);
    if (status == OK) {
        status = find_rollback_state(stored, round, plan, fault);
    }
    if (status == OK) {
        memcpy(plan->order_path, setup->order_path, sizeof plan->order_path);
        status = sign_and_write_order(setup, stored, plan, &key, fault);
    }
    keys_wipe(&key.keys);
    return status;
}
