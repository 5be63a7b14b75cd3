#include "runtime/swarm/ledger/statement.h"

static const char *const CONTEXTS[] = {
    [STATEMENT_RESULT] = "skep result", [STATEMENT_SKETCHES] = "skep sketches"};

static void pack_result(struct packer *packer, void *object) {
    struct statement *statement = object;
    pack_bytes(packer, "swarm", statement->swarm.bytes, HASH_BYTES);
    pack_u32(packer, "round", &statement->round);
    pack_u32(packer, "slice", &statement->slice);
    pack_u32(packer, "epoch", &statement->epoch);
    pack_u64(packer, "contributors", &statement->contributors);
    pack_bytes(packer, "hash", statement->hash.bytes, HASH_BYTES);
}

static void pack_sketches(struct packer *packer, void *object) {
    struct statement *statement = object;
    pack_bytes(packer, "swarm", statement->swarm.bytes, HASH_BYTES);
    pack_u32(packer, "round", &statement->round);
    pack_u32(packer, "slice", &statement->slice);
    pack_bytes(packer, "seed", statement->seed.bytes, HASH_BYTES);
    pack_bytes(packer, "hash", statement->hash.bytes, HASH_BYTES);
}

static struct hash hash_statement(enum statement_kind kind, const struct statement *statement) {
    struct statement copy = *statement;
    struct hash_state state;
    hash_begin(&state);
    packer_hash(
        (struct packed_object){kind == STATEMENT_RESULT ? pack_result : pack_sketches, &copy},
        &state);
    return hash_end(&state);
}

void statement_sign(enum statement_kind kind, const struct statement *statement,
                    const struct key_pairs *keys, struct signature *signature) {
    const struct hash hash = hash_statement(kind, statement);
    keys_sign(keys, CONTEXTS[kind], hash.bytes, HASH_BYTES, signature->bytes);
}

bool statement_is_signed_by(enum statement_kind kind, const struct statement *statement,
                            const struct identity *id, const struct signature *signature) {
    const struct hash hash = hash_statement(kind, statement);
    return keys_verify(id->bytes, CONTEXTS[kind], hash.bytes, HASH_BYTES, signature->bytes);
}

const char *statement_evidence_error(const struct hash *swarm, const struct entry *entry) {
    const struct entry_suspension *suspension = &entry->suspension;
    const struct entry_evidence *evidence = &suspension->evidence;
    const struct statement statement = {.swarm = *swarm,
                                        .round = entry->round,
                                        .slice = evidence->slice,
                                        .epoch = evidence->epoch,
                                        .contributors = evidence->contributors,
                                        .seed = evidence->seed,
                                        .hash = evidence->hash};
    const enum statement_kind kind =
        suspension->reason == SUSPENSION_WRONG_SKETCH ? STATEMENT_SKETCHES : STATEMENT_RESULT;
    return statement_is_signed_by(kind, &statement, &suspension->id, &evidence->signature)
               ? NULL
               : "has evidence without a valid signature of the suspended member";
}
