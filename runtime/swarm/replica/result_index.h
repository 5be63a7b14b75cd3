/* result_index: for each result in a replica's rows its owner, contributors and signature, so that
 * this member can send it to members that lack it.
 *
 *     round 7 | s0 | s1 |    | s3 |      RESULT_ROUNDS rows: of the open and the previous round
 *     round 8 | s0 |    |    |    |      a new round reuses the row of the oldest */
#ifndef SKEP_SWARM_REPLICA_RESULT_INDEX_H
#define SKEP_SWARM_REPLICA_RESULT_INDEX_H

#include "runtime/swarm/replica/replica.h"

#include <stdbool.h>
#include <stddef.h>

struct stored_result {
    bool is_stored;
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

/* result_index_bytes: size of the table. result_index_bind: an empty index, with its table in
 * `memory`. */
size_t result_index_bytes(uint32_t slice_count);
void result_index_bind(struct result_index *index, void *memory, uint32_t slice_count);

/* result_index_slot: the slot of a result whose bytes are about to change. Its is_stored is false;
 * the caller fills the slot in when the bytes are complete. */
struct stored_result *result_index_slot(struct result_index *index, uint32_t round, uint32_t slice);

/* result_index_find: the stored result of that round and slice if it has this hash, else NULL. */
const struct stored_result *result_index_find(const struct result_index *index, uint32_t round,
                                              uint32_t slice, const struct hash *hash);

#endif
