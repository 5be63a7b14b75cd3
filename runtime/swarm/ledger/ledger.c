#include "runtime/swarm/ledger/ledger.h"

#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/norms.h"
#include "runtime/swarm/ledger/statement.h"

#include <string.h>

static const char CONTEXT[] = "skep ledger entry";

_Static_assert(sizeof(struct identity) == KEY_BYTES && sizeof(struct signature) == SIGNATURE_BYTES,
               "an identity in the ledger is a signing key");

void ledger_sign(const struct key_pairs *keys, const struct hash *hash,
                 struct signature *signature) {
    keys_sign(keys, CONTEXT, hash->bytes, HASH_BYTES, signature->bytes);
}

bool ledger_is_signed_by(const uint8_t sign_key[static KEY_BYTES], const struct hash *hash,
                         const struct signature *signature) {
    return keys_verify(sign_key, CONTEXT, hash->bytes, HASH_BYTES, signature->bytes);
}

/* Hashes the seats, sessions, roles and ranges: rosters with equal hashes are equal. */
static struct hash hash_roster(const struct entry *entry) {
    struct hash_state state;
    hash_begin(&state);
    for (uint32_t i = 0; i < entry->seat_count; i++) {
        const struct entry_seat *seat = &entry->seats[i];
        const uint32_t words[] = {seat->session, seat->is_guest, seat->range_count};
        hash_add(&state, seat->id.bytes, SWARM_IDENTITY_BYTES);
        hash_add(&state, words, sizeof words);
        hash_add(&state, seat->ranges, seat->range_count * sizeof seat->ranges[0]);
    }
    return hash_end(&state);
}

static const char *round_error(const struct ledger_chain *chain, const struct entry *entry) {
    switch (entry->kind) {
    case ENTRY_GENESIS:
        return "is a second genesis";
    case ENTRY_OPEN:
        return entry->round > chain->last_ended_round && entry->round >= chain->last_opened_round
                   ? NULL
                   : "opens a round that has already ended";
    case ENTRY_COMMIT:
    case ENTRY_ABORT:
        return chain->is_round_open && entry->round == chain->last_opened_round
                   ? NULL
                   : "ends a round that is not open";
    case ENTRY_ROLLBACK:
        return !chain->is_round_open && entry->round == chain->last_ended_round
                   ? NULL
                   : "is a rollback, but does not follow the end of its round";
    case ENTRY_SUSPEND:
        return !chain->is_round_open && entry->round == chain->last_ended_round
                   ? NULL
                   : "suspends a member, but does not directly follow the end of its round";
    }
    return "has an unknown kind";
}

/* Whether a COMMIT has the hash of the chain's state before it. */
static bool has_hash_of_chain(const struct ledger_chain *chain, const struct entry *entry) {
    const struct hash state = ledger_chain_hash(chain);
    return hash_equal(&entry->chain, &state);
}

static const char *chain_position_error(const struct ledger_chain *chain,
                                        const struct entry *entry) {
    bool ends = entry->kind == ENTRY_COMMIT || entry->kind == ENTRY_ABORT;
    bool keeps_root =
        entry->kind == ENTRY_OPEN || entry->kind == ENTRY_ABORT || entry->kind == ENTRY_SUSPEND;
    if (chain->entry_count == 0) {
        return entry->kind == ENTRY_GENESIS ? NULL : "is the first entry, but not a genesis";
    }
    if (!hash_equal(&entry->prev, &chain->head)) {
        return "does not follow the previous entry: `prev` is not the hash of that entry";
    }
    if (entry->incarnation < chain->incarnation) {
        return "has a lower tracker incarnation than the previous entry";
    }
    if (ledger_chain_is_unconfirmed(chain) && entry->kind != ENTRY_COMMIT) {
        return "follows a checkpoint, but is not a commit";
    }
    const char *error = round_error(chain, entry);
    if (error != NULL) {
        return error;
    }
    if (entry->commits != chain->commits + (entry->kind == ENTRY_COMMIT ? 1U : 0U)) {
        return "has a commit count that does not match the chain";
    }
    if (keeps_root && !hash_equal(&entry->root, &chain->root)) {
        return "changes the root, but is neither a commit nor a rollback";
    }
    if (entry->kind == ENTRY_ROLLBACK) {
        return rollback_error(&chain->history, entry);
    }
    if (entry->kind == ENTRY_COMMIT && !has_hash_of_chain(chain, entry)) {
        return "has a hash of the chain state that differs from the state of this chain";
    }
    const struct hash roster = hash_roster(entry);
    return ends && !hash_equal(&roster, &chain->roster)
               ? "has a roster that differs from that of its round's OPEN"
               : NULL;
}

const char *ledger_signatures_error(const uint8_t tracker_key[static KEY_BYTES],
                                    const struct entry *entry) {
    if (entry->kind != ENTRY_COMMIT) {
        bool is_signed =
            entry->signature_count == 1 &&
            ledger_is_signed_by(tracker_key, &entry->hash, &entry->signatures[0].signature);
        return is_signed ? NULL : "does not have a valid signature of the tracker";
    }
    if (entry->signature_count < entry_votes_needed(entry)) {
        return "has fewer signatures than a quorum of its roster requires";
    }
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        const struct entry_signature *signature = &entry->signatures[i];
        if (!ledger_is_signed_by(entry->seats[signature->seat].id.bytes, &entry->hash,
                                 &signature->signature)) {
            return "has a signature that does not verify with its member's key";
        }
    }
    return NULL;
}

static bool is_order_signed(const struct ledger_chain *chain, const struct entry *entry) {
    return !chain->has_operator || hash_is_zero(&entry->order.newest) ||
           rollback_order_is_signed(chain->operator_key, &chain->swarm, &entry->root,
                                    &entry->order);
}

/* Returns the error in the delegation of an entry, or NULL. The operator's signature of a
 * delegation is verified if the operator's key is known. If not, the tracker's signatures are still
 * checked against the key in the ledger's last delegation. */
static const char *delegation_error(const struct ledger_chain *chain, const struct entry *entry) {
    const struct delegation *delegation = &entry->documents.delegation;
    const struct hash *swarm = entry->kind == ENTRY_GENESIS ? &entry->manifest : &chain->swarm;
    if (delegation->serial == 0) {
        return chain->has_operator && entry->kind == ENTRY_GENESIS
                   ? "is a genesis, but has no delegation of the operator to a tracker"
                   : NULL;
    }
    if (delegation->serial <= chain->delegation_serial) {
        return "has a delegation that is not newer than the previous one";
    }
    return !chain->has_operator || delegation_is_signed(chain->operator_key, swarm, delegation)
               ? NULL
               : "has a delegation that the operator did not sign";
}

/* Whether the member in this seat may be an elector that has resigned, and so have no vote in the
 * round. The OPEN of a commit at a checkpoint is not known, so any elector in it may have
 * resigned. */
static bool may_lack_vote(const struct ledger_chain *chain, const struct entry *entry,
                          const struct entry_seat *seat) {
    bool has_resigned = entry->kind != ENTRY_OPEN && chain->needs_leases == 1;
    for (uint32_t i = 0; i < chain->electors.count && entry->kind == ENTRY_OPEN; i++) {
        has_resigned |= (entry->leases.resigned >> i & 1) != 0 &&
                        memcmp(&chain->electors.ids[i], &seat->id, sizeof seat->id) == 0;
    }
    return has_resigned;
}

static const char *roster_error(const struct ledger_chain *chain, const struct entry *entry) {
    const struct roster_epoch *newer = &entry->documents.roster;
    const struct roster_epoch *roster = newer->serial != 0 ? newer : &chain->roster_epoch;
    if (newer->serial != 0 && newer->serial <= chain->roster_epoch.serial) {
        return "has a roster epoch that is not newer than the previous one";
    }
    if (newer->serial != 0 && chain->has_operator &&
        !roster_epoch_is_signed(chain->operator_key, &chain->swarm, newer)) {
        return "has a roster epoch that the operator did not sign";
    }
    if (entry->kind == ENTRY_OPEN && chain->has_operator && roster->serial == 0) {
        return "opens a round, although the operator has not signed a roster epoch yet";
    }
    /* A chain that begins at a checkpoint has not read the OPEN of the checkpoint's commit, so
     * the seats of the commit are checked instead. */
    const bool has_seats = entry->kind == ENTRY_OPEN || ledger_chain_is_unconfirmed(chain);
    for (uint32_t i = 0; has_seats && i < entry->seat_count; i++) {
        const struct entry_seat *seat = &entry->seats[i];
        const bool is_named = roster->serial == 0 || roster_epoch_has_key(roster, seat->id.bytes);
        if (!is_named && roster->is_open == 0) {
            return "gives a seat to a member that the operator's roster epoch does not list";
        }
        if (!is_named && seat->is_guest == 0) {
            return "gives a vote to a member that the operator's roster epoch does not list";
        }
        if (is_named && seat->is_guest == 1 && !may_lack_vote(chain, entry, seat)) {
            return "gives no vote to a member that the operator's roster epoch lists and that has "
                   "not resigned";
        }
    }
    return NULL;
}

static const char *documents_error(const struct ledger_chain *chain, const struct entry *entry) {
    const char *error = delegation_error(chain, entry);
    return error == NULL ? roster_error(chain, entry) : error;
}

/* Returns the error in the signatures of an entry, or NULL. An entry with a delegation is signed by
 * the tracker that this delegation names. */
static const char *signatures_error(const struct ledger_chain *chain, const struct entry *entry) {
    const struct delegation *delegation = &entry->documents.delegation;
    if (delegation->serial != 0) {
        return ledger_signatures_error(delegation->tracker.sign, entry);
    }
    return chain->has_tracker || entry->kind == ENTRY_COMMIT
               ? ledger_signatures_error(chain->tracker_key, entry)
               : NULL;
}

/* ---- leases ---- */

static uint64_t seats_of_signers(const struct entry *entry) {
    uint64_t seats = 0;
    for (uint32_t i = 0; i < entry->signature_count; i++) {
        seats |= UINT64_C(1) << entry->signatures[i].seat;
    }
    return seats;
}

static const char *leases_error(const struct ledger_chain *chain, const struct entry *entry) {
    if (entry->kind == ENTRY_COMMIT) {
        return has_needed_votes(&chain->needed, seats_of_signers(entry))
                   ? NULL
                   : "has too few votes of the previous state's electors: it needs more than half "
                     "of them, or a half that includes the first elector";
    }
    if (entry->kind != ENTRY_OPEN && entry->kind != ENTRY_ABORT) {
        return NULL;
    }
    if ((entry->leases.start != 0) != (chain->needs_leases == 1)) {
        return entry->leases.start != 0
                   ? "has a number of the tracker's start, although the genesis states "
                     "that the swarm uses no leases"
                   : "lacks the number of the tracker's start, although the genesis "
                     "states that the swarm uses leases";
    }
    if (entry->leases.start == 0 || entry->kind == ENTRY_ABORT) {
        return NULL;
    }
    const char *error = electors_error_in_open(&chain->electors, entry);
    return error != NULL
               ? error
               : electors_signatures_error(&chain->electors, &chain->swarm,
                                           chain->has_operator ? chain->operator_key : NULL, entry);
}

static void advance_electors(struct ledger_chain *chain, const struct entry *entry) {
    if (entry->kind == ENTRY_GENESIS) {
        chain->needs_leases = entry->leases.are_needed;
    }
    if (entry->kind == ENTRY_OPEN) {
        chain->needed = entry->leases.start != 0 ? electors_needed_votes(&chain->electors, entry)
                                                 : (struct needed_votes){0};
    }
    if (chain->needs_leases == 1 && entry_sets_electors(entry)) {
        electors_of_entry(entry, &chain->electors);
    }
}

/* ---- the chain ---- */

static void adopt_documents(struct ledger_chain *chain, const struct entry_documents *documents) {
    const struct delegation *delegation = &documents->delegation;
    if (delegation->serial != 0) {
        chain->has_tracker = true;
        chain->delegation_serial = delegation->serial;
        memcpy(chain->tracker_key, delegation->tracker.sign, KEY_BYTES);
    }
    if (documents->roster.serial != 0) {
        chain->roster_epoch = documents->roster;
    }
}

static const char *weights_error(const struct ledger_chain *chain, const struct entry *entry) {
    if (entry->kind == ENTRY_COMMIT) {
        return norms_error(entry->members, entry->seat_count, entry_voting_seats(entry),
                           chain->reference_norm, entry->reference_norm);
    }
    return entry->reference_norm == chain->reference_norm
               ? NULL
               : "changes the reference norm, but is not a commit";
}

void ledger_advance(struct ledger_chain *chain, const struct entry *entry) {
    ASSERT(entry->incarnation >= chain->incarnation && entry->commits >= chain->commits);
    ASSERT(entry->kind == ENTRY_GENESIS || entry->round >= chain->last_ended_round);
    adopt_documents(chain, &entry->documents);
    if (ledger_chain_is_unconfirmed(chain)) {
        chain->start.votes = entry->signature_count;
        chain->start.voters = entry_voter_count(entry);
    }
    chain->entry_count++;
    chain->head = entry->hash;
    chain->root = entry->root;
    chain->cursor = entry->cursor;
    chain->reference_norm = entry->reference_norm;
    chain->commits = entry->commits;
    chain->incarnation = entry->incarnation;
    chain->is_round_open = entry->kind == ENTRY_OPEN;
    if (entry->kind == ENTRY_GENESIS) {
        chain->swarm = entry->manifest;
    }
    advance_electors(chain, entry);
    if (entry_sets_state(entry->kind)) {
        (void)state_history_apply_entry(&chain->history, entry);
    }
    if (chain->is_round_open) {
        chain->last_opened_round = entry->round;
        chain->roster = hash_roster(entry);
    } else if (entry->kind == ENTRY_COMMIT || entry->kind == ENTRY_ABORT) {
        chain->last_ended_round = entry->round;
    }
}

void ledger_set_operator_key(struct ledger_chain *chain, const uint8_t sign_key[static KEY_BYTES]) {
    chain->has_operator = true;
    memcpy(chain->operator_key, sign_key, KEY_BYTES);
}

void ledger_chain_clear(struct ledger_chain *chain) {
    uint8_t key[KEY_BYTES];
    const bool has_operator = chain->has_operator;
    memcpy(key, chain->operator_key, KEY_BYTES);
    memset(chain, 0, sizeof *chain);
    if (has_operator) {
        ledger_set_operator_key(chain, key);
    }
}

const char *ledger_append(struct ledger_chain *chain, const struct entry *entry) {
    const char *error = entry_error(entry);
    if (error != NULL) {
        return error;
    }
    const struct hash hash = entry_hash(entry);
    error = hash_equal(&hash, &entry->hash) ? chain_position_error(chain, entry)
                                            : "has a hash that does not match its content";
    error = error == NULL ? cursor_step_error(&chain->cursor, entry) : error;
    error = error == NULL ? weights_error(chain, entry) : error;
    error = error == NULL ? documents_error(chain, entry) : error;
    error = error == NULL ? signatures_error(chain, entry) : error;
    error = error == NULL ? leases_error(chain, entry) : error;
    if (error == NULL && !is_order_signed(chain, entry)) {
        error = "has an order to roll back that the operator did not sign";
    }
    if (error == NULL && entry_has_evidence(&entry->suspension)) {
        error = statement_evidence_error(&chain->swarm, entry);
    }
    if (error == NULL) {
        ledger_advance(chain, entry);
    }
    return error;
}

/* ---- checkpoints ---- */

bool ledger_chain_is_unconfirmed(const struct ledger_chain *chain) {
    return chain->start.entry_count > 0 && chain->start.votes == 0;
}

static const char *chain_begin_error(const struct ledger_chain *chain, const struct hash *swarm) {
    const struct roster_epoch *epoch = &chain->roster_epoch;
    if (swarm != NULL && !hash_equal(swarm, &chain->swarm)) {
        return "belongs to a different swarm than the manifest";
    }
    if (chain->is_round_open != 1) {
        return "is not the state of a chain before a commit: no round is open";
    }
    if (chain->delegation_serial == 0 || epoch->serial == 0) {
        return "has no roster epoch or no delegation of the operator";
    }
    const char *error = roster_epoch_error(epoch);
    if (error != NULL) {
        return error;
    }
    return !chain->has_operator || roster_epoch_is_signed(chain->operator_key, &chain->swarm, epoch)
               ? NULL
               : "has a roster epoch that the operator did not sign";
}

const char *ledger_chain_begin(struct ledger_chain *chain, const struct hash *swarm) {
    const char *error = chain_begin_error(chain, swarm);
    if (error == NULL) {
        chain->has_tracker = true;
        chain->start = (struct ledger_start){.entry_count = chain->entry_count,
                                             .roster = chain->roster_epoch.serial};
    }
    return error;
}

void ledger_checkpoint_update(struct ledger_checkpoint *checkpoint,
                              const struct ledger_chain *before, const struct entry *entry) {
    const uint64_t roster = before->roster_epoch.serial;
    const bool is_due =
        before->entry_count - checkpoint->entry_count >= LEDGER_CHECKPOINT_ENTRIES ||
        checkpoint->record_bytes >= LEDGER_CHECKPOINT_RECORD_BYTES;
    const bool has_older_roster = checkpoint->byte_count > 0 && roster != checkpoint->roster;
    if ((is_due || has_older_roster) && entry->kind == ENTRY_COMMIT &&
        chain_begin_error(before, NULL) == NULL) {
        checkpoint->entry_count = before->entry_count;
        checkpoint->record_bytes = 0;
        checkpoint->roster = roster;
        checkpoint->byte_count = ledger_chain_write(before, checkpoint->bytes);
    }
    checkpoint->record_bytes += entry_record_bytes(entry, ENTRY_WITHOUT_SLICES);
}
