/* elementwise kernels: the innermost loops of kernels/elementwise.h with a variant for each
 * instruction set. */
#ifndef SKEP_KERNELS_LOOPS_ELEMENTWISE_H
#define SKEP_KERNELS_LOOPS_ELEMENTWISE_H

#include "kernels/cpu_level.h"
#include "kernels/elementwise.h"

/* The buffers of a kernel, in the order of its public function's parameters. */
struct elementwise_buffers {
    enum dtype dtype;  /* type of all operands */
    const void *in[3]; /* inputs; NULL where the function has fewer */
    void *out[2];      /* outputs; NULL where the function has fewer */
};

/* GELU's tanh form, 0.5 x (1 + tanh(u)), is x logistic(2u), which does not cancel for negative u;
 * 2u = x (A + B x^2), with A = 2 sqrt(2 / pi), B = 0.044715 A. */
static const float GELU_A = 0x1.988454p+0f;
static const float GELU_B = 0x1.2444f2p-4f;

struct rope_buffers {
    const struct rope_args *args;
    const float *table;       /* cosines and sines of each position */
    const int32_t *positions; /* position of each token in its document */
    const void *in;
    void *out;
};

struct elementwise_kernels {
    /* Each of these functions processes the elements [first, first + count) of every operand. */
    void (*add)(const struct elementwise_buffers *buffers, int64_t first, int64_t count);
    void (*swiglu_forward)(const struct elementwise_buffers *buffers, int64_t first, int64_t count);
    void (*swiglu_backward)(const struct elementwise_buffers *buffers, int64_t first,
                            int64_t count);
    void (*gelu_forward)(const struct elementwise_buffers *buffers, int64_t first, int64_t count);
    void (*gelu_backward)(const struct elementwise_buffers *buffers, int64_t first, int64_t count);
    /* narrow: f32 to bf16; widen: bf16 to f32; cast: any other pair of float types. */
    void (*narrow)(const float *in, uint16_t *out, int64_t count);
    void (*widen)(const uint16_t *in, float *out, int64_t count);
    void (*cast)(enum dtype from, const void *in, enum dtype to, void *out, int64_t count);
    /* column_sum: overwrite sums[columns] with the sum of the `rows` rows that start at x. */
    void (*column_sum)(const struct column_sum_args *args, const void *x, int64_t rows,
                       float *sums);
    /* rope: process the tokens [first, first + count). */
    void (*rope)(const struct rope_buffers *buffers, int64_t first, int64_t count);
};

/* elementwise_kernels_init: fill *kernels with the plain C functions, then replace them with the
 * faster variants of each level up to `level`. */
void elementwise_kernels_init(struct elementwise_kernels *kernels, enum cpu_level level);

/* Each of these functions replaces the functions for which its level has a faster variant. */
void elementwise_kernels_init_avx2(struct elementwise_kernels *kernels);
void elementwise_kernels_init_avx512(struct elementwise_kernels *kernels);

#endif
