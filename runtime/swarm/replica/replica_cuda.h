/* replica_cuda: a GPU as a replica's device. Each slot has its own stream, in which its copies in,
 * kernels and copies out run in order. The two streams run in parallel, so the copies of one slot
 * overlap the kernels of the other. */
#ifndef SKEP_SWARM_REPLICA_REPLICA_CUDA_H
#define SKEP_SWARM_REPLICA_REPLICA_CUDA_H

#include "kernels/cuda/launch/launch.h"
#include "runtime/swarm/replica/replica.h"
#include "targets/ports/cuda_device.h"

struct replica_cuda {
    struct replica_device device; /* must be first: the methods cast it to this struct */
    const struct replica *replica;
    const struct cuda_device *gpu;
    struct cuda_compute compute[REPLICA_DEVICE_SLOTS]; /* with the slot's stream */
    char *slots;                                       /* device memory */
    bool encodes
        [REPLICA_DEVICE_SLOTS]; /* the slot has an encoding whose rejected count was not read yet */
};

/* replica_cuda_init: create the streams, set replica->device, and run each kind of work once as a
 * warm-up. Call it before seal, while the replica's arrays are all zeros; the warm-up leaves zeros.
 * with     driver, kernels, and the record of a failure
 * slots    replica_device_memory_of(shape).slots bytes of device memory
 * limits   the replica's scratch has replica_device_memory_of(shape).scratch bytes. Its arrays are
 *          pinned memory, except residual, slots, residual_sources and leaf hashes. Its parts are
 *          device memory, or ordinary memory where device_memory is NULL
 * memory   *made must not move until replica->device->methods->release
 * errors   STATUS_FAILED; replica->device is then NULL and all resources are released */
struct replica_cuda_args {
    const struct cuda_compute *with;
    const struct cuda_device *gpu;
    void *slots;
};
MUST_CHECK enum status replica_cuda_init(const struct replica_cuda_args *args,
                                         struct replica *replica, struct replica_cuda *made,
                                         struct fault *fault);

#endif
