#ifndef SKEP_KERNELS_NORM_H
#define SKEP_KERNELS_NORM_H

#include "base/dtype.h"
#include "kernels/compute.h"

struct norm_args {
    int64_t rows, dim;
    float epsilon;
    enum dtype dtype; /* of x, out, weight, bias and their like: f32 or bf16 */
};

/* rms_inv [rows] f32 is kept for backward. */
void rmsnorm_forward(const struct compute *compute, const struct norm_args *args, const void *x,
                     const void *weight, void *out, float *rms_inv);
/* dx = dadd + J^T dout; dadd may be NULL (nothing is added) and may be dx itself.
 * dweight [dim] f32 is added to. The same for layernorm. */
uint64_t norm_backward_workspace_bytes(const struct norm_args *args, int threads);
void rmsnorm_backward(const struct compute *compute, const struct norm_args *args,
                      const void *dout, const void *x, const void *weight, const float *rms_inv,
                      const void *dadd, void *dx, float *dweight, void *workspace);

void layernorm_forward(const struct compute *compute, const struct norm_args *args, const void *x,
                       const void *weight, const void *bias, void *out, float *mean,
                       float *std_inv);
void layernorm_backward(const struct compute *compute, const struct norm_args *args,
                        const void *dout, const void *x, const void *weight, const float *mean,
                        const float *std_inv, const void *dadd, void *dx, float *dweight,
                        float *dbias, void *workspace);

#endif
