/* sparse_result: the result of a slice with a sparse codec: the list of the contributions to it,
 * from which each member computes the mean itself. Its owner does not add them, because the mean of
 * sparse contributions is not sparse enough to be encoded again. Everything that the mean depends
 * on is in the list, so any member with the list and its hash can apply it.
 *
 *     | seats 8 | value limit 8, fp64 | head | head ... | encoding | encoding ... |
 *
 *     head    | weight 8 | norm 8, fp64 | clip 4, fp32 | path length 4 | path, 32 each |
 *
 * There are one head and one encoding for each seat of the mask `seats`, in ascending order. All
 * heads of a swarm have the size of the one with the longest path; what a path leaves of it is
 * zero. Numbers are little-endian.
 *
 * Mean of an element: the sum of share x value over the members that sent it, divided by the sum of
 * their shares; 0 where no member sent it. Each share is a weight divided by the sum of all weights
 * of the list (outer_token_share). The values of a contribution are multiplied by its clip factor;
 * those of a block whose largest one then still exceeds the value limit are scaled down to it. */
#ifndef SKEP_SWARM_REPLICA_SPARSE_RESULT_H
#define SKEP_SWARM_REPLICA_SPARSE_RESULT_H

#include "runtime/swarm/replica/replica.h"

enum {
    SPARSE_RESULT_HEADER_BYTES = 16, /* size of seats and value limit */
    SPARSE_RESULT_HEAD_BYTES = 24    /* size of a head without its path */
};

/* sparse_result_head_bytes: size of a head. sparse_result_bytes: size of a list of `count`
 * contributions. */
uint64_t sparse_result_head_bytes(uint32_t slice_count);
uint64_t sparse_result_bytes(const struct slices *slices, uint32_t slice, uint32_t count);

/* sparse_result_begin_list: write the header of a list.
 * sparse_result_seats, sparse_result_value_limit: read a field of the header. */
void sparse_result_begin_list(uint8_t *bytes, uint64_t seats, double value_limit);
uint64_t sparse_result_seats(const uint8_t *bytes);
double sparse_result_value_limit(const uint8_t *bytes);

/* sparse_result_write_head: write head `index`, which is counted from 0 in the order of seats.
 * sparse_result_read_head: read head `index`. Returns false if the head is not well-formed, or one
 * of its numbers is out of range: norm and clip of contributions, and weights whose sum may reach
 * 2^53.
 * sparse_result_encoding_offset: the byte offset of encoding `index` in a list of `count`
 * contributions. */
void sparse_result_write_head(const struct slices *slices, uint8_t *bytes, uint32_t index,
                              const struct contribution_part *part);
MUST_CHECK bool sparse_result_read_head(const struct slices *slices, const uint8_t *bytes,
                                        uint32_t index, struct contribution_part *part);
uint64_t sparse_result_encoding_offset(const struct slices *slices, uint32_t slice, uint32_t count,
                                       uint32_t index);

/* sparse_result_is_valid: whether received bytes are a list in this form with valid encodings, so
 * that a mean can be computed from it. Paths, norms and weights are not compared with anything. */
MUST_CHECK bool sparse_result_is_valid(const struct slices *slices, uint32_t slice,
                                       const uint8_t *bytes, uint64_t size);

/* sparse_result_mean: the mean of elements [chunk.begin, chunk.begin + chunk.count) of the slice.
 * shapes  mean, sums_of_shares [chunk.count]; the latter is scratch memory
 * limits  sparse_result_is_valid; the chunk lies within the slice, and begins a whole number of
 *         blocks after it */
void sparse_result_mean(const struct compute *compute, const struct slices *slices, uint32_t slice,
                        const uint8_t *bytes, struct replica_chunk chunk, float *mean,
                        float *sums_of_shares);

#endif
