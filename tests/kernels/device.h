/* device: the CUDA half of the harness: operations on a device, emulated or this machine's. */
#ifndef SKEP_TESTS_KERNELS_DEVICE_H
#define SKEP_TESTS_KERNELS_DEVICE_H

#include "tests/kernels/harness.h"

/* ---- for an operation's run_cuda ---- */

/* device_of: the address of the tensor on the device; the first call of a run copies it there.
 * Outputs come back when the run has ended. Lies between guards, like the tensor. */
void *device_of(struct device_run *run, const struct tensor *tensor);

/* device_workspace: memory on 256 bytes, full of NaN; NULL for none. */
void *device_workspace(struct device_run *run, uint64_t bytes);

/* ---- for the harness ---- */

/* device_is_wanted: whether the environment asks for CUDA. */
bool device_is_wanted(void);

/* device_open: open it, and load every kernel, once; false when there is no such device. */
bool device_open(void);

/* device_compute: what kernels are enqueued with, after device_open. */
const struct cuda_compute *device_compute(void);

/* device_is_emulated: whether device_open opened the emulated device. */
bool device_is_emulated(void);

void device_check(struct operation *operation);
void device_bench(struct operation *operation, const double work[2]);

#endif
