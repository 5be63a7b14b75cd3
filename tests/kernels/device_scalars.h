/* device scalars: host structs on their way to a device and back, for an operation's run_cuda. */
#ifndef SKEP_TESTS_KERNELS_DEVICE_SCALARS_H
#define SKEP_TESTS_KERNELS_DEVICE_SCALARS_H

#include "base/check.h"
#include "kernels/cuda/launch/launch.h"
#include "tests/kernels/device.h"

static inline void device_copy(const struct cuda_compute *compute, void *to, const void *from,
                               size_t bytes) {
    const struct cuda_driver *driver = compute->driver;
    ASSERT(driver->cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, compute->stream) ==
           CUDA_SUCCESS);
    ASSERT(driver->cuStreamSynchronize(compute->stream) == CUDA_SUCCESS);
}

/* device_put: a copy of `bytes` of the host's in device memory of its own. */
static inline void *device_put(const struct cuda_compute *compute, struct device_run *device,
                               const void *from, size_t bytes) {
    void *to = device_workspace(device, bytes);
    device_copy(compute, to, from, bytes);
    return to;
}

#endif
