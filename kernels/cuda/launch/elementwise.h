/* elementwise on CUDA: kernels/elementwise.h with device addresses, and the same aliases and
 * accuracy. If all tensors are aligned to 16 bytes, accesses are 16 bytes wide. Workspaces:
 * kernels/cuda/launch/workspace.h. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_ELEMENTWISE_H
#define SKEP_KERNELS_CUDA_LAUNCH_ELEMENTWISE_H

#include "kernels/cuda/launch/shapes.h"
#include "kernels/elementwise.h"

struct cuda_elementwise_kernels {
    CUfunction add[CUDA_DTYPE_COUNT];
    CUfunction swiglu_forward[CUDA_DTYPE_COUNT], swiglu_backward[CUDA_DTYPE_COUNT];
    CUfunction gelu_forward[CUDA_DTYPE_COUNT], gelu_backward[CUDA_DTYPE_COUNT];
    CUfunction cast[3][3]; /* [from][to] casts between f32, bf16 and f16; unused for equal types */
    CUfunction column_sum[CUDA_DTYPE_COUNT], column_sum_wide[CUDA_DTYPE_COUNT], column_sum_add;
    CUfunction rope[CUDA_DTYPE_COUNT], rope_wide[CUDA_DTYPE_COUNT];
};

/* cuda_elementwise_kernels_init: load the kernels onto the current context; errors as
 * cuda_load_family. */
MUST_CHECK enum status cuda_elementwise_kernels_init(const struct cuda_driver *driver,
                                                     struct cuda_elementwise_kernels *kernels,
                                                     struct fault *fault);

void cuda_add_run(const struct cuda_compute *compute, const struct elementwise_args *args,
                  const void *a, const void *b, void *out);

void cuda_swiglu_forward(const struct cuda_compute *compute, const struct elementwise_args *args,
                         const void *gate, const void *up, void *out);

void cuda_swiglu_backward(const struct cuda_compute *compute, const struct elementwise_args *args,
                          const void *dout, const void *gate, const void *up, void *dgate,
                          void *dup);

void cuda_gelu_forward(const struct cuda_compute *compute, const struct elementwise_args *args,
                       const void *x, void *out);

void cuda_gelu_backward(const struct cuda_compute *compute, const struct elementwise_args *args,
                        const void *dout, const void *x, void *dx);

void cuda_zero_run(const struct cuda_compute *compute, void *bytes, uint64_t count);

void cuda_cast_run(const struct cuda_compute *compute, int64_t count, enum dtype from,
                   const void *in, enum dtype to, void *out);

void cuda_column_sum_run(const struct cuda_compute *compute, const struct column_sum_args *args,
                         const void *x, float *sums, void *workspace);

void cuda_rope_run(const struct cuda_compute *compute, const struct rope_args *args,
                   const float *table, const int32_t *positions, const void *in, void *out);

#endif
