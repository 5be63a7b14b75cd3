/* elementwise: kernels in which each output depends on one element or one pair; and column sums. */
#ifndef SKEP_KERNELS_ELEMENTWISE_H
#define SKEP_KERNELS_ELEMENTWISE_H

#include "base/dtype.h"
#include "kernels/kernels.h"

struct elementwise_args {
    int64_t count;    /* number of elements of each tensor */
    enum dtype dtype; /* type of all tensors: f32 or bf16; computed in f32, rounded once */
};

/* For all kernels of this header: buffers hold args->count contiguous elements of args->dtype and
 * need only the alignment of an element. The caller owns them. No call can fail. */

/* add_run: out = a + b. out may be a or b.
 * accuracy  the exact sum, rounded to f32 and, for bf16, then to bf16 */
void add_run(const struct compute *compute, const struct elementwise_args *args, const void *a,
             const void *b, void *out);

/* swiglu_forward: out = gate * logistic(gate) * up. out may be gate or up.
 * accuracy  3e-7 of the largest value in f32; no overflow for any gate
 * source    Shazeer 2020, arXiv:2002.05202 */
void swiglu_forward(const struct compute *compute, const struct elementwise_args *args,
                    const void *gate, const void *up, void *out);

/* swiglu_backward: the gradients of gate and up, from dout. dgate may be gate, dup may be up.
 * accuracy  6e-7 of the largest value in f32 */
void swiglu_backward(const struct compute *compute, const struct elementwise_args *args,
                     const void *dout, const void *gate, const void *up, void *dgate, void *dup);

/* gelu_forward: GELU in its tanh form, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). out may
 * be x.
 * accuracy  3e-7 of the largest value in f32
 * source    Hendrycks and Gimpel 2016, arXiv:1606.08415 */
void gelu_forward(const struct compute *compute, const struct elementwise_args *args, const void *x,
                  void *out);

/* gelu_backward: dx = dout times the derivative of the tanh form at x. dx may be dout or x.
 * accuracy  6e-7 of the largest value in f32 */
void gelu_backward(const struct compute *compute, const struct elementwise_args *args,
                   const void *dout, const void *x, void *dx);

/* zero_run: set `count` bytes to 0. */
void zero_run(const struct compute *compute, void *bytes, uint64_t count);

/* cast_run: convert `count` elements between f32, bf16 and f16, rounding to nearest even. Overflow
 * gives infinity, and NaN a quiet NaN. Equal types are copied.
 * limits    in and out do not overlap, or in == out with equal types
 * accuracy  one rounding; the same bits at every CPU level */
void cast_run(const struct compute *compute, int64_t count, enum dtype from, const void *in,
              enum dtype to, void *out);

struct column_sum_args {
    int64_t rows, columns; /* rows and columns of x */
    int64_t stride;        /* elements from one row to the next, >= columns */
    enum dtype dtype;      /* type of x: f32 or bf16 */
};

/* column_sum_workspace_bytes: the size of one f32 row of sums for every 64 rows of x. */
uint64_t column_sum_workspace_bytes(const struct column_sum_args *args, int threads);

/* column_sum_run: sums[n] += sum over rows of x[row, n]. It computes the gradient of a bias.
 * shapes    x [rows, columns] with args->stride; sums [columns] f32
 * memory    workspace of column_sum_workspace_bytes(), undefined afterwards
 * accuracy  sums of 64 rows are rounded to f32 and then added in fp64: 2e-7 of the largest sum, and
 *           the same bits for any thread count */
void column_sum_run(const struct compute *compute, const struct column_sum_args *args,
                    const void *x, float *sums, void *workspace);

struct rope_args {
    int64_t tokens, heads, head_dim; /* number of tokens; heads of a token; elements of a head */
    int64_t rotary_dim; /* number of rotated elements of a head: even, at most head_dim */
    int64_t in_stride, out_stride; /* elements from one token to the next */
    bool inverse;                  /* true: rotate backwards, for the backward pass */
    enum dtype dtype;              /* type of in and out: f32 or bf16 */
};

/* rope_run: rotary position embedding. Rotate the first rotary_dim elements of each head by its
 * token's position, in pairs (x[i], x[i + rotary_dim / 2]). Copy the other elements.
 * shapes    table [positions, 2, rotary_dim / 2] f32: cosines, then sines; positions [tokens] i32,
 *           rows of the table; in, out [tokens, heads, head_dim], heads contiguous within a token
 * limits    out may be in when the strides are equal
 * accuracy  2e-7 of the largest value in f32, one rounding in bf16
 * source    Su et al. 2021, arXiv:2104.09864 */
void rope_run(const struct compute *compute, const struct rope_args *args, const float *table,
              const int32_t *positions, const void *in, void *out);

#endif
