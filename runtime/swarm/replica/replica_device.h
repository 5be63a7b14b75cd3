/* replica_device: a device that does a replica's arithmetic when the trained weights are in its
 * memory. The outer state stays in pinned host memory, where it is hashed, sent and saved. The
 * device works on one chunk at a time and has two slots, so it copies one chunk while it computes
 * on the other:
 *
 *     slot 0   | in | work | out |        | in | work | out |
 *     slot 1        |    in    | work | out |     |  in   | work | out |
 *
 * Its results equal the processor's to the bit (kernels/codec.h, kernels/outer.h). */
#ifndef SKEP_SWARM_REPLICA_REPLICA_DEVICE_H
#define SKEP_SWARM_REPLICA_REPLICA_DEVICE_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

enum { REPLICA_DEVICE_SLOTS = 2 };

/* Elements [begin, begin + count): whole leaves of the flat space, or whole blocks of a slice. */
struct replica_chunk {
    int64_t begin, count;
};

/* The outer step of one chunk by the results of `round`. */
struct device_step {
    struct replica_chunk chunk;
    uint32_t round;
    float *params, *momentum; /* [chunk.count], pinned: destination */
    bool resets_inner;        /* copies the new params to the inner weights on the device too */
};

struct replica_device;

/* encode, advance and step return once the work is enqueued; the caller must have waited for the
 * slot's previous work. The device records its first failure (program_failure) and then ignores all
 * further work. No method allocates. */
struct replica_device_methods {
    /* Encode the contribution of a chunk: outer - inner weights plus the feedback. */
    void (*encode)(struct replica_device *device, int slot, struct replica_chunk chunk);
    /* Replace the feedback of a chunk by the encoding error of that contribution. */
    void (*advance)(struct replica_device *device, int slot, struct replica_chunk chunk);
    void (*step)(struct replica_device *device, int slot, const struct device_step *step);
    /* Wait until the slot's results are in host memory. false: it encoded a value that is not
     * finite. */
    MUST_CHECK bool (*wait)(struct replica_device *device, int slot);
    /* Copy the outer weights to the inner weights on the device. */
    void (*reset_inner)(struct replica_device *device);
    void (*release)(struct replica_device *device);
};

struct replica_device {
    const struct replica_device_methods *methods;
};

/* Memory of a device in bytes. It depends only on the shape, so any machine can plan it. */
struct replica_device_memory {
    uint64_t slots;   /* device memory: three vectors and an encoding for each slot */
    uint64_t scratch; /* pinned, in place of replica_memory.scratch: two vectors for each slot, and
                         REPLICA_DEVICE_WORDS bytes */
};

enum { REPLICA_DEVICE_WORDS = 64 };

struct replica_shape;
struct replica_device_memory replica_device_memory_of(const struct replica_shape *shape);

#endif
