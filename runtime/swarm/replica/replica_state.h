/* replica_state: what the files of the replica share: stretches of the flat space, one after the
 * other, so that whatever P is a few megabytes of scratch are enough. */
#ifndef SKEP_SWARM_REPLICA_REPLICA_STATE_H
#define SKEP_SWARM_REPLICA_REPLICA_STATE_H

#include "runtime/swarm/replica/replica.h"

/* replica_chunk_at: of [begin, end), what comes from `at` on; at most REPLICA_CHUNK_ELEMENTS
 * elements. */
static inline struct replica_chunk replica_chunk_at(int64_t at, int64_t end) {
    int64_t left = end - at;
    return (struct replica_chunk){at,
                                  left < REPLICA_CHUNK_ELEMENTS ? left : REPLICA_CHUNK_ELEMENTS};
}

/* replica_chunk_max: elements of the longest one. */
static inline int64_t replica_chunk_max(const struct replica_shape *shape) {
    int64_t count = shape->slices.parameter_count;
    return count < REPLICA_CHUNK_ELEMENTS ? count : REPLICA_CHUNK_ELEMENTS;
}

/* replica_scratch: one of the two buffers of a stretch; with a device slot s has 2 s and 2 s + 1.
 */
static inline float *replica_scratch(const struct replica *replica, int which) {
    return replica->scratch + which * replica_chunk_max(&replica->shape);
}

/* replica_encoded: where element `begin` lies in the encoding of the whole space. */
static inline uint64_t replica_encoded(const struct replica *replica, int64_t begin) {
    return codec_bytes(replica->shape.slices.codec, begin);
}

/* replica_pseudo_gradient: outer - inner of a stretch.
 * shapes  gradient [stretch.count] */
void replica_pseudo_gradient(const struct replica *replica, struct replica_chunk stretch,
                             float *gradient);

/* replica_hash_leaves: the names of the leaves that begin in a stretch, from what their elements
 * are in `params` and `momentum`.
 * shapes  params, momentum [stretch.count]; names [leaf_count] of the whole state
 * limits  the stretch begins with a leaf and ends with one */
void replica_hash_leaves(const struct replica *replica, struct replica_chunk stretch,
                         const float *params, const float *momentum, struct hash *names);

/* replica_chunk_of_leaf: the elements of a leaf. */
struct replica_chunk replica_chunk_of_leaf(const struct replica *replica, uint64_t index);

/* replica_root_of: the root over all leaves' names. */
struct hash replica_root_of(const struct replica *replica, const struct hash *names);

/* replica_reset_inner_on_cpu: replica_reset_inner for the inner weights that the processor
 * reaches. */
void replica_reset_inner_on_cpu(struct replica *replica);

/* replica_settle: wait for what a slot of the device was given, if there is a device. False: what
 * it encoded was not finite. */
MUST_CHECK static inline bool replica_settle(const struct replica *replica, int slot) {
    return replica->device == NULL || replica->device->methods->wait(replica->device, slot);
}

/* replica_advance_feedback: in the slices that name `seat`: feedback = what was meant less what was
 * sent, and what the own re-encoding left. Before the outer step. */
void replica_advance_feedback(struct replica *replica, const struct entry *entry, uint32_t seat);

#endif
