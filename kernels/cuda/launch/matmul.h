/* matmul on CUDA: kernels/matmul.h with device addresses, computed by cuBLASLt if an algorithm was
 * chosen for the product, else by built-in kernels. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_MATMUL_H
#define SKEP_KERNELS_CUDA_LAUNCH_MATMUL_H

#include "kernels/cuda/launch/launch.h"
#include "kernels/matmul.h"

enum { CUDA_MATMUL_SIZE_COUNT = 2 }; /* number of tile sizes: small and large */

struct cuda_matmul_kernels {
    CUfunction bf16[2][2][CUDA_MATMUL_SIZE_COUNT]; /* [transpose_a][transpose_b][tile size] */
    CUfunction f32[CUDA_MATMUL_SIZE_COUNT];        /* [tile size] */
};

MUST_CHECK enum status cuda_matmul_kernels_init(const struct cuda_driver *driver,
                                                struct cuda_matmul_kernels *kernels,
                                                struct fault *fault);

/* cuda_matmul_run: C = op(A) op(B), as struct matmul_args describes.
 * limits    m, n, k >= 1; at most 2^31 tiles of 64 x 64; any address aligned to an element
 * memory    workspace of cuda_matmul_workspace_bytes(), 256-byte aligned, undefined afterwards
 * errors    none; cuda_products_choose() must have been called for the product
 * accuracy  as on the CPU; our kernels add along k in order, with the same bits on every device of
 *           one kind; cuBLASLt gives the same bits on one kind of device with one version of the
 *           library */
void cuda_matmul_run(const struct cuda_compute *compute, const struct matmul_args *args,
                     const void *a, const void *b, const void *bias, void *c, void *workspace);

/* cuda_matmul_builtin: cuda_matmul_run with the built-in kernels, even if an algorithm of cuBLASLt
 * was chosen. It needs no workspace. */
void cuda_matmul_builtin(const struct cuda_compute *compute, const struct matmul_args *args,
                         const void *a, const void *b, const void *bias, void *c);

#endif
