/* probe_products: times products of large matrices on a GPU, by cuBLASLt and by our own kernels. */
#ifndef SKEP_DIAGNOSE_PROBE_PRODUCTS_H
#define SKEP_DIAGNOSE_PROBE_PRODUCTS_H

#include "targets/probe/probe_cuda.h"

struct cuda_kernel_table;

/* probe_products: measure the rates of square products of random numbers in f32 and in bf16 with
 * f32 sums, and the device memory that the library uses without its workspace. When the library is
 * missing or fails to open, the rates are those of our own kernels, and result->products has the
 * reason.
 * memory  up to 800 MiB of the device and 1 MiB pinned, released at the end; memory that cuBLASLt
 *         loads stays until the context ends
 * errors  STATUS_FIT when even the smallest matrices do not fit; STATUS_FAILED */
MUST_CHECK enum status probe_products(const struct cuda_device *device,
                                      const struct cuda_kernel_table *table,
                                      struct probe_gpu *result, struct fault *fault);

#endif
