#include "kernels/loops/head_loss.h"

#include "kernels/loops/element.h"

#include <math.h>

/* Returns NAN when any logit is not finite. NaN fails every comparison, so it needs a separate
 * test. */
static float largest_logit(const float *logits, int64_t vocab) {
    float largest = -INFINITY;
    bool finite = true;
    for (int64_t i = 0; i < vocab; i++) {
        finite = finite && isfinite(logits[i]);
        largest = logits[i] > largest ? logits[i] : largest;
    }
    return finite ? largest : NAN;
}

static double loss_row(const float *logits, int64_t vocab, int32_t label) {
    float largest = largest_logit(logits, vocab);
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) {
        sum += (double)expf(logits[i] - largest);
    }
    return log(sum) - ((double)logits[label] - (double)largest);
}

static double loss_gradient_row(float *logits, int64_t vocab, int32_t label, float scale,
                                enum dtype dtype) {
    float largest = largest_logit(logits, vocab);
    double correct = (double)logits[label] - (double)largest;
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) {
        logits[i] = expf(logits[i] - largest);
        sum += (double)logits[i];
    }
    float share = (float)(1.0 / sum);
    for (int64_t i = 0; i < vocab; i++) {
        float probability = logits[i] * share;
        float difference = i == label ? probability - 1.0f : probability;
        element_store(logits, dtype, i, difference * scale);
    }
    return log(sum) - correct;
}

void head_loss_kernels_init(struct head_loss_kernels *kernels, enum cpu_level level) {
    *kernels =
        (struct head_loss_kernels){.loss_row = loss_row, .loss_gradient_row = loss_gradient_row};
    OVERLAY_X86(head_loss, kernels, level);
}
