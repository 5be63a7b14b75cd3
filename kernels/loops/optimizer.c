#include "kernels/loops/optimizer.h"

#include "kernels/loops/element.h"

#include <math.h>

enum { SUM_LANES = 8 }; /* number of partial sums of a granule */

/* Lane l sums elements l, l + 8, ... in order; then pairs of lanes are added whose distance is 4,
 * then 2, then 1. A square of a float is exact in fp64, so a fused multiply-add gives the same
 * bits. */
static double granule_sum(const float *gradients) {
    double lanes[SUM_LANES] = {0};
    for (int i = 0; i < GRANULE_ELEMENTS; i++) {
        double value = (double)gradients[i];
        lanes[i % SUM_LANES] += value * value;
    }
    for (int width = SUM_LANES / 2; width > 0; width /= 2) {
        for (int lane = 0; lane < width; lane++) {
            lanes[lane] += lanes[lane + width];
        }
    }
    return lanes[0];
}

static void granule_sums(const float *gradients, int64_t granules, double *sums) {
    for (int64_t i = 0; i < granules; i++) {
        sums[i] = granule_sum(gradients + i * GRANULE_ELEMENTS);
    }
}

/* Rounds to one of the two neighbouring bf16 values; the lowest 16 bits of `noise` select it. */
static float round_stochastically(float value, uint32_t noise) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isfinite(value)) {
        bits = (bits + (noise & 0xffff)) & 0xffff0000;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Every product, sum, quotient and root rounds once, in this order, at every CPU level. */
static void adamw_elements(const struct adamw_inputs *inputs, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        float gradient = inputs->gradients[i] * inputs->clip;
        float m = element_load(inputs->m, inputs->dtype_moments, i);
        float v = element_load(inputs->v, inputs->dtype_moments, i);
        m = m + inputs->m_blend * (gradient - m);
        v = inputs->beta2 * v + inputs->v_blend * gradient * gradient;
        float spread = v;
        if (inputs->m_share != 0) {
            float mean = inputs->m_share * m;
            spread = inputs->v_share * v + mean * mean;
        }
        float divisor = sqrtf(spread) * inputs->root_scale + inputs->epsilon;
        float weight = inputs->keep * inputs->master[i] - inputs->step * (m / divisor);
        if (inputs->stochastic) {
            uint32_t noise = noise_at(inputs->noise_key, inputs->position + i);
            m = round_stochastically(m, noise);
            v = round_stochastically(v, noise >> 16);
        }
        element_store(inputs->m, inputs->dtype_moments, i, m);
        element_store(inputs->v, inputs->dtype_moments, i, v);
        inputs->master[i] = weight;
        if (inputs->params != NULL) {
            element_store(inputs->params, inputs->dtype_params, i, weight);
        }
    }
}

void optimizer_kernels_init(struct optimizer_kernels *kernels, enum cpu_level level) {
    *kernels = (struct optimizer_kernels){.granule_sums = granule_sums, .adamw = adamw_elements};
    OVERLAY_X86(optimizer, kernels, level);
}
