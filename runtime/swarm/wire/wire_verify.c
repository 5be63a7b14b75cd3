/* wire_verify: signs messages, and verifies that the required identities signed them. */
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/ledger.h"
#include "runtime/swarm/wire/wire.h"

#include <string.h>

static const char DECLARATION[] = "skep declaration";
static const char RESULT[] = "skep result";

/* The signed fields of a declaration. */
struct declaration {
    struct hash swarm;
    struct hash open; /* hash of the round's OPEN, which has the session of the seat */
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

static struct hash hash_packed(struct packed_object object) {
    struct hash_state state;
    hash_begin(&state);
    packer_hash(object, &state);
    return hash_end(&state);
}

static struct hash declaration_hash(const struct wire_shape *shape,
                                    struct declaration declaration) {
    declaration.swarm = shape->swarm;
    return hash_packed((struct packed_object){pack_declaration, &declaration});
}

/* The signed fields of a result. */
struct signed_result {
    struct hash swarm;
    struct message message;
};

static void pack_signed_result(struct packer *pack, void *object) {
    struct signed_result *result = object;
    pack_bytes(pack, "swarm", result->swarm.bytes, HASH_BYTES);
    pack_u32(pack, "round", &result->message.round);
    pack_u32(pack, "slice", &result->message.slice);
    pack_u32(pack, "epoch", &result->message.epoch);
    pack_u64(pack, "contributors", &result->message.contributors);
    pack_bytes(pack, "hash", result->message.hash.bytes, HASH_BYTES);
}

static struct hash result_hash(const struct wire_shape *shape, const struct message *message) {
    struct signed_result result = {shape->swarm, *message};
    return hash_packed((struct packed_object){pack_signed_result, &result});
}

static struct hash declared_hash(const struct wire_shape *shape, const struct message *message) {
    return declaration_hash(shape, (struct declaration){.open = message->hash,
                                                        .round = message->round,
                                                        .tokens = message->trained.tokens,
                                                        .samples = message->trained.samples,
                                                        .norm = message->trained.norm,
                                                        .root = message->root});
}

void wire_sign(const struct wire_shape *shape, const struct key_pairs *keys,
               struct message *message) {
    if (message->kind == MESSAGE_DECLARE) {
        const struct hash hash = declared_hash(shape, message);
        keys_sign(keys, DECLARATION, hash.bytes, HASH_BYTES, message->signature.bytes);
    } else if (message->kind == MESSAGE_RESULT) {
        const struct hash hash = result_hash(shape, message);
        memcpy(message->owner.bytes, keys->public_keys.sign, SWARM_IDENTITY_BYTES);
        keys_sign(keys, RESULT, hash.bytes, HASH_BYTES, message->signature.bytes);
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

/* The rows of the seats must be signed by the members that declared them. */
static bool are_declarations_verified(const struct wire_shape *shape, const struct entry *open,
                                      const struct round_table *table) {
    bool verified = true;
    for (uint32_t seat = 0; seat < open->seat_count && verified; seat++) {
        if ((table->declared_seats >> seat & 1) != 0) {
            const struct hash hash = declaration_hash(
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

/* The tracker decides which seat owns a slice, so the plans are only range-checked. With a base,
 * the receiver has the declarations. */
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
    const struct hash signed_hash = result_hash(shape, message);
    const struct hash hash = hash_of(bulk, bulk_bytes);
    return hash_equal(&hash, &message->hash) &&
           is_signed_by(&message->owner, RESULT, &signed_hash, &message->signature);
}

bool wire_is_verified(const struct wire_shape *shape, const uint8_t tracker_key[static KEY_BYTES],
                      const struct entry *open, struct message *message, const uint8_t *bulk,
                      size_t bulk_bytes) {
    struct hash hash;
    switch (message->kind) {
    case MESSAGE_DECLARE:
        hash = declared_hash(shape, message);
        return is_signed_by(&message->from, DECLARATION, &hash, &message->signature);
    case MESSAGE_VOTE:
        return hash_is_zero(&message->root) ||
               ledger_is_signed_by(message->from.bytes, &message->hash, &message->signature);
    case MESSAGE_ENTRY:
        return is_entry_verified(tracker_key, message->entry);
    case MESSAGE_TABLE:
        return is_table_verified(shape, open, message->table, message->version);
    case MESSAGE_CONTRIBUTION:
        message->hash = hash_of(bulk, bulk_bytes);
        return true;
    case MESSAGE_RESULT:
        return is_result_verified(shape, message, bulk, bulk_bytes);
    default:
        return true;
    }
}
