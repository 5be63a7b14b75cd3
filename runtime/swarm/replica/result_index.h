/* result_index: whose the results in a replica's rows are, with their owners' signatures, so that
 * they can be served to whoever lacks them.
 *
 *     round 7 | s0 | s1 |    | s3 |      RESULT_ROUNDS rows: the open round's and the one before
 *     round 8 | s0 |    |    |    |      a new round takes the row of the oldest */
#ifndef SKEP_SWARM_REPLICA_RESULT_INDEX_H
#define SKEP_SWARM_REPLICA_RESULT_INDEX_H

#include "runtime/swarm/replica/replica.h"

#include <stdbool.h>
#include <stddef.h>

struct stored_result {
    bool is_held;
    uint32_t epoch;
    uint64_t contributors;
    struct hash hash;
    struct identity owner;
    struct signature signature;
};

struct result_index {
    uint32_t slice_count;
    uint32_t rounds[RESULT_ROUNDS]; /* 0: none yet */
    struct stored_result *results;  /* [RESULT_ROUNDS * slice_count] */
};

size_t result_index_bytes(uint32_t slice_count);
void result_index_bind(struct result_index *rows, void *memory, uint32_t slice_count);

/* result_index_slot: where to note a result whose bytes are about to change; not held until the
 * caller says so. */
struct stored_result *result_index_slot(struct result_index *rows, uint32_t round, uint32_t slice);

/* result_index_find: what is held of this hash, else NULL. */
const struct stored_result *result_index_find(const struct result_index *rows, uint32_t round,
                                              uint32_t slice, const struct hash *hash);

#endif
