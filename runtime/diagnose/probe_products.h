/* probe_products: how fast a GPU multiplies large matrices, by cuBLASLt and by our own kernels. */
#ifndef SKEP_DIAGNOSE_PROBE_PRODUCTS_H
#define SKEP_DIAGNOSE_PROBE_PRODUCTS_H

#include "targets/probe/probe_cuda.h"

struct cuda_kernel_table;

/* probe_products: the rates of square products of random numbers, of f32 and of bf16 with sums in
 * f32; what the library takes of the device, its workspace left out. Without the library, or where
 * it refuses, the rates are our own kernels' and result->products says why.
 * memory  up to 800 MiB of the device and 1 MiB pinned, given back; what cuBLASLt loads stays
 *         until the context ends
 * errors  STATUS_FIT when even small matrices do not fit; STATUS_FAILED */
MUST_CHECK enum status probe_products(const struct cuda_device *device,
                                      const struct cuda_kernel_table *table,
                                      struct probe_gpu *result, struct fault *fault);

#endif
