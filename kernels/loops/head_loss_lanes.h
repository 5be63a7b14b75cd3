/* head_loss lanes: the cross-entropy of a row over vectors; included once for each instruction set,
 * after its lanes header. */
#ifndef SKEP_KERNELS_LOOPS_HEAD_LOSS_LANES_H
#define SKEP_KERNELS_LOOPS_HEAD_LOSS_LANES_H

#include "kernels/loops/element.h"
#include "kernels/loops/head_loss.h"

#include <math.h>

/* Number of exponentials that are summed in f32 before they are added in fp64: 16 additions per
 * lane. */
enum { SUM_BLOCK = 16 * LANES };

/* Returns NAN when a logit is infinite. The maximum ignores NaN logits, which make the sum of the
 * exponentials NaN. */
ALWAYS_INLINE float largest_logit(const float *logits, int64_t vocab) {
    lanes largest = lanes_broadcast(-INFINITY);
    lanes smallest = lanes_broadcast(INFINITY);
    int64_t i = 0;
    for (; i + LANES <= vocab; i += LANES) {
        lanes value = lanes_load(DTYPE_F32, logits, i, LANES);
        largest = lanes_max(value, largest);
        smallest = lanes_min(value, smallest);
    }
    float high = lanes_reduce_max(largest);
    float low = lanes_reduce_min(smallest);
    for (; i < vocab; i++) {
        high = logits[i] > high ? logits[i] : high;
        low = logits[i] < low ? logits[i] : low;
    }
    return isfinite(high) && low > -INFINITY ? high : NAN;
}

/* The sum of the exponentials of logit - largest. They are also stored in `keep`, unless it is
 * NULL. */
ALWAYS_INLINE double sum_exponentials(float *keep, const float *logits, int64_t vocab,
                                      float largest) {
    lanes top = lanes_broadcast(largest);
    double total = 0;
    int64_t i = 0;
    for (int64_t whole = vocab / LANES * LANES; i < whole;) {
        int64_t end = i + SUM_BLOCK < whole ? i + SUM_BLOCK : whole;
        lanes sum = lanes_zero();
        for (; i < end; i += LANES) {
            lanes power = lanes_exp(lanes_load(DTYPE_F32, logits, i, LANES) - top);
            sum += power;
            if (keep != NULL) {
                lanes_store(DTYPE_F32, keep, i, LANES, power);
            }
        }
        total += (double)lanes_reduce_sum(sum);
    }
    for (; i < vocab; i++) {
        float power = lanes_exp(lanes_broadcast(logits[i] - largest))[0];
        total += (double)power;
        if (keep != NULL) {
            keep[i] = power;
        }
    }
    return total;
}

/* Element i is written only after all elements up to i have been read, so a gradient in bf16
 * overwrites no unread logit. */
ALWAYS_INLINE void scale_row(enum dtype dtype, float *logits, int64_t vocab, float factor) {
    lanes all = lanes_broadcast(factor);
    for (int64_t i = 0; i < vocab; i += LANES) {
        lanes value = lanes_load(DTYPE_F32, logits, i, vocab - i) * all;
        lanes_store(dtype, logits, i, vocab - i, value);
    }
}

static double loss_row_lanes(const float *logits, int64_t vocab, int32_t label) {
    float largest = largest_logit(logits, vocab);
    double sum = sum_exponentials(NULL, logits, vocab, largest);
    return log(sum) - ((double)logits[label] - (double)largest);
}

static double loss_gradient_row_lanes(float *logits, int64_t vocab, int32_t label, float scale,
                                      enum dtype dtype) {
    float largest = largest_logit(logits, vocab);
    double correct = (double)logits[label] - (double)largest;
    double sum = sum_exponentials(logits, logits, vocab, largest);
    /* The gradient at the label is scale * (probability - 1), subtracted before the scaling. */
    float slope = ((float)((double)logits[label] / sum) - 1.0f) * scale;
    float factor = (float)((double)scale / sum);
    if (dtype == DTYPE_BF16) {
        scale_row(DTYPE_BF16, logits, vocab, factor);
    } else {
        scale_row(DTYPE_F32, logits, vocab, factor);
    }
    element_store(logits, dtype, label, slope);
    return log(sum) - correct;
}

static const struct head_loss_kernels head_loss_lanes = {
    .loss_row = loss_row_lanes,
    .loss_gradient_row = loss_gradient_row_lanes,
};

#endif
