/* wire_verify: signs messages, and verifies that the required identities signed them. */
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/ledger/statement.h"
#include "runtime/swarm/wire/wire.h"

#include <string.h>

static const char DECLARATION[] = "skep declaration";

/* The signed fields of a declaration. */
struct declaration {
    struct hash swarm; /* hash of the manifest */
    struct hash open;  /* hash of the round's OPEN, which fixes the session of each seat */
    uint32_t round;
    uint64_t tokens;  /* number of tokens trained on */
    uint64_t samples; /* number of samples trained on */
    double norm;      /* L2 norm of the contribution */
    struct hash root; /* root of the contribution */
};

static void pack_declaration(struct packer *pack, void *object) {
    struct declaration *declaration = object;
    pack_bytes(pack, "swarm", declaration->swarm.bytes, HASH_BYTES);
    pack_bytes(pack, "open", declaration->open.bytes, HASH_BYTES);
    pack_u32(pack, "round", &declaration->round);
    pack_u64(pack, "tokens", &declaration->tokens);
    pack_u64(pack, "samples", &declaration->samples);
    pack_f64(pack, "norm", &declaration->norm);
    pack_bytes(pack, "root", declaration->root.bytes, HASH_BYTES);
}

static struct hash hash_packed_object(struct packed_object object) {
    struct hash_state state;
    hash_begin(&state);
    packer_hash(object, &state);
    return hash_end(&state);
}

static struct hash hash_declaration(const struct wire_shape *shape,
                                    struct declaration declaration) {
    declaration.swarm = shape->swarm;
    return hash_packed_object((struct packed_object){pack_declaration, &declaration});
}

/* Returns the signed statement of a RESULT about a slice, or of SKETCHES about a page of slices. */
static struct statement statement_of(const struct wire_shape *shape, const struct message *message,
                                     enum statement_kind kind) {
    bool is_page = kind == STATEMENT_SKETCHES;
    return (struct statement){.swarm = shape->swarm,
                              .round = message->round,
                              .slice =
                                  is_page ? message->slice / SKETCH_PAGE_SLICES * SKETCH_PAGE_SLICES
                                          : message->slice,
                              .epoch = message->epoch,
                              .contributors = message->contributors,
                              .seed = message->ballot.seed,
                              .hash = message->hash};
}

static bool is_statement_signed(const struct wire_shape *shape, const struct message *message,
                                enum statement_kind kind, const struct identity *signer) {
    const struct statement statement = statement_of(shape, message, kind);
    return statement_is_signed_by(kind, &statement, signer, &message->signature);
}

static struct hash hash_declare_message(const struct wire_shape *shape,
                                        const struct message *message) {
    return hash_declaration(shape, (struct declaration){.open = message->hash,
                                                        .round = message->round,
                                                        .tokens = message->trained.tokens,
                                                        .samples = message->trained.samples,
                                                        .norm = message->trained.norm,
                                                        .root = message->root});
}

void wire_sign_message(const struct wire_shape *shape, const struct key_pairs *keys,
                       struct message *message) {
    if (message->kind == MESSAGE_DECLARE) {
        const struct hash hash = hash_declare_message(shape, message);
        keys_sign(keys, DECLARATION, hash.bytes, HASH_BYTES, message->signature.bytes);
    } else if (message->kind == MESSAGE_RESULT) {
        const struct statement statement = statement_of(shape, message, STATEMENT_RESULT);
        memcpy(message->owner.bytes, keys->public_keys.sign, SWARM_IDENTITY_BYTES);
        statement_sign(STATEMENT_RESULT, &statement, keys, &message->signature);
    } else if (message->kind == MESSAGE_SKETCHES) {
        const struct statement statement = statement_of(shape, message, STATEMENT_SKETCHES);
        statement_sign(STATEMENT_SKETCHES, &statement, keys, &message->signature);
    } else if (message->kind == MESSAGE_RESIGN) {
        resignation_sign(keys, &shape->swarm, &message->hash, message->signature.bytes);
    }
}

static bool is_signed_by(const struct identity *id, const char *context, const struct hash *hash,
                         const struct signature *signature) {
    return keys_verify(id->bytes, context, hash->bytes, HASH_BYTES, signature->bytes);
}

static bool is_entry_verified(const uint8_t tracker_key[static KEY_BYTES],
                              const struct entry *entry) {
    const struct hash hash = entry_hash(entry);
    return hash_equal(&hash, &entry->hash) && ledger_signatures_error(tracker_key, entry) == NULL;
}

/* Whether each declaration in a table is signed by the member in the declaring seat. */
static bool are_declarations_verified(const struct wire_shape *shape, const struct entry *open,
                                      const struct round_table *table) {
    bool verified = true;
    for (uint32_t seat = 0; seat < open->seat_count && verified; seat++) {
        if ((table->declared_seats >> seat & 1) != 0) {
            const struct hash hash = hash_declaration(
                shape, (struct declaration){.open = open->hash,
                                            .round = table->round,
                                            .tokens = table->members[seat].tokens,
                                            .samples = table->members[seat].samples,
                                            .norm = table->members[seat].norm,
                                            .root = table->roots[seat]});
            verified =
                is_signed_by(&open->seats[seat].id, DECLARATION, &hash, &table->signatures[seat]);
        }
    }
    return verified;
}

/* Whether a table has only seats of the round's OPEN, and declarations that are signed. The tracker
 * decides which seat owns a slice, so the plans are only range-checked. With a base, the receiver
 * has the declarations already. */
static bool is_table_verified(const struct wire_shape *shape, const struct entry *open,
                              const struct round_table *table, uint32_t base) {
    if (open == NULL || open->kind != ENTRY_OPEN || open->round != table->round) {
        return false;
    }
    const uint64_t seats =
        open->seat_count < SWARM_MEMBERS_MAX ? (UINT64_C(1) << open->seat_count) - 1 : UINT64_MAX;
    const uint64_t declared = base > 0 ? seats : table->declared_seats;
    for (uint32_t i = 0; i < shape->slice_count; i++) {
        const struct slice_plan *plan = &table->slices[i];
        if (plan->owner >= open->seat_count ||
            ((plan->expected_seats | plan->optional_seats) & ~declared) != 0 ||
            (plan->expected_seats & plan->optional_seats) != 0) {
            return false;
        }
    }
    return (table->declared_seats & ~seats) == 0 && are_declarations_verified(shape, open, table);
}

static bool is_result_verified(const struct wire_shape *shape, const struct message *message,
                               const uint8_t *bulk, size_t bulk_bytes) {
    const struct hash hash = hash_of(bulk, bulk_bytes);
    return hash_equal(&hash, &message->hash) &&
           is_statement_signed(shape, message, STATEMENT_RESULT, &message->owner);
}

static bool is_vote_verified(const struct wire_shape *shape, const struct message *message) {
    if (!hash_is_zero(&message->root)) {
        return ledger_is_signed_by(message->from.bytes, &message->hash, &message->signature);
    }
    switch (message->ballot.refusal.reason) {
    case REFUSAL_SUM:
    case REFUSAL_WITHHELD:
        return is_statement_signed(shape, message, STATEMENT_RESULT, &message->owner);
    case REFUSAL_SKETCH:
        return is_statement_signed(shape, message, STATEMENT_SKETCHES, &message->owner);
    default:
        return true;
    }
}

bool wire_verify_message(const struct wire_shape *shape,
                         const uint8_t tracker_key[static KEY_BYTES], const struct entry *open,
                         struct message *message, const uint8_t *bulk, size_t bulk_bytes) {
    struct hash hash;
    switch (message->kind) {
    case MESSAGE_DECLARE:
        hash = hash_declare_message(shape, message);
        return is_signed_by(&message->from, DECLARATION, &hash, &message->signature);
    case MESSAGE_VOTE:
        return is_vote_verified(shape, message);
    case MESSAGE_RESIGN:
        return resignation_is_signed(message->from.bytes, &shape->swarm, &message->hash,
                                     message->signature.bytes);
    case MESSAGE_ENTRY:
        return is_entry_verified(tracker_key, message->entry);
    case MESSAGE_TABLE:
        return is_table_verified(shape, open, message->table, message->version);
    case MESSAGE_CONTRIBUTION:
        message->hash = hash_of(bulk, bulk_bytes);
        return true;
    case MESSAGE_SKETCHES:
        message->hash = hash_of(bulk, bulk_bytes);
        return is_statement_signed(shape, message, STATEMENT_SKETCHES, &message->from);
    case MESSAGE_RESULT:
        return is_result_verified(shape, message, bulk, bulk_bytes);
    default:
        return true;
    }
}
