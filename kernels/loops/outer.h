/* outer kernels: the innermost loops of kernels/outer.h with a variant for each instruction set.
 * All variants give the same bits. */
#ifndef SKEP_KERNELS_LOOPS_OUTER_H
#define SKEP_KERNELS_LOOPS_OUTER_H

#include "kernels/cpu_level.h"
#include "kernels/outer.h"

struct outer_kernels {
    void (*gradient)(const float *outer, const float *inner, int64_t count, float *gradient);
    /* Processes the elements [first, first + count) of every buffer. */
    void (*step)(const struct outer_step_args *args, int64_t first, int64_t count);
};

/* outer_kernels_init: fill *kernels with the plain C functions, then replace them with the
 * faster variants of each level up to `level`. */
void outer_kernels_init(struct outer_kernels *kernels, enum cpu_level level);

/* Each of these functions replaces the functions for which its level has a faster variant. */
void outer_kernels_init_avx2(struct outer_kernels *kernels);
void outer_kernels_init_avx512(struct outer_kernels *kernels);
void outer_kernels_init_neon(struct outer_kernels *kernels);

/* The plain C loops. Faster variants call them for the remainder that is shorter than a vector. */
void outer_gradient_portable(const float *outer, const float *inner, int64_t count,
                             float *gradient);
void outer_step_portable(const struct outer_step_args *args, int64_t first, int64_t count);

#endif
