#include "runtime/swarm/replica/replica.h"

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/outer.h"
#include "runtime/swarm/replica/replica_state.h"

#include <stdatomic.h>
#include <string.h>

_Static_assert(LEAF_ELEMENTS % SLICE_GRANULE == 0 && LEAF_SPARSE_ELEMENTS % SPARSE_BLOCK == 0,
               "each leaf begins at a block of its slice");
_Static_assert(REPLICA_CHUNK_ELEMENTS % LEAF_ELEMENTS == 0 &&
                   REPLICA_CHUNK_ELEMENTS % LEAF_SPARSE_ELEMENTS == 0,
               "a chunk is a whole number of leaves");

/* The exponent bits of an fp32 number, which are all set in infinities and NaN. */
enum { FP32_EXPONENT_MASK = 0x7f800000 };

static bool has_residual(const struct slices *slices) {
    return !slices_are_sparse(slices) && slices->codec == CODEC_INT4;
}

uint64_t replica_state_bytes(const struct slices *slices) {
    const uint64_t vectors = slices_are_sparse(slices) ? 1 : 2;
    ASSERT(slices->parameter_count > 0);
    return vectors * sizeof(float) * (uint64_t)slices->parameter_count;
}

uint64_t replica_leaf_count(const struct slices *slices) {
    return merkle_leaf_count(replica_state_bytes(slices));
}

/* Returns the size of a contribution slot in bytes. With a sparse codec, the slot also has the
 * proof of the contribution, which the result lists. */
static uint64_t contribution_slot_bytes(const struct slices *slices) {
    return slices_are_sparse(slices) ? align_up(slices->bytes_max, _Alignof(struct slice_proof)) +
                                           sizeof(struct slice_proof)
                                     : slices->bytes_max;
}

uint8_t *replica_contribution_slot(const struct replica *replica, uint32_t seat, uint32_t slot) {
    ASSERT(seat < replica->shape.members_max && slot < CONTRIBUTION_SLOTS_PER_MEMBER);
    return replica->slots + ((uint64_t)seat * CONTRIBUTION_SLOTS_PER_MEMBER + slot) *
                                contribution_slot_bytes(&replica->shape.slices);
}

struct slice_proof *replica_slot_proof(const struct replica *replica, uint32_t seat,
                                       uint32_t slot) {
    const struct slices *slices = &replica->shape.slices;
    ASSERT(slices_are_sparse(slices));
    uint8_t *proof = replica_contribution_slot(replica, seat, slot) +
                     align_up(slices->bytes_max, _Alignof(struct slice_proof));
    return (struct slice_proof *)(void *)proof;
}

struct replica_memory replica_memory_of(const struct replica_shape *shape) {
    const struct slices *slices = &shape->slices;
    int64_t count = slices->parameter_count;
    int64_t chunk = replica_chunk_elements_max(shape);
    uint64_t vector = sizeof(float) * (uint64_t)count;
    const bool is_sparse = slices_are_sparse(slices);
    const bool has_residuals = has_residual(slices);
    return (struct replica_memory){
        .params = vector,
        .momentum = is_sparse ? 0 : vector,
        .feedback = is_sparse || has_residuals ? vector : 0,
        .residual = has_residuals ? vector : 0,
        .contribution = slices->bytes,
        .declared = replica_declared_bytes(slices->count),
        .results = RESULT_ROUNDS * slices_results_bytes(slices),
        .slots = (uint64_t)shape->members_max * CONTRIBUTION_SLOTS_PER_MEMBER *
                 contribution_slot_bytes(slices),
        .residual_sources = has_residuals ? slices->count * sizeof(struct residual_source) : 0,
        .leaves = 2 * replica_leaf_count(slices) * sizeof(struct hash),
        .scratch = 2 * sizeof(float) * (uint64_t)chunk,
    };
}

struct replica_device_memory replica_device_memory_of(const struct replica_shape *shape) {
    int64_t chunk = replica_chunk_elements_max(shape);
    uint64_t vector = sizeof(float) * (uint64_t)chunk;
    if (slices_are_sparse(&shape->slices)) {
        return (struct replica_device_memory){.slots = 0}; /* the CPU does all the arithmetic */
    }
    uint64_t slot = 3 * align_up(vector, REPLICA_DEVICE_ALIGNMENT) +
                    align_up(codec_bytes(shape->slices.codec, chunk), REPLICA_DEVICE_ALIGNMENT) +
                    REPLICA_DEVICE_ALIGNMENT;
    return (struct replica_device_memory){.slots = REPLICA_DEVICE_SLOTS * slot,
                                          .scratch = REPLICA_DEVICE_SLOTS * 2 * vector +
                                                     REPLICA_DEVICE_ALIGNMENT};
}

/* ---- the inner weights ---- */

/* Reads inner weights of one part. The status is not needed: the device records its failure, and
 * the caller checks that record before it uses the values. */
static void read_inner_weights(const struct flat_span *part, int64_t first, int64_t count,
                               float *values) {
    struct fault ignored;
    enum status status = device_read(part->device_memory, part->values + first, values,
                                     (size_t)count * sizeof *values, &ignored);
    (void)status;
}

static void write_inner_weights(const struct flat_span *part, const float *values) {
    struct fault ignored;
    enum status status = device_write(part->device_memory, part->values, values,
                                      (size_t)part->count * sizeof *values, &ignored);
    (void)status;
}

/* Returns the overlap of a chunk and a part. A count of 0 or less means that they do not
 * overlap. */
static struct replica_chunk overlap_with_chunk(struct replica_chunk chunk,
                                               const struct flat_span *part) {
    int64_t begin = chunk.begin > part->begin ? chunk.begin : part->begin;
    int64_t end = chunk.begin + chunk.count;
    int64_t part_end = part->begin + part->count;
    return (struct replica_chunk){begin, (end < part_end ? end : part_end) - begin};
}

void replica_pseudo_gradient(const struct replica *replica, struct replica_chunk chunk,
                             float *gradient) {
    for (int i = 0; i < replica->part_count; i++) {
        const struct flat_span *part = &replica->parts[i];
        struct replica_chunk shared = overlap_with_chunk(chunk, part);
        if (shared.count <= 0) {
            continue;
        }
        const float *inner = part->values + (shared.begin - part->begin);
        float *target = gradient + (shared.begin - chunk.begin);
        if (part->device_memory != NULL) {
            read_inner_weights(part, shared.begin - part->begin, shared.count, target);
            inner = target;
        }
        outer_gradient_run(replica->compute, shared.count, replica->params + shared.begin, inner,
                           target);
    }
}

static void copy_outer_to_inner_weights(struct replica *replica, bool host_only) {
    for (int i = 0; i < replica->part_count; i++) {
        const struct flat_span *part = &replica->parts[i];
        if (!host_only || part->device_memory == NULL) {
            write_inner_weights(part, replica->params + part->begin);
        }
    }
}

void replica_reset_inner_on_cpu(struct replica *replica) {
    copy_outer_to_inner_weights(replica, true);
}

void replica_reset_inner(struct replica *replica) {
    if (replica->device != NULL) {
        replica->device->methods->reset_inner(replica->device);
    }
    copy_outer_to_inner_weights(replica, replica->device != NULL);
}

/* ---- leaves ---- */

struct hash_leaf_args {             /* arguments of hash_one_leaf */
    struct replica_chunk chunk;     /* the leaves to hash */
    int64_t leaf_elements;          /* elements of each leaf but the last */
    const float *params, *momentum; /* outer state of the chunk */
    struct hash *hashes;            /* receives the leaf hashes */
    _Atomic bool has_nonfinite;     /* set when a value of any leaf is not finite */
};

/* Whether all values are finite. Compares exponents as integers, which the compiler vectorizes. */
static bool are_finite(const float *values, size_t count) {
    uint32_t nonfinite = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        nonfinite |= (bits & FP32_EXPONENT_MASK) == FP32_EXPONENT_MASK;
    }
    return nonfinite == 0;
}

struct hash replica_leaf_hash(const float *params, const float *momentum, int64_t count) {
    const size_t bytes = sizeof(float) * (size_t)count;
    return momentum == NULL ? merkle_leaf_hash(params, bytes)
                            : merkle_leaf_hash_joined(params, bytes, momentum, bytes);
}

static void hash_one_leaf(void *context, int64_t item, int thread) {
    (void)thread;
    struct hash_leaf_args *leaf_hashing = context;
    int64_t first = item * leaf_hashing->leaf_elements;
    int64_t count = min_i64(leaf_hashing->chunk.count - first, leaf_hashing->leaf_elements);
    const float *params = leaf_hashing->params + first;
    const float *momentum = leaf_hashing->momentum == NULL ? NULL : leaf_hashing->momentum + first;
    leaf_hashing->hashes[leaf_hashing->chunk.begin / leaf_hashing->leaf_elements + item] =
        replica_leaf_hash(params, momentum, count);
    if (!are_finite(params, (size_t)count) ||
        (momentum != NULL && !are_finite(momentum, (size_t)count))) {
        atomic_store_explicit(&leaf_hashing->has_nonfinite, true, memory_order_relaxed);
    }
}

bool replica_hash_leaves(const struct replica *replica, struct replica_chunk chunk,
                         const float *params, const float *momentum, struct hash *hashes) {
    const int64_t leaf_elements = slices_leaf_elements(&replica->shape.slices);
    ASSERT(chunk.begin % leaf_elements == 0);
    struct hash_leaf_args leaf_hashing = {.chunk = chunk,
                                          .leaf_elements = leaf_elements,
                                          .params = params,
                                          .momentum = momentum,
                                          .hashes = hashes};
    pool_run(replica->compute->pool, hash_one_leaf, &leaf_hashing,
             div_ceil(chunk.count, leaf_elements));
    return !atomic_load_explicit(&leaf_hashing.has_nonfinite, memory_order_relaxed);
}

struct hash replica_root_of(const struct replica *replica, const struct hash *hashes) {
    return merkle_root_from_leaves(replica_state_bytes(&replica->shape.slices), hashes);
}

void replica_set_root(struct replica *replica, const struct hash *root) {
    replica->root = *root;
    replica->voted_round = 0;
}

void replica_set_leaf_hash(struct replica *replica, uint64_t index, const struct hash *hash) {
    replica->leaves[index] = *hash;
}

void replica_set_voted_root(struct replica *replica, uint32_t round, const struct hash *root) {
    ASSERT(round > 0);
    replica->voted_root = *root;
    replica->voted_round = round;
}

void replica_drop_voted_root(struct replica *replica) {
    replica->voted_round = 0;
}

void replica_attach_device(struct replica *replica, struct replica_device *device) {
    ASSERT(replica->device == NULL);
    replica->device = device;
}

void replica_release_device(struct replica *replica) {
    if (replica->device != NULL) {
        replica->device->methods->release(replica->device);
        replica->device = NULL;
    }
}

void replica_refresh_hashes(struct replica *replica) {
    int64_t count = replica->shape.slices.parameter_count;
    for (int64_t at = 0; at < count; at += REPLICA_CHUNK_ELEMENTS) {
        (void)replica_hash_leaves(replica, replica_chunk_at(at, count), replica->params + at,
                                  replica_momentum_at(replica, at), replica->leaves);
    }
    const struct hash root = replica_root_of(replica, replica->leaves);
    replica_set_root(replica, &root);
}

void replica_clear_feedback(struct replica *replica) {
    const struct slices *slices = &replica->shape.slices;
    if (replica->feedback != NULL) {
        memset(replica->feedback, 0, sizeof(float) * (size_t)slices->parameter_count);
    }
    if (replica->residual_sources != NULL) {
        memset(replica->residual_sources, 0, sizeof *replica->residual_sources * slices->count);
    }
}

void replica_init_state(struct replica *replica) {
    int64_t next = 0;
    for (int i = 0; i < replica->part_count; i++) {
        const struct flat_span *part = &replica->parts[i];
        ASSERT(part->begin == next && part->count > 0);
        next += part->count;
        read_inner_weights(part, 0, part->count, replica->params + part->begin);
    }
    ASSERT(next == replica->shape.slices.parameter_count);
    if (replica->momentum != NULL) {
        memset(replica->momentum, 0, sizeof(float) * (size_t)next);
    }
    replica_clear_feedback(replica);
    replica_refresh_hashes(replica);
}

struct replica_chunk replica_chunk_of_leaf(const struct replica *replica, uint64_t index) {
    const struct slices *slices = &replica->shape.slices;
    const int64_t leaf_elements = slices_leaf_elements(slices);
    ASSERT(index < replica_leaf_count(slices));
    int64_t begin = (int64_t)index * leaf_elements;
    return (struct replica_chunk){begin, min_i64(slices->parameter_count - begin, leaf_elements)};
}

size_t replica_read_leaf(const struct replica *replica, uint64_t index, uint8_t *bytes) {
    struct replica_chunk leaf = replica_chunk_of_leaf(replica, index);
    const size_t vector = sizeof(float) * (size_t)leaf.count;
    memcpy(bytes, replica->params + leaf.begin, vector);
    if (replica->momentum == NULL) {
        return vector;
    }
    memcpy(bytes + vector, replica->momentum + leaf.begin, vector);
    return 2 * vector;
}

void replica_write_leaf(struct replica *replica, uint64_t index, const uint8_t *bytes) {
    struct replica_chunk leaf = replica_chunk_of_leaf(replica, index);
    const size_t vector = sizeof(float) * (size_t)leaf.count;
    memcpy(replica->params + leaf.begin, bytes, vector);
    if (replica->momentum != NULL) {
        memcpy(replica->momentum + leaf.begin, bytes + vector, vector);
    }
}
