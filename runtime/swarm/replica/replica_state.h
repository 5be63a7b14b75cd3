/* replica_state: shared by the files of the replica. They process the flat space one chunk after
 * the other, so a few megabytes of scratch suffice for any P. */
#ifndef SKEP_SWARM_REPLICA_REPLICA_STATE_H
#define SKEP_SWARM_REPLICA_REPLICA_STATE_H

#include "runtime/swarm/replica/replica.h"

/* replica_chunk_at: the chunk that begins at `at`: [at, end), limited to REPLICA_CHUNK_ELEMENTS. */
static inline struct replica_chunk replica_chunk_at(int64_t at, int64_t end) {
    int64_t left = end - at;
    return (struct replica_chunk){at,
                                  left < REPLICA_CHUNK_ELEMENTS ? left : REPLICA_CHUNK_ELEMENTS};
}

/* replica_chunk_max: elements of the longest chunk. */
static inline int64_t replica_chunk_max(const struct replica_shape *shape) {
    int64_t count = shape->slices.parameter_count;
    return count < REPLICA_CHUNK_ELEMENTS ? count : REPLICA_CHUNK_ELEMENTS;
}

/* replica_scratch: scratch buffer `which`, one chunk long. There are two; with a device, slot s
 * owns buffers 2 s and 2 s + 1. */
static inline float *replica_scratch(const struct replica *replica, int which) {
    return replica->scratch + which * replica_chunk_max(&replica->shape);
}

/* replica_encoded_offset: byte offset of element `begin` in the encoding of the whole space. */
static inline uint64_t replica_encoded_offset(const struct replica *replica, int64_t begin) {
    return codec_bytes(replica->shape.slices.codec, begin);
}

/* replica_pseudo_gradient: outer - inner weights of a chunk.
 * shapes  gradient [chunk.count] */
void replica_pseudo_gradient(const struct replica *replica, struct replica_chunk chunk,
                             float *gradient);

/* replica_hash_leaves: hash the leaves of a chunk, whose elements are in `params` and `momentum`.
 * shapes  params, momentum [chunk.count]; hashes [leaf_count] of the whole state
 * limits  the chunk consists of whole leaves */
void replica_hash_leaves(const struct replica *replica, struct replica_chunk chunk,
                         const float *params, const float *momentum, struct hash *hashes);

/* replica_chunk_of_leaf: the elements of a leaf. */
struct replica_chunk replica_chunk_of_leaf(const struct replica *replica, uint64_t index);

/* replica_root_of: the root of the leaves with these hashes. */
struct hash replica_root_of(const struct replica *replica, const struct hash *hashes);

/* replica_reset_inner_on_cpu: replica_reset_inner for the inner weights in host memory. */
void replica_reset_inner_on_cpu(struct replica *replica);

/* replica_set_root: the state now has this root; a computed vote is dropped.
 * replica_set_leaf_hash: leaf `index` now has this hash.
 * replica_set_vote: the state has this root after `round`; voted_leaves are its hashes.
 * replica_drop_vote: the results that a vote was computed from may change.
 * replica_attach_device: `device` does most of the arithmetic from now on. */
void replica_set_root(struct replica *replica, const struct hash *root);
void replica_set_leaf_hash(struct replica *replica, uint64_t index, const struct hash *hash);
void replica_set_vote(struct replica *replica, uint32_t round, const struct hash *root);
void replica_drop_vote(struct replica *replica);
void replica_attach_device(struct replica *replica, struct replica_device *device);

/* replica_wait_slot: wait for a slot's work on the device; true without a device. false: the slot
 * encoded a value that is not finite. */
MUST_CHECK static inline bool replica_wait_slot(const struct replica *replica, int slot) {
    return replica->device == NULL || replica->device->methods->wait(replica->device, slot);
}

/* replica_advance_feedback: update the feedback of the slices to which `seat` contributed or that
 * it owns: the exact contribution minus its encoding, plus the residual of the re-encoding. Call it
 * before the outer step. */
void replica_advance_feedback(struct replica *replica, const struct entry *entry, uint32_t seat);

#endif
