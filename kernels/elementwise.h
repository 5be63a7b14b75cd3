/* elementwise: kernels whose outputs depend on one element, or one pair, each. */
#ifndef SKEP_KERNELS_ELEMENTWISE_H
#define SKEP_KERNELS_ELEMENTWISE_H

#include "base/dtype.h"
#include "kernels/compute.h"

struct elementwise_args {
    int64_t count;
    enum dtype dtype; /* f32 or bf16; arithmetic in f32, rounded once */
};

void add_run(const struct compute *compute, const struct elementwise_args *args, const void *a,
             const void *b, void *out); /* out may be a or b */
void swiglu_forward(const struct compute *compute, const struct elementwise_args *args,
                    const void *gate, const void *up, void *out);
/* dgate may be gate, dup may be up */
void swiglu_backward(const struct compute *compute, const struct elementwise_args *args,
                     const void *dout, const void *gate, const void *up, void *dgate, void *dup);
/* tanh approximation */
void gelu_forward(const struct compute *compute, const struct elementwise_args *args,
                  const void *x, void *out);
void gelu_backward(const struct compute *compute, const struct elementwise_args *args,
                   const void *dout, const void *x, void *dx);
void zero_run(const struct compute *compute, void *bytes, uint64_t count);
/* cast_run: args->count elements; args->dtype is ignored. */
void cast_run(const struct compute *compute, int64_t count, enum dtype from, const void *in,
              enum dtype to, void *out);

/* column_sum_run: sums[n] += sum over rows of x[rows, n]; rows are `stride` elements apart. The gradient of a bias. */
struct column_sum_args {
    int64_t rows, columns, stride;
    enum dtype dtype;
};
uint64_t column_sum_workspace_bytes(const struct column_sum_args *args, int threads);
void column_sum_run(const struct compute *compute, const struct column_sum_args *args,
                    const void *x, float *sums, void *workspace);

/* rope: rotate the first rotary_dim elements of each head by its token's position. table
 * [positions, 2, rotary_dim / 2] f32: cosines, then sines. `inverse` turns back: the backward pass.
 * Halves pair up: (x[i], x[i + rotary_dim / 2]). out may be in. */
struct rope_args {
    int64_t tokens, heads, head_dim, rotary_dim;
    int64_t in_stride, out_stride; /* elements from one token to the next */
    bool inverse;
    enum dtype dtype;
};
void rope_run(const struct compute *compute, const struct rope_args *args, const float *table,
              const int32_t *positions, const void *in, void *out);

#endif
