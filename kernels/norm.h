/* norm: RMSNorm and LayerNorm of the rows of a matrix, forward and backward. */
#ifndef SKEP_KERNELS_NORM_H
#define SKEP_KERNELS_NORM_H

#include "base/dtype.h"
#include "kernels/kernels.h"

struct norm_args {
    int64_t rows, dim; /* number of rows; elements of a row */
    float epsilon;     /* added under the root */
    /* type of x, out, weight, bias, dout, dadd and dx: f32 or bf16; all other tensors are f32 */
    enum dtype dtype;
};

/* rmsnorm_forward: scale each row by the inverse of its root mean square, then by the weight:
 * round(x * rms_inv) * weight, where rms_inv = 1 / sqrt(mean(x^2) + epsilon).
 * shapes    x, out [rows, dim]; weight [dim]; rms_inv [rows], input of the backward pass; row-major
 * dtypes    x, weight, out args->dtype; rms_inv f32; sums in f32; bf16 rounds before the weight and
 *           after it, as transformers does
 * limits    rows >= 0, dim >= 1; only the alignment of an element; out may be x
 * memory    caller owns all
 * errors    none
 * accuracy  5e-7 of the largest value in f32; one bf16 ulp more than rounding in bf16
 * source    Zhang and Sennrich 2019, arXiv:1910.07467 */
void rmsnorm_forward(const struct compute *compute, const struct norm_args *args, const void *x,
                     const void *weight, void *out, float *rms_inv);

/* norm_backward_workspace_bytes: the workspace size of rmsnorm_backward and layernorm_backward.
 * Every 64 rows need one f32 row for the gradient of the weight and one for that of the bias. */
uint64_t norm_backward_workspace_bytes(const struct norm_args *args, int threads);

/* rmsnorm_backward: dx = dadd + J^T dout, rounded once, where J is the Jacobian of the forward
 * pass; the gradient of the weight is added to dweight. Either output may be NULL and is
 * then not computed: dweight if the weight is frozen, dx if all earlier layers are frozen.
 * shapes    dout, x, dadd, dx [rows, dim]; weight, dweight [dim]; rms_inv [rows] of the forward
 *           pass
 * dtypes    dout, x, weight, dadd, dx args->dtype; rms_inv, dweight f32; sums of 64 rows are taken
 *           in f32 and then added in fp64: the same bits for any thread count
 * limits    as for rmsnorm_forward; dadd may be NULL (nothing is added) and may be dx; dx may be
 *           dout; dx and dweight are not both NULL
 * memory    caller owns all; workspace of norm_backward_workspace_bytes(), undefined afterwards
 * errors    none
 * accuracy  relative L2 of dx and dweight 5e-7 in f32; dx one rounding in bf16 */
void rmsnorm_backward(const struct compute *compute, const struct norm_args *args, const void *dout,
                      const void *x, const void *weight, const float *rms_inv, const void *dadd,
                      void *dx, float *dweight, void *workspace);

/* layernorm_forward: (x - mean) * std_inv * weight + bias, rounded once, where std_inv = 1 /
 * sqrt(variance + epsilon), and the variance is the mean square of x - mean, computed in a second
 * pass. Everything else is as in rmsnorm_forward.
 * shapes    as rmsnorm_forward; bias [dim]; mean, std_inv [rows], inputs of the backward pass
 * source    Ba, Kiros and Hinton 2016, arXiv:1607.06450 */
void layernorm_forward(const struct compute *compute, const struct norm_args *args, const void *x,
                       const void *weight, const void *bias, void *out, float *mean,
                       float *std_inv);

/* layernorm_backward: as rmsnorm_backward for layernorm_forward. The gradient of the bias is added
 * to dbias [dim] f32, which may be NULL. */
void layernorm_backward(const struct compute *compute, const struct norm_args *args,
                        const void *dout, const void *x, const void *weight, const float *mean,
                        const float *std_inv, const void *dadd, void *dx, float *dweight,
                        float *dbias, void *workspace);

#endif
