/* matmul on CUDA: kernels/matmul.h on a device: by cuBLASLt where a product was chosen for it, else
 * by kernels of our own. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_MATMUL_H
#define SKEP_KERNELS_CUDA_LAUNCH_MATMUL_H

#include "kernels/cuda/launch/launch.h"
#include "kernels/matmul.h"

enum { CUDA_MATMUL_SIZES = 2 }; /* of a block's tile: small, large */

struct cuda_matmul_kernels {
    CUfunction bf16[2][2][CUDA_MATMUL_SIZES]; /* [transpose_a][transpose_b] */
    CUfunction f32[CUDA_MATMUL_SIZES];
};

MUST_CHECK enum status cuda_matmul_kernels_init(const struct cuda_driver *driver,
                                                struct cuda_matmul_kernels *kernels,
                                                struct fault *fault);

/* cuda_matmul_run: C = op(A) op(B), as struct matmul_args says; kernels/matmul.h on a device.
 * limits    m, n, k >= 1; at most 2^31 tiles of 64 x 64; any alignment of the element
 * memory    workspace of cuda_matmul_workspace_bytes(), aligned to 256, undefined afterwards
 * errors    a product that cuda_products_choose() was not asked for is a caller's bug
 * accuracy  as on the CPU; our kernels add along k in order, the same bits on every device of one
 *           kind; cuBLASLt's are the same on one kind of device with one version of it */
void cuda_matmul_run(const struct cuda_compute *compute, const struct matmul_args *args,
                     const void *a, const void *b, const void *bias, void *c, void *workspace);

/* cuda_matmul_own: the same by our own kernels, whatever was chosen; no workspace. */
void cuda_matmul_own(const struct cuda_compute *compute, const struct matmul_args *args,
                     const void *a, const void *b, const void *bias, void *c);

#endif
