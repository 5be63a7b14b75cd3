/* norm kernels: the innermost loops of kernels/norm.h with a variant for each instruction set. */
#ifndef SKEP_KERNELS_LOOPS_NORM_H
#define SKEP_KERNELS_LOOPS_NORM_H

#include "kernels/cpu_level.h"
#include "kernels/norm.h"

struct norm_forward_buffers {
    const struct norm_args *args;
    const void *x, *weight, *bias; /* bias: layernorm only */
    void *out;                     /* normalized rows */
    float *mean, *inverse;         /* mean: layernorm only */
};

struct norm_backward_buffers {
    const struct norm_args *args;
    const void *dout, *x, *weight, *dadd; /* dadd may be NULL */
    const float *mean, *inverse;          /* mean: layernorm only */
    void *dx;                             /* may be NULL */
};

/* Each of these functions processes the rows [first, first + count). The backward functions
 * overwrite dweight[dim] and dbias[dim], unless they are NULL, with the sums over these rows. */
struct norm_kernels {
    void (*rmsnorm_forward)(const struct norm_forward_buffers *buffers, int64_t first,
                            int64_t count);
    void (*rmsnorm_backward)(const struct norm_backward_buffers *buffers, int64_t first,
                             int64_t count, float *dweight);
    void (*layernorm_forward)(const struct norm_forward_buffers *buffers, int64_t first,
                              int64_t count);
    void (*layernorm_backward)(const struct norm_backward_buffers *buffers, int64_t first,
                               int64_t count, float *dweight, float *dbias);
};

/* norm_kernels_init: fill *kernels with the plain C functions, then replace them with the
 * faster variants of each level up to `level`. */
void norm_kernels_init(struct norm_kernels *kernels, enum cpu_level level);

/* Each of these functions replaces the functions for which its level has a faster variant. */
void norm_kernels_init_avx2(struct norm_kernels *kernels);
void norm_kernels_init_avx512(struct norm_kernels *kernels);

#endif
