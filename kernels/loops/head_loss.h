/* head_loss kernels: the innermost loops of kernels/head_loss.h with a variant for each instruction
 * set. */
#ifndef SKEP_KERNELS_LOOPS_HEAD_LOSS_H
#define SKEP_KERNELS_LOOPS_HEAD_LOSS_H

#include "base/dtype.h"
#include "kernels/cpu_level.h"

struct head_loss_kernels {
    /* The cross-entropy of one row of logits[vocab], in fp64 from f32 exponentials; NaN when any
     * logit is not finite. loss_gradient_row
     * also overwrites the row with scale * (softmax -
     * onehot(label)) in dtype, packed at the row's start. */
    double (*loss_row)(const float *logits, int64_t vocab, int32_t label);
    double (*loss_gradient_row)(float *logits, int64_t vocab, int32_t label, float scale,
                                enum dtype dtype);
};

/* head_loss_kernels_init: fill *kernels with the plain C functions, then replace them with the
 * faster variants of each level up to `level`. */
void head_loss_kernels_init(struct head_loss_kernels *kernels, enum cpu_level level);

/* Each of these functions replaces the functions for which its level has a faster variant. */
void head_loss_kernels_init_avx2(struct head_loss_kernels *kernels);
void head_loss_kernels_init_avx512(struct head_loss_kernels *kernels);

#endif
