/* statement: what members sign about one slice of a round, apart from their votes: results that
 * they computed, and sketches of their contributions. A ledger names a member whose statement was
 * false, and repeats the statement. */
#ifndef SKEP_SWARM_LEDGER_STATEMENT_H
#define SKEP_SWARM_LEDGER_STATEMENT_H

#include "base/check.h"
#include "runtime/swarm/ledger/entry.h"
#include "transport/identity/keys.h"

struct statement {
    struct hash swarm; /* hash of the manifest */
    uint32_t round;
    uint32_t slice;        /* RESULT: the slice; SKETCHES: the first slice of the page */
    uint32_t epoch;        /* RESULT: epoch of the slice when the result was computed */
    uint64_t contributors; /* RESULT: seats whose contributions are in the result */
    struct hash seed;      /* SKETCHES: seed of the sketches */
    struct hash hash;      /* hash of the bytes of the result or of the sketches */
};

enum statement_kind {
    STATEMENT_RESULT,   /* signs round, slice, epoch, contributors, hash; context "skep result" */
    STATEMENT_SKETCHES, /* signs round, slice, seed, hash; context "skep sketches" */
};

/* statement_sign: sign a statement. The signature covers the hash of a MessagePack map of the swarm
 * hash, as `swarm`, and the fields of the kind, in this order.
 * statement_is_signed_by: whether the member with this key signed the statement. */
void statement_sign(enum statement_kind kind, const struct statement *statement,
                    const struct key_pairs *keys, struct signature *signature);
MUST_CHECK bool statement_is_signed_by(enum statement_kind kind, const struct statement *statement,
                                       const struct identity *id,
                                       const struct signature *signature);

/* statement_evidence_error: NULL if the suspended member signed the statement of the evidence about
 * a slice of this round; else a text that describes the error.
 * limits  entry_has_evidence(&entry->suspension) */
MUST_CHECK const char *statement_evidence_error(const struct hash *swarm,
                                                const struct entry *entry);

#endif
