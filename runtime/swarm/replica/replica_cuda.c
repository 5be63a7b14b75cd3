#include "runtime/swarm/replica/replica_cuda.h"

#include "base/bytes.h"
#include "kernels/cuda/launch/codec.h"
#include "kernels/cuda/launch/outer.h"
#include "runtime/swarm/replica/replica_state.h"

#include <string.h>

/* The arrays of one pipeline slot in device memory. */
struct slot_memory {
    float *values;  /* Outer params, replaced in place by pseudo-gradients or by the next params. */
    float *moments; /* Momentum or feedback, replaced in place by the next values. */
    float *spare;   /* Decoded results, or inner weights copied from host memory. */
    uint8_t *encoded;        /* Encoded contribution or results. */
    int32_t *rejected_count; /* number of encoded values that are not finite */
};

static struct replica_cuda *as_replica_cuda(struct replica_device *device) {
    return (struct replica_cuda *)device;
}

static struct slot_memory slot_memory_of(const struct replica_cuda *cuda, int slot) {
    const struct replica_shape *shape = &cuda->replica->shape;
    uint64_t bytes = replica_device_memory_of(shape).slots / REPLICA_DEVICE_SLOTS;
    uint64_t encoded = codec_bytes(shape->slices.codec, replica_chunk_elements_max(shape));
    uint64_t words = REPLICA_DEVICE_ALIGNMENT;
    uint64_t vector = (bytes - words - align_up(encoded, words)) / 3;
    char *begin = cuda->slot_memory + (uint64_t)slot * bytes;
    return (struct slot_memory){.values = (float *)begin,
                                .moments = (float *)(begin + vector),
                                .spare = (float *)(begin + 2 * vector),
                                .encoded = (uint8_t *)(begin + 3 * vector),
                                .rejected_count = (int32_t *)(begin + bytes - words)};
}

/* Returns the slot's counter in host memory of values that the encoding rejected as not finite. */
static int32_t *rejected_count_of(const struct replica_cuda *cuda, int slot) {
    return (int32_t *)replica_scratch(cuda->replica, 2 * REPLICA_DEVICE_SLOTS) + slot;
}

static CUdeviceptr device_pointer(const void *address) {
    return (CUdeviceptr)(uintptr_t)address;
}

static bool has_failed(const struct cuda_compute *compute) {
    return compute->failure->result != CUDA_SUCCESS;
}

/* Makes the device's CUDA context current, because the calling thread may not have one yet.
 * Returns the kernels of the slot. */
static const struct cuda_compute *set_context(const struct replica_cuda *cuda, int slot) {
    const struct cuda_compute *compute = &cuda->compute[slot];
    if (!has_failed(compute)) {
        cuda_record_result(compute, compute->driver->cuCtxSetCurrent(cuda->gpu->context),
                           "enter the context");
    }
    return compute;
}

static void enqueue_copy(const struct cuda_compute *compute, void *to, const void *from,
                         uint64_t bytes) {
    if (!has_failed(compute)) {
        cuda_record_result(compute,
                           compute->driver->cuMemcpyAsync(device_pointer(to), device_pointer(from),
                                                          bytes, compute->stream),
                           "copy the outer state");
    }
}

static void enqueue_value_copy(const struct cuda_compute *compute, float *to, const float *from,
                               int64_t count) {
    enqueue_copy(compute, to, from, (uint64_t)count * sizeof *to);
}

static bool wait_for_slot(struct replica_device *device, int slot) {
    struct replica_cuda *cuda = as_replica_cuda(device);
    const struct cuda_compute *compute = set_context(cuda, slot);
    if (!has_failed(compute)) {
        cuda_record_result(compute, compute->driver->cuStreamSynchronize(compute->stream),
                           "compute on the outer state");
    }
    bool has_count = cuda->has_unread_count[slot] && !has_failed(compute);
    cuda->has_unread_count[slot] = false;
    return !has_count || *rejected_count_of(cuda, slot) == 0;
}

/* ---- contributions ---- */

/* Returns the overlap of a chunk and a part. A count of 0 or less means that they do not
 * overlap. */
static struct replica_chunk overlap_with_part(struct replica_chunk chunk,
                                              const struct flat_span *part) {
    int64_t begin = chunk.begin > part->begin ? chunk.begin : part->begin;
    int64_t end = chunk.begin + chunk.count;
    int64_t part_end = part->begin + part->count;
    return (struct replica_chunk){begin, (end < part_end ? end : part_end) - begin};
}

/* Returns the device address of the inner weights. Inner weights in host memory are copied to the
 * device through the slot's pinned scratch. */
static const float *find_inner_on_device(const struct replica_cuda *cuda, int slot,
                                         struct replica_chunk chunk, const struct flat_span *part,
                                         struct replica_chunk shared) {
    const float *inner = part->values + (shared.begin - part->begin);
    if (part->device_memory != NULL) {
        return inner;
    }
    const struct slot_memory memory = slot_memory_of(cuda, slot);
    int64_t at = shared.begin - chunk.begin;
    float *staged = replica_scratch(cuda->replica, 2 * slot) + at;
    memcpy(staged, inner, (size_t)shared.count * sizeof *staged);
    enqueue_value_copy(&cuda->compute[slot], memory.spare + at, staged, shared.count);
    return memory.spare + at;
}

/* Computes the pseudo-gradient of a chunk, outer minus inner weights, into the slot's `values`. */
static void make_pseudo_gradient(const struct replica_cuda *cuda, int slot,
                                 struct replica_chunk chunk) {
    const struct replica *replica = cuda->replica;
    const struct cuda_compute *compute = &cuda->compute[slot];
    const struct slot_memory memory = slot_memory_of(cuda, slot);
    enqueue_value_copy(compute, memory.values, replica->params + chunk.begin, chunk.count);
    for (int i = 0; i < replica->part_count; i++) {
        struct replica_chunk shared = overlap_with_part(chunk, &replica->parts[i]);
        if (shared.count > 0) {
            const float *inner =
                find_inner_on_device(cuda, slot, chunk, &replica->parts[i], shared);
            float *values = memory.values + (shared.begin - chunk.begin);
            cuda_outer_gradient_run(compute, shared.count, values, inner, values);
        }
    }
}

/* Encodes a chunk in its slot. If `keeps_error` is true, the encoding error replaces the
 * feedback. */
static void enqueue_encoding_in_slot(const struct replica_cuda *cuda, int slot,
                                     struct replica_chunk chunk, bool keeps_error) {
    const struct replica *replica = cuda->replica;
    const struct cuda_compute *compute = &cuda->compute[slot];
    const struct slot_memory memory = slot_memory_of(cuda, slot);
    make_pseudo_gradient(cuda, slot, chunk);
    if (replica->feedback != NULL) {
        enqueue_value_copy(compute, memory.moments, replica->feedback + chunk.begin, chunk.count);
    }
    if (!has_failed(compute)) {
        cuda_record_result(compute,
                           compute->driver->cuMemsetD8Async(device_pointer(memory.rejected_count),
                                                            0, sizeof *memory.rejected_count,
                                                            compute->stream),
                           "reset the rejected count");
    }
    const struct codec_encode_args args = {.codec = replica->shape.slices.codec,
                                           .count = chunk.count,
                                           .source = memory.values,
                                           .feedback =
                                               replica->feedback != NULL ? memory.moments : NULL,
                                           .residual = keeps_error ? memory.moments : NULL};
    cuda_codec_encode(compute, &args, memory.encoded, memory.rejected_count);
}

static void enqueue_encoding(struct replica_device *device, int slot, struct replica_chunk chunk) {
    struct replica_cuda *cuda = as_replica_cuda(device);
    const struct replica *replica = cuda->replica;
    const struct cuda_compute *compute = set_context(cuda, slot);
    const struct slot_memory memory = slot_memory_of(cuda, slot);
    enqueue_encoding_in_slot(cuda, slot, chunk, false);
    enqueue_copy(compute, replica->contribution + replica_encoded_offset(replica, chunk.begin),
                 memory.encoded, codec_bytes(replica->shape.slices.codec, chunk.count));
    enqueue_copy(compute, rejected_count_of(cuda, slot), memory.rejected_count,
                 sizeof *memory.rejected_count);
    cuda->has_unread_count[slot] = true;
}

/* Updates the feedback of a chunk. Encodes the same values again, because `enqueue_encoding` does
 * not store the encoding error. */
static void enqueue_feedback_update(struct replica_device *device, int slot,
                                    struct replica_chunk chunk) {
    struct replica_cuda *cuda = as_replica_cuda(device);
    const struct cuda_compute *compute = set_context(cuda, slot);
    enqueue_encoding_in_slot(cuda, slot, chunk, true);
    enqueue_value_copy(compute, cuda->replica->feedback + chunk.begin,
                       slot_memory_of(cuda, slot).moments, chunk.count);
}

/* ---- the outer step ---- */

static void enqueue_inner_reset_in_slot(const struct replica_cuda *cuda, int slot,
                                        struct replica_chunk chunk) {
    const struct replica *replica = cuda->replica;
    const float *values = slot_memory_of(cuda, slot).values;
    for (int i = 0; i < replica->part_count; i++) {
        const struct flat_span *part = &replica->parts[i];
        struct replica_chunk shared = overlap_with_part(chunk, part);
        if (part->device_memory != NULL && shared.count > 0) {
            enqueue_value_copy(&cuda->compute[slot], part->values + (shared.begin - part->begin),
                               values + (shared.begin - chunk.begin), shared.count);
        }
    }
}

static void enqueue_outer_step(struct replica_device *device, int slot,
                               const struct device_step *step) {
    struct replica_cuda *cuda = as_replica_cuda(device);
    const struct replica *replica = cuda->replica;
    const struct cuda_compute *compute = set_context(cuda, slot);
    const struct slot_memory memory = slot_memory_of(cuda, slot);
    struct replica_chunk chunk = step->chunk;
    enum codec codec = replica->shape.slices.codec;
    enqueue_copy(compute, memory.encoded,
                 replica_result(replica, step->round, 0) +
                     replica_encoded_offset(replica, chunk.begin),
                 codec_bytes(codec, chunk.count));
    enqueue_value_copy(compute, memory.values, replica->params + chunk.begin, chunk.count);
    enqueue_value_copy(compute, memory.moments, replica->momentum + chunk.begin, chunk.count);
    cuda_codec_decode(compute, codec, chunk.count, memory.encoded, memory.spare);
    const struct outer_step_args args = {.count = chunk.count,
                                         .rate = replica->shape.outer_rate,
                                         .momentum = step->outer_momentum,
                                         .params = memory.values,
                                         .moments = memory.moments,
                                         .gradients = memory.spare,
                                         .next_params = memory.values,
                                         .next_moments = memory.moments};
    cuda_outer_step_run(compute, &args);
    enqueue_value_copy(compute, step->params, memory.values, chunk.count);
    enqueue_value_copy(compute, step->momentum, memory.moments, chunk.count);
    if (step->resets_inner) {
        enqueue_inner_reset_in_slot(cuda, slot, chunk);
    }
}

static void enqueue_inner_reset(struct replica_device *device) {
    struct replica_cuda *cuda = as_replica_cuda(device);
    const struct replica *replica = cuda->replica;
    const struct cuda_compute *compute = set_context(cuda, 0);
    for (int i = 0; i < replica->part_count; i++) {
        const struct flat_span *part = &replica->parts[i];
        if (part->device_memory != NULL) {
            enqueue_value_copy(compute, part->values, replica->params + part->begin, part->count);
        }
    }
    bool is_finite = wait_for_slot(device, 0);
    (void)is_finite;
}

/* ---- initialization and release ---- */

/* Releases the device. Errors of a failed device are ignored, because its failure is already
 * recorded. */
static void release_cuda_device(struct replica_device *device) {
    struct replica_cuda *cuda = as_replica_cuda(device);
    for (int slot = 0; slot < REPLICA_DEVICE_SLOTS; slot++) {
        const struct cuda_compute *compute = set_context(cuda, slot);
        if (compute->stream != NULL) {
            (void)compute->driver->cuStreamDestroy(compute->stream);
        }
    }
}

static const struct replica_device_methods METHODS = {.encode = enqueue_encoding,
                                                      .advance = enqueue_feedback_update,
                                                      .step = enqueue_outer_step,
                                                      .wait = wait_for_slot,
                                                      .reset_inner = enqueue_inner_reset,
                                                      .release = release_cuda_device};

/* Executes each kind of work once on arrays of zeros, which stay zero. */
static void warm_up(struct replica_cuda *cuda) {
    const struct replica *replica = cuda->replica;
    struct replica_chunk first = replica_chunk_at(0, replica->shape.slices.parameter_count);
    for (int slot = 0; slot < REPLICA_DEVICE_SLOTS; slot++) {
        const struct device_step zero_step = {.chunk = first,
                                              .params = replica_scratch(replica, 2 * slot),
                                              .momentum = replica_scratch(replica, 2 * slot + 1)};
        enqueue_encoding(&cuda->device, slot, first);
        if (replica->feedback != NULL) {
            enqueue_feedback_update(&cuda->device, slot, first);
        }
        enqueue_outer_step(&cuda->device, slot, &zero_step);
        bool is_finite = wait_for_slot(&cuda->device, slot);
        ASSERT(is_finite || has_failed(&cuda->compute[slot]));
    }
}

enum status replica_cuda_init(const struct replica_cuda_args *args, struct replica *replica,
                              struct replica_cuda *made, struct fault *fault) {
    *made = (struct replica_cuda){.device = {&METHODS},
                                  .replica = replica,
                                  .gpu = args->gpu,
                                  .slot_memory = args->device_slots};
    enum status status = OK;
    for (int slot = 0; slot < REPLICA_DEVICE_SLOTS; slot++) {
        made->compute[slot] = *args->compute;
        made->compute[slot].stream = NULL;
    }
    for (int slot = 0; slot < REPLICA_DEVICE_SLOTS && status == OK; slot++) {
        status = cuda_device_create_stream(args->gpu, false, &made->compute[slot].stream, fault);
    }
    if (status == OK) {
        warm_up(made);
        const struct cuda_failure *failure = args->compute->failure;
        status = failure->result == CUDA_SUCCESS
                     ? OK
                     : cuda_device_fault(args->gpu, failure->result, STATUS_FAILED, failure->action,
                                         fault);
    }
    if (status != OK) {
        release_cuda_device(&made->device);
        return status;
    }
    replica_attach_device(replica, &made->device);
    return OK;
}
