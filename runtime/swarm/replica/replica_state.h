/* replica_state: functions shared by the source files of the replica. They process the flat space
 * chunk by chunk, so a few megabytes of scratch memory suffice for any number of parameters. */
#ifndef SKEP_SWARM_REPLICA_REPLICA_STATE_H
#define SKEP_SWARM_REPLICA_REPLICA_STATE_H

#include "runtime/swarm/replica/replica.h"

/* replica_chunk_at: return the chunk [at, end), limited to REPLICA_CHUNK_ELEMENTS elements. */
static inline struct replica_chunk replica_chunk_at(int64_t at, int64_t end) {
    int64_t left = end - at;
    return (struct replica_chunk){at,
                                  left < REPLICA_CHUNK_ELEMENTS ? left : REPLICA_CHUNK_ELEMENTS};
}

/* replica_chunk_elements_max: return the number of elements of the longest chunk. */
static inline int64_t replica_chunk_elements_max(const struct replica_shape *shape) {
    int64_t count = shape->slices.parameter_count;
    return count < REPLICA_CHUNK_ELEMENTS ? count : REPLICA_CHUNK_ELEMENTS;
}

/* replica_scratch: return scratch buffer `index`, which is one chunk long. There are two buffers;
 * with a device, slot s uses buffers 2 s and 2 s + 1. */
static inline float *replica_scratch(const struct replica *replica, int index) {
    return replica->scratch + index * replica_chunk_elements_max(&replica->shape);
}

/* replica_encoded_offset: return the byte offset of element `begin` in the encoding of the whole
 * space.
 * limits  the codec is not sparse */
static inline uint64_t replica_encoded_offset(const struct replica *replica, int64_t begin) {
    return codec_bytes(replica->shape.slices.codec, begin);
}

/* replica_momentum_at: return the momentum from element `begin` on; NULL with a sparse codec. */
static inline float *replica_momentum_at(const struct replica *replica, int64_t begin) {
    return replica->momentum == NULL ? NULL : replica->momentum + begin;
}

/* replica_pseudo_gradient: compute outer minus inner weights of a chunk.
 * shapes  gradient [chunk.count] */
void replica_pseudo_gradient(const struct replica *replica, struct replica_chunk chunk,
                             float *gradient);

/* replica_hash_leaves: hash the leaves of a chunk, whose elements are in `params` and `momentum`.
 * Returns false when an element is not finite.
 * shapes  params, momentum [chunk.count], momentum NULL with a sparse codec; hashes [leaf_count] of
 *         the whole state
 * limits  the chunk consists of whole leaves */
bool replica_hash_leaves(const struct replica *replica, struct replica_chunk chunk,
                         const float *params, const float *momentum, struct hash *hashes);

/* replica_chunk_of_leaf: return the elements that leaf `index` covers. */
struct replica_chunk replica_chunk_of_leaf(const struct replica *replica, uint64_t index);

/* replica_leaf_hash: the hash of one leaf with these elements.
 * shapes  params, momentum [count], momentum NULL with a sparse codec */
struct hash replica_leaf_hash(const float *params, const float *momentum, int64_t count);

/* replica_root_of: compute the root from the hashes of all leaves. */
struct hash replica_root_of(const struct replica *replica, const struct hash *hashes);

/* replica_declared_bytes: the size of a contribution's Merkle tree and norms. */
uint64_t replica_declared_bytes(uint32_t slice_count);

/* replica_reset_inner_on_cpu: perform replica_reset_inner for inner weights in host memory. */
void replica_reset_inner_on_cpu(struct replica *replica);

/* replica_set_root: set the root of the current state, and discard the root computed for a vote.
 * replica_set_leaf_hash: set the hash of leaf `index`.
 * replica_set_voted_root: record that the state after `round` has this root and the hashes in
 * voted_leaves.
 * replica_drop_voted_root: discard the root computed for a vote, because the results that it
 * depends on may change. replica_attach_device: perform most of the arithmetic on `device` from now
 * on. */
void replica_set_root(struct replica *replica, const struct hash *root);
void replica_set_leaf_hash(struct replica *replica, uint64_t index, const struct hash *hash);
void replica_set_voted_root(struct replica *replica, uint32_t round, const struct hash *root);
void replica_drop_voted_root(struct replica *replica);
void replica_attach_device(struct replica *replica, struct replica_device *device);

/* replica_wait_slot: wait for a slot's work on the device. Returns false if the slot encoded a
 * value that is not finite, and true without a device. */
MUST_CHECK static inline bool replica_wait_slot(const struct replica *replica, int slot) {
    return replica->device == NULL || replica->device->methods->wait(replica->device, slot);
}

/* replica_total_weight: the total weight of the addends of a mean, or 0 if it reaches 2^53.
 * replica_addend_share: the factor of an addend in the mean.
 * replica_encode_mean: encode the mean of a slice into `bytes`, as replica_sum does. It uses the
 * first scratch buffer. */
uint64_t replica_total_weight(const struct addend *addends, uint32_t count);
float replica_addend_share(const struct addend *addend, uint64_t total);
void replica_encode_mean(const struct replica *replica, uint32_t slice,
                         const struct addend *addends, uint32_t count, uint8_t *bytes);

/* replica_advance_feedback: update the feedback of the slices to which `seat` contributed or that
 * it owns: the exact contribution minus its encoding, plus the residual of the re-encoding. Call it
 * before the outer step. */
void replica_advance_feedback(struct replica *replica, const struct entry *entry, uint32_t seat);

/* Functions for a sparse codec (replica_sparse.c):
 * replica_encode_sparse            encode the contribution, outer - inner weights plus 0.95 times
 *                                  the feedback; false if a value is not finite
 * replica_sparse_mean              compute the means of a chunk from the results of a round
 * replica_advance_sparse_feedback  set the feedback of all slices to the values that the
 *                                  contribution encodes, minus what it sent to slices whose
 *                                  result contains it. Nothing changes if no slice contains
 *                                  the contribution, or if it has no weight
 * shapes  mean, sums_of_shares [chunk.count]; the latter is scratch memory */
MUST_CHECK bool replica_encode_sparse(struct replica *replica);
void replica_sparse_mean(const struct compute *compute, const struct replica *replica,
                         uint32_t round, struct replica_chunk chunk, float *mean,
                         float *sums_of_shares);
void replica_advance_sparse_feedback(struct replica *replica, const struct entry *entry,
                                     uint32_t seat);

#endif
