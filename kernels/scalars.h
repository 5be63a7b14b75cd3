/* scalars: the values that change at every step, in one extent that kernels read and write, so that
 * instructions stay constant. */
#ifndef SKEP_KERNELS_SCALARS_H
#define SKEP_KERNELS_SCALARS_H

#include <stdint.h>

enum { NORM_DIGITS = 24 }; /* digits of 32 bits in a norm_accumulator */

/* Sum of squares in fixed point: digit d counts units of 2^(32 d - 320). Addition of integers is
 * associative, so the sum has the same bits in any order and on any number of ranks. Finite fp32
 * squares summed over a granule lie in [2^-298, 2^263]. */
struct norm_accumulator {
    int64_t digits[NORM_DIGITS]; /* digits of a fixed-point sum in base 2^32 */
    int64_t nonfinite;           /* number of granules whose sum was not finite */
};

struct step_scalars {
    /* The CPU writes these fields before it executes the segment that reads them. */
    float learning_rate;     /* learning rate of this step */
    float beta1, beta2;      /* decay rates of the moments in this step */
    float weight_decay;      /* weight decay of this step, for the elements that have it */
    float bias_correction_1; /* 1 - the product of beta1 over all updates, this one included */
    float bias_correction_2; /* 1 - the product of beta2 over all updates, this one included */
    float mean_share;        /* share of the squared mean in AdamW's divisor; 0: plain AdamW */
    float loss_scale;        /* 1 / valid tokens of the step, over all ranks */
    int32_t cache_length;    /* number of tokens already in the key-value cache */
    int32_t token_count;     /* number of valid tokens in this prefill chunk */
    /* number of tokens of the step or batch that count for the loss: on this rank or, after a
     * tally, on all ranks */
    int64_t valid_tokens;
    uint32_t noise; /* seed for the stochastic rounding of this step */
    /* Kernels write these fields. */
    double loss_sum;      /* sum over valid tokens, not yet scaled; each microbatch adds to it */
    double gradient_norm; /* norm over all ranks, before clipping */
    float clip_factor;    /* min(1, clip_norm / gradient_norm) */
    int32_t skip; /* 1: a gradient is not finite, so the optimizer must not change anything */
    struct norm_accumulator norm; /* exact sum of squares of the gradients */
};

/* One rank's share of the sums over all ranks of a step or a batch. */
struct rank_tally {
    double loss_sum;
    int64_t valid_tokens;
    struct norm_accumulator norm; /* sum of squares of the rank's own gradients */
};

#endif
