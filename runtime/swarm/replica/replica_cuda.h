/* replica_cuda: runs the arithmetic of a replica on a GPU. Each slot has its own stream, in which
 * copies to the GPU, kernels and copies from the GPU run in order. The two streams run in parallel,
 * so the copies of one slot overlap the kernels of the other. */
#ifndef SKEP_SWARM_REPLICA_REPLICA_CUDA_H
#define SKEP_SWARM_REPLICA_REPLICA_CUDA_H

#include "kernels/cuda/launch/launch.h"
#include "runtime/swarm/replica/replica.h"
#include "targets/ports/cuda_device.h"

struct replica_cuda {
    struct replica_device device;  /* Must be first, because the methods cast it to this struct. */
    const struct replica *replica; /* the replica that the GPU works on */
    const struct cuda_device *gpu; /* the device */
    /* [slot]: driver, kernels and stream of each slot */
    struct cuda_compute compute[REPLICA_DEVICE_SLOTS];
    char *slot_memory;                           /* device memory of all device slots */
    bool has_unread_count[REPLICA_DEVICE_SLOTS]; /* the slot's rejected_count is not read yet */
};

/* replica_cuda_init: create the streams, set replica->device, and run each kind of work once as a
 * warm-up. Call it before memory is sealed, while the replica's arrays are all zeros; they are
 * still zeros after the warm-up.
 * compute  driver, kernels, and the record of the first device failure
 * device_slots
 *          replica_device_memory_of(shape).slots bytes of device memory
 * limits   the replica's scratch has replica_device_memory_of(shape).scratch bytes. Its arrays are
 *          pinned memory, except residual, slots, residual_sources and leaf hashes. Its parts are
 *          in device memory, or in ordinary memory where device_memory is NULL
 * memory   *made must not move until replica->device->methods->release
 * errors   STATUS_FAILED; replica->device is then NULL and all resources are released */
struct replica_cuda_args {
    /* driver and kernels from which the compute object of each slot is made */
    const struct cuda_compute *compute;
    const struct cuda_device *gpu;
    void *device_slots;
};
MUST_CHECK enum status replica_cuda_init(const struct replica_cuda_args *args,
                                         struct replica *replica, struct replica_cuda *made,
                                         struct fault *fault);

#endif
