/* norm on CUDA: kernels/norm.h with device addresses, and the same aliases and accuracy. If all
 * rows are aligned to 16 bytes, accesses are 16 bytes wide. Workspace:
 * kernels/cuda/launch/workspace.h. / */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_NORM_H
#define SKEP_KERNELS_CUDA_LAUNCH_NORM_H

#include "kernels/cuda/launch/shapes.h"
#include "kernels/norm.h"

/* A pair of variants: for rows of any length, and for short rows. */
struct cuda_norm_pair {
    CUfunction any_length[CUDA_DTYPE_COUNT],
        short_rows[CUDA_DTYPE_COUNT]; /* kernels for rows of any length; kernels for short rows */
};

struct cuda_norm_kernels {
    struct cuda_norm_pair forward, forward_wide;   /* the _wide kernels make accesses of 16 bytes */
    struct cuda_norm_pair backward, backward_wide; /* the _wide kernels make accesses of 16 bytes */
    CUfunction add; /* kernel that adds partial sums to the gradients */
};

/* cuda_norm_kernels_init: load the kernels onto the current context; errors as cuda_load_family. */
MUST_CHECK enum status cuda_norm_kernels_init(const struct cuda_driver *driver,
                                              struct cuda_norm_kernels *kernels,
                                              struct fault *fault);

void cuda_rmsnorm_forward(const struct cuda_compute *compute, const struct norm_args *args,
                          const void *x, const void *weight, void *out, float *rms_inv);

void cuda_rmsnorm_backward(const struct cuda_compute *compute, const struct norm_args *args,
                           const void *dout, const void *x, const void *weight,
                           const float *rms_inv, const void *dadd, void *dx, float *dweight,
                           void *workspace);

void cuda_layernorm_forward(const struct cuda_compute *compute, const struct norm_args *args,
                            const void *x, const void *weight, const void *bias, void *out,
                            float *mean, float *std_inv);

void cuda_layernorm_backward(const struct cuda_compute *compute, const struct norm_args *args,
                             const void *dout, const void *x, const void *weight, const float *mean,
                             const float *std_inv, const void *dadd, void *dx, float *dweight,
                             float *dbias, void *workspace);

#endif
