/* replica_device: a device that does a replica's arithmetic where the weights that are trained lie
 * in its memory. The outer state stays in host memory, pinned, where it is hashed, sent and saved;
 * of it the device takes a stretch at a time, and has two places for them, so that one is copied
 * while the other is worked on:
 *
 *     slot 0   | in | work | out |        | in | work | out |
 *     slot 1        |    in    | work | out |     |  in   | work | out |
 *
 * The bits are those that the processor makes (kernels/codec.h, kernels/outer.h). */
#ifndef SKEP_SWARM_REPLICA_REPLICA_DEVICE_H
#define SKEP_SWARM_REPLICA_REPLICA_DEVICE_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

enum { REPLICA_DEVICE_SLOTS = 2 };

/* Elements [begin, begin + count): whole leaves of the space, or whole blocks of a slice. */
struct replica_chunk {
    int64_t begin, count;
};

/* The outer step of one stretch, by the results of `round`. */
struct device_step {
    struct replica_chunk stretch;
    uint32_t round;
    float *params, *momentum; /* [stretch.count], pinned: where they go */
    bool follows;             /* the inner weights on the device become the new params */
};

struct replica_device;

/* All but `wait` and `follow` come back when the work is enqueued. What a slot was given before has
 * to be waited for first. A failure is kept by the device, as program_failure tells it; what
 * follows it does nothing. None of them allocates. */
struct replica_device_methods {
    /* The contribution of a stretch, from outer - inner and the feedback. */
    void (*encode)(struct replica_device *device, int slot, struct replica_chunk stretch);
    /* The feedback of a stretch becomes what that contribution left unsaid. */
    void (*advance)(struct replica_device *device, int slot, struct replica_chunk stretch);
    void (*step)(struct replica_device *device, int slot, const struct device_step *step);
    /* Until the slot's results are in host memory. False: what it encoded was not finite. */
    MUST_CHECK bool (*wait)(struct replica_device *device, int slot);
    /* The inner weights on the device become the outer ones. */
    void (*follow)(struct replica_device *device);
    void (*release)(struct replica_device *device);
};

struct replica_device {
    const struct replica_device_methods *methods;
};

/* What it takes of memory, bytes: pure functions of the shape, for plans made anywhere. */
struct replica_device_memory {
    uint64_t slots;   /* the device's own: three vectors and an encoding in each slot */
    uint64_t scratch; /* pinned, in place of replica_memory.scratch: two vectors for each slot, and
                         REPLICA_DEVICE_WORDS bytes */
};

enum { REPLICA_DEVICE_WORDS = 64 };

struct replica_shape;
struct replica_device_memory replica_device_memory_of(const struct replica_shape *shape);

#endif
