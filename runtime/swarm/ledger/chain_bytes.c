/* chain_bytes: writes and reads the state of a chain as canonical bytes. */
#include "runtime/swarm/ledger/ledger.h"

#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/packer/packer.h"

#include <stddef.h>
#include <string.h>

static void pack_cursor(struct packer *pack, struct data_cursor *cursor) {
    pack_u64(pack, "position", &cursor->position);
    pack_variable_bin_header(pack, "returned", &cursor->returned_count, SWARM_RETURNED_RANGES_MAX,
                             ENTRY_RANGE_BYTES);
    for (uint32_t i = 0; i < cursor->returned_count; i++) {
        cursor->returned[i].begin = pack_bin_number(pack, cursor->returned[i].begin, 8);
        cursor->returned[i].end = pack_bin_number(pack, cursor->returned[i].end, 8);
    }
}

static void pack_roster_epoch(struct packer *pack, struct roster_epoch *roster) {
    pack_u64(pack, "roster", &roster->serial);
    pack_u32(pack, "is_open", &roster->is_open);
    const uint32_t count = pack_variable_bin_header(pack, "roster_members", &roster->count,
                                                    ROSTER_KEYS_MAX, KEY_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        pack_bin_part(pack, roster->members[i], KEY_BYTES);
    }
    pack_bytes(pack, "roster_signature", roster->signature, SIGNATURE_BYTES);
}

static void pack_electors(struct packer *pack, struct ledger_chain *chain) {
    struct electors *electors = &chain->electors;
    pack_u32(pack, "needs_leases", &chain->needs_leases);
    pack_bytes(pack, "state_entry", electors->state.bytes, HASH_BYTES);
    pack_u32(pack, "state_round", &electors->round);
    const uint32_t count = pack_variable_bin_header(pack, "electors", &electors->count,
                                                    SWARM_MEMBERS_MAX, SWARM_IDENTITY_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        pack_bin_part(pack, electors->ids[i].bytes, SWARM_IDENTITY_BYTES);
    }
    pack_u64(pack, "vote_seats", &chain->needed.seats);
    pack_u64(pack, "vote_first", &chain->needed.first_elector);
    pack_u32(pack, "vote_count", &chain->needed.count);
}

static void pack_history(struct packer *pack, struct state_history *history) {
    const uint32_t count =
        pack_element_count(pack, "state_count", &history->count, ROLLBACK_STATES_MAX);
    struct packer_rows rows = {history->states, sizeof history->states[0], .count = count};
    pack_bytes_column(pack, "state_roots", rows, offsetof(struct past_state, root), HASH_BYTES);
    pack_bytes_column(pack, "state_entries", rows, offsetof(struct past_state, entry), HASH_BYTES);
    pack_bytes_column(pack, "state_cursors", rows, offsetof(struct past_state, cursor), HASH_BYTES);
    pack_u32_column(pack, "state_rounds", rows, offsetof(struct past_state, round), 4);
    pack_u32_column(pack, "state_commits", rows, offsetof(struct past_state, commits), 4);
}

static void pack_chain(struct packer *pack, void *object) {
    struct ledger_chain *chain = object;
    pack_bytes(pack, "swarm", chain->swarm.bytes, HASH_BYTES);
    pack_u64(pack, "entry_count", &chain->entry_count);
    pack_bytes(pack, "head", chain->head.bytes, HASH_BYTES);
    pack_bytes(pack, "root", chain->root.bytes, HASH_BYTES);
    pack_f64(pack, "reference_norm", &chain->reference_norm);
    pack_u32(pack, "incarnation", &chain->incarnation);
    pack_u32(pack, "last_ended_round", &chain->last_ended_round);
    pack_u32(pack, "last_opened_round", &chain->last_opened_round);
    pack_u32(pack, "commits", &chain->commits);
    pack_u32(pack, "is_round_open", &chain->is_round_open);
    pack_bytes(pack, "seats", chain->roster.bytes, HASH_BYTES);
    pack_electors(pack, chain);
    pack_u64(pack, "delegation", &chain->delegation_serial);
    if (chain->delegation_serial != 0) {
        pack_bytes(pack, "tracker", chain->tracker_key, KEY_BYTES);
    }
    pack_roster_epoch(pack, &chain->roster_epoch);
    pack_cursor(pack, &chain->cursor);
    pack_history(pack, &chain->history);
    if (chain->is_round_open > 1 || chain->needs_leases > 1) {
        packer_fail(pack, "has a flag that is neither 0 nor 1");
    }
}

/* The cast is safe: only a packer in reading mode writes into the chain. */
static struct packed_object packed_chain(const struct ledger_chain *chain) {
    return (struct packed_object){pack_chain, (void *)(uintptr_t)chain};
}

struct hash ledger_chain_hash(const struct ledger_chain *chain) {
    static const char DOMAIN[] = "skep ledger chain";
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, DOMAIN, sizeof DOMAIN);
    packer_hash(packed_chain(chain), &state);
    return hash_end(&state);
}

size_t ledger_chain_write(const struct ledger_chain *chain, uint8_t *bytes) {
    return packer_write(packed_chain(chain), bytes, LEDGER_CHAIN_BYTES_MAX);
}

/* Whether round numbers and commit counts ascend from state to state of the history, and the
 * chain's own round and commit count are not below those of the last state. */
static bool has_rounds_in_order(const struct ledger_chain *chain) {
    uint32_t round = 0;
    uint32_t commits = 0;
    for (uint32_t i = 0; i < chain->history.count; i++) {
        const struct past_state *past = &chain->history.states[i];
        if (past->round < round || past->commits < commits) {
            return false;
        }
        round = past->round;
        commits = past->commits;
    }
    return round <= chain->last_ended_round && commits <= chain->commits &&
           chain->commits <= chain->last_ended_round &&
           chain->last_opened_round >= chain->last_ended_round &&
           chain->is_round_open == (chain->last_opened_round > chain->last_ended_round ? 1U : 0U);
}

/* Returns the first error in the fields that ledger_append relies on, or NULL. That the state is
 * one of this swarm is not checked here: its hash shows that. */
static const char *chain_error(const struct ledger_chain *chain) {
    uint64_t least = 0;
    if (chain->entry_count == 0 || chain->history.count == 0) {
        return "is a state of the ledger from before its genesis";
    }
    if (!norm_is_valid(chain->reference_norm) || !has_rounds_in_order(chain)) {
        return "has rounds that are out of order, or a reference norm that is not a finite number "
               "of at least 0";
    }
    for (uint32_t i = 0; i < chain->cursor.returned_count; i++) {
        const struct sample_range *range = &chain->cursor.returned[i];
        if (range->begin < least || range->begin >= range->end ||
            range->end > chain->cursor.position) {
            return "lists returned sample ranges that are out of order or above the cursor's "
                   "position";
        }
        least = range->end + 1;
    }
    return NULL;
}

const char *ledger_chain_read(const uint8_t *bytes, size_t count, struct ledger_chain *chain) {
    ASSERT(chain->entry_count == 0);
    const char *error = packer_read(packed_chain(chain), bytes, count);
    return error == NULL ? chain_error(chain) : error;
}
