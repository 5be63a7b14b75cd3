#include "runtime/swarm/replica/replica_cuda.h"

#include "kernels/cuda/launch/codec.h"
#include "kernels/cuda/launch/outer.h"
#include "runtime/swarm/replica/replica_state.h"

#include <string.h>

/* A slot in device memory. */
struct place {
    float *values;  /* outer params; their pseudo-gradients, or their next values, in place */
    float *moments; /* or the feedback, and what is left of it, in place */
    float *spare;   /* results decoded, or inner weights that came from the host */
    uint8_t *coded; /* a contribution, or results */
    int32_t *refused;
};

static struct replica_cuda *cuda_of(struct replica_device *device) {
    return (struct replica_cuda *)device;
}

static struct place place_of(const struct replica_cuda *cuda, int slot) {
    const struct replica_shape *shape = &cuda->replica->shape;
    uint64_t bytes = replica_device_memory_of(shape).slots / REPLICA_DEVICE_SLOTS;
    uint64_t coded = codec_bytes(shape->slices.codec, replica_chunk_max(shape));
    uint64_t words = REPLICA_DEVICE_WORDS;
    uint64_t vector = (bytes - words - (coded + words - 1) / words * words) / 3;
    char *begin = cuda->slots + (uint64_t)slot * bytes;
    return (struct place){.values = (float *)begin,
                          .moments = (float *)(begin + vector),
                          .spare = (float *)(begin + 2 * vector),
                          .coded = (uint8_t *)(begin + 3 * vector),
                          .refused = (int32_t *)(begin + bytes - words)};
}

/* Where the host finds how much of an encoding was refused. */
static int32_t *told_of(const struct replica_cuda *cuda, int slot) {
    return (int32_t *)replica_scratch(cuda->replica, 2 * REPLICA_DEVICE_SLOTS) + slot;
}

static CUdeviceptr address_of(const void *address) {
    return (CUdeviceptr)(uintptr_t)address;
}

static bool has_failed(const struct cuda_compute *compute) {
    return compute->failure->result != CUDA_SUCCESS;
}

/* The caller's thread may be in no context yet. */
static const struct cuda_compute *enter(const struct replica_cuda *cuda, int slot) {
    const struct cuda_compute *compute = &cuda->compute[slot];
    if (!has_failed(compute)) {
        cuda_note(compute, compute->driver->cuCtxSetCurrent(cuda->gpu->context),
                  "enter the context");
    }
    return compute;
}

static void copy(const struct cuda_compute *compute, void *to, const void *from, uint64_t bytes) {
    if (!has_failed(compute)) {
        cuda_note(compute,
                  compute->driver->cuMemcpyAsync(address_of(to), address_of(from), bytes,
                                                 compute->stream),
                  "copy the outer state");
    }
}

static void copy_values(const struct cuda_compute *compute, float *to, const float *from,
                        int64_t count) {
    copy(compute, to, from, (uint64_t)count * sizeof *to);
}

static bool wait(struct replica_device *device, int slot) {
    struct replica_cuda *cuda = cuda_of(device);
    const struct cuda_compute *compute = enter(cuda, slot);
    if (!has_failed(compute)) {
        cuda_note(compute, compute->driver->cuStreamSynchronize(compute->stream),
                  "work on the outer state");
    }
    bool looks = cuda->encodes[slot] && !has_failed(compute);
    cuda->encodes[slot] = false;
    return !looks || *told_of(cuda, slot) == 0;
}

/* ---- contributions ---- */

/* What a stretch and a part share; a count of 0 or less: nothing. */
static struct replica_chunk shared(struct replica_chunk stretch, const struct flat_span *part) {
    int64_t begin = stretch.begin > part->begin ? stretch.begin : part->begin;
    int64_t end = stretch.begin + stretch.count;
    int64_t part_end = part->begin + part->count;
    return (struct replica_chunk){begin, (end < part_end ? end : part_end) - begin};
}

/* Inner weights of an optimizer in host memory pass through the slot's scratch. */
static const float *bring_inner(const struct replica_cuda *cuda, int slot,
                                struct replica_chunk stretch, const struct flat_span *part,
                                struct replica_chunk both) {
    const float *inner = part->values + (both.begin - part->begin);
    if (part->far != NULL) {
        return inner;
    }
    const struct place place = place_of(cuda, slot);
    int64_t at = both.begin - stretch.begin;
    float *staged = replica_scratch(cuda->replica, 2 * slot) + at;
    memcpy(staged, inner, (size_t)both.count * sizeof *staged);
    copy_values(&cuda->compute[slot], place.spare + at, staged, both.count);
    return place.spare + at;
}

/* values = outer - inner. */
static void make_gradient(const struct replica_cuda *cuda, int slot, struct replica_chunk stretch) {
    const struct replica *replica = cuda->replica;
    const struct cuda_compute *compute = &cuda->compute[slot];
    const struct place place = place_of(cuda, slot);
    copy_values(compute, place.values, replica->params + stretch.begin, stretch.count);
    for (int i = 0; i < replica->part_count; i++) {
        struct replica_chunk both = shared(stretch, &replica->parts[i]);
        if (both.count > 0) {
            const float *inner = bring_inner(cuda, slot, stretch, &replica->parts[i], both);
            float *values = place.values + (both.begin - stretch.begin);
            cuda_outer_gradient_run(compute, both.count, values, inner, values);
        }
    }
}

/* The encoding of a stretch in its slot; with `leaves` what it left, in place of the feedback. */
static void encode_in_slot(const struct replica_cuda *cuda, int slot, struct replica_chunk stretch,
                           bool leaves) {
    const struct replica *replica = cuda->replica;
    const struct cuda_compute *compute = &cuda->compute[slot];
    const struct place place = place_of(cuda, slot);
    make_gradient(cuda, slot, stretch);
    if (replica->feedback != NULL) {
        copy_values(compute, place.moments, replica->feedback + stretch.begin, stretch.count);
    }
    if (!has_failed(compute)) {
        cuda_note(compute,
                  compute->driver->cuMemsetD8Async(address_of(place.refused), 0,
                                                   sizeof *place.refused, compute->stream),
                  "zero a count");
    }
    const struct codec_encode_args args = {.codec = replica->shape.slices.codec,
                                           .count = stretch.count,
                                           .source = place.values,
                                           .feedback =
                                               replica->feedback != NULL ? place.moments : NULL,
                                           .residual = leaves ? place.moments : NULL};
    cuda_codec_encode(compute, &args, place.coded, place.refused);
}

static void encode(struct replica_device *device, int slot, struct replica_chunk stretch) {
    struct replica_cuda *cuda = cuda_of(device);
    const struct replica *replica = cuda->replica;
    const struct cuda_compute *compute = enter(cuda, slot);
    const struct place place = place_of(cuda, slot);
    encode_in_slot(cuda, slot, stretch, false);
    copy(compute, replica->contribution + replica_encoded(replica, stretch.begin), place.coded,
         codec_bytes(replica->shape.slices.codec, stretch.count));
    copy(compute, told_of(cuda, slot), place.refused, sizeof *place.refused);
    cuda->encodes[slot] = true;
}

/* Encoded again, from what it was encoded from, for what that leaves. */
static void advance(struct replica_device *device, int slot, struct replica_chunk stretch) {
    struct replica_cuda *cuda = cuda_of(device);
    const struct cuda_compute *compute = enter(cuda, slot);
    encode_in_slot(cuda, slot, stretch, true);
    copy_values(compute, cuda->replica->feedback + stretch.begin, place_of(cuda, slot).moments,
                stretch.count);
}

/* ---- the outer step ---- */

static void follow_in_slot(const struct replica_cuda *cuda, int slot,
                           struct replica_chunk stretch) {
    const struct replica *replica = cuda->replica;
    const float *values = place_of(cuda, slot).values;
    for (int i = 0; i < replica->part_count; i++) {
        const struct flat_span *part = &replica->parts[i];
        struct replica_chunk both = shared(stretch, part);
        if (part->far != NULL && both.count > 0) {
            copy_values(&cuda->compute[slot], part->values + (both.begin - part->begin),
                        values + (both.begin - stretch.begin), both.count);
        }
    }
}

static void step(struct replica_device *device, int slot, const struct device_step *step) {
    struct replica_cuda *cuda = cuda_of(device);
    const struct replica *replica = cuda->replica;
    const struct cuda_compute *compute = enter(cuda, slot);
    const struct place place = place_of(cuda, slot);
    struct replica_chunk stretch = step->stretch;
    enum codec codec = replica->shape.slices.codec;
    copy(compute, place.coded,
         replica_result(replica, step->round, 0) + replica_encoded(replica, stretch.begin),
         codec_bytes(codec, stretch.count));
    copy_values(compute, place.values, replica->params + stretch.begin, stretch.count);
    copy_values(compute, place.moments, replica->momentum + stretch.begin, stretch.count);
    cuda_codec_decode(compute, codec, stretch.count, place.coded, place.spare);
    const struct outer_step_args args = {.count = stretch.count,
                                         .rate = replica->shape.outer_rate,
                                         .momentum = replica->shape.outer_momentum,
                                         .params = place.values,
                                         .moments = place.moments,
                                         .gradients = place.spare,
                                         .next_params = place.values,
                                         .next_moments = place.moments};
    cuda_outer_step_run(compute, &args);
    copy_values(compute, step->params, place.values, stretch.count);
    copy_values(compute, step->momentum, place.moments, stretch.count);
    if (step->follows) {
        follow_in_slot(cuda, slot, stretch);
    }
}

static void follow(struct replica_device *device) {
    struct replica_cuda *cuda = cuda_of(device);
    const struct replica *replica = cuda->replica;
    const struct cuda_compute *compute = enter(cuda, 0);
    for (int i = 0; i < replica->part_count; i++) {
        const struct flat_span *part = &replica->parts[i];
        if (part->far != NULL) {
            copy_values(compute, part->values, replica->params + part->begin, part->count);
        }
    }
    bool encodes_nothing = wait(device, 0);
    (void)encodes_nothing;
}

/* ---- life ---- */

/* A failed device refuses, which changes nothing. */
static void release(struct replica_device *device) {
    struct replica_cuda *cuda = cuda_of(device);
    for (int slot = 0; slot < REPLICA_DEVICE_SLOTS; slot++) {
        const struct cuda_compute *compute = enter(cuda, slot);
        if (compute->stream != NULL) {
            (void)compute->driver->cuStreamDestroy(compute->stream);
        }
    }
}

static const struct replica_device_methods METHODS = {.encode = encode,
                                                      .advance = advance,
                                                      .step = step,
                                                      .wait = wait,
                                                      .follow = follow,
                                                      .release = release};

/* Of zeros the contribution, the feedback and the step are zeros. */
static void rehearse(struct replica_cuda *cuda) {
    const struct replica *replica = cuda->replica;
    struct replica_chunk first = replica_chunk_at(0, replica->shape.slices.parameter_count);
    for (int slot = 0; slot < REPLICA_DEVICE_SLOTS; slot++) {
        const struct device_step trial = {.stretch = first,
                                          .params = replica_scratch(replica, 2 * slot),
                                          .momentum = replica_scratch(replica, 2 * slot + 1)};
        encode(&cuda->device, slot, first);
        if (replica->feedback != NULL) {
            advance(&cuda->device, slot, first);
        }
        step(&cuda->device, slot, &trial);
        bool is_finite = wait(&cuda->device, slot);
        ASSERT(is_finite || has_failed(&cuda->compute[slot]));
    }
}

enum status replica_cuda_init(const struct replica_cuda_args *args, struct replica *replica,
                              struct replica_cuda *made, struct fault *fault) {
    *made = (struct replica_cuda){
        .device = {&METHODS}, .replica = replica, .gpu = args->gpu, .slots = args->slots};
    enum status status = OK;
    for (int slot = 0; slot < REPLICA_DEVICE_SLOTS; slot++) {
        made->compute[slot] = *args->with;
        made->compute[slot].stream = NULL;
    }
    for (int slot = 0; slot < REPLICA_DEVICE_SLOTS && status == OK; slot++) {
        status = cuda_device_stream(args->gpu, false, &made->compute[slot].stream, fault);
    }
    if (status == OK) {
        rehearse(made);
        const struct cuda_failure *failure = args->with->failure;
        status = failure->result == CUDA_SUCCESS
                     ? OK
                     : cuda_device_fault(args->gpu, failure->result, STATUS_FAILED, failure->action,
                                         fault);
    }
    if (status != OK) {
        release(&made->device);
        return status;
    }
    replica->device = &made->device;
    return OK;
}
