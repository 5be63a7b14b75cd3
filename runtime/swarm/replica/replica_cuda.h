/* replica_cuda: a GPU as a replica's device. Each slot has a stream of its own, in which its copies
 * in, its kernels and its copies out follow each other; two streams run side by side, and so each
 * one's copies beside the other one's kernels. */
#ifndef SKEP_SWARM_REPLICA_REPLICA_CUDA_H
#define SKEP_SWARM_REPLICA_REPLICA_CUDA_H

#include "kernels/cuda/launch/launch.h"
#include "runtime/swarm/replica/replica.h"
#include "targets/ports/cuda_device.h"

struct replica_cuda {
    struct replica_device device; /* first: what the replica knows of it */
    const struct replica *replica;
    const struct cuda_device *gpu;
    struct cuda_compute compute[REPLICA_DEVICE_SLOTS]; /* on the slot's stream */
    char *slots;                                       /* device memory */
    bool encodes[REPLICA_DEVICE_SLOTS];                /* it has not been looked at since */
};

/* replica_cuda_init: make the streams, set replica->device, and run each kind of work once on lines
 * that are all zeros, and are so again afterwards. Before seal.
 * with     driver, kernels, and where a failure is kept
 * slots    replica_device_memory_of's bytes of device memory; the replica's scratch has them too
 * limits   the replica's lines but residual, slots, marks and names are pinned memory; its parts
 *          are the device's memory or, without `far`, ordinary memory
 * memory   *made stays where it is until replica->device->methods->release
 * errors   STATUS_FAILED; replica->device is then NULL, and nothing is held */
struct replica_cuda_args {
    const struct cuda_compute *with;
    const struct cuda_device *gpu;
    void *slots;
};
MUST_CHECK enum status replica_cuda_init(const struct replica_cuda_args *args,
                                         struct replica *replica, struct replica_cuda *made,
                                         struct fault *fault);

#endif
