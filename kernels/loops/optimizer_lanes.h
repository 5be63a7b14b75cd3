/* optimizer lanes: AdamW over vectors; included once for each instruction set, after its lanes
 * header. */
#ifndef SKEP_KERNELS_LOOPS_OPTIMIZER_LANES_H
#define SKEP_KERNELS_LOOPS_OPTIMIZER_LANES_H

#include "kernels/loops/optimizer.h"

typedef uint32_t noise_lanes __attribute__((vector_size(sizeof(lanes))));

ALWAYS_INLINE noise_lanes noise_lanes_at(uint32_t key, int64_t position) {
    static const uint32_t STEPS[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    noise_lanes words;
    memcpy(&words, STEPS, sizeof words);
    words = (words + (uint32_t)position) ^ key;
    NOISE_HASH(words);
    return words;
}

/* Rounds to a value that bf16 represents exactly, unless it is not finite. */
ALWAYS_INLINE lanes round_stochastically(lanes value, noise_lanes noise) {
    noise_lanes bits = (noise_lanes)value;
    noise_lanes finite = (noise_lanes)((bits & 0x7f800000) != 0x7f800000);
    bits = (bits + (noise & 0xffff & finite)) & (0xffff0000 | ~finite);
    return (lanes)bits;
}

/* The operations and their order are the same as in kernels/loops/optimizer.c, and none are fused,
 * so that the bits are the same. */
ALWAYS_INLINE void adamw_step(const struct adamw_inputs *inputs, enum dtype moments,
                              bool stochastic, int64_t i, int64_t count) {
    lanes gradient = lanes_load(DTYPE_F32, inputs->gradients, i, count) * inputs->clip;
    lanes m = lanes_load(moments, inputs->m, i, count);
    lanes v = lanes_load(moments, inputs->v, i, count);
    m = m + inputs->m_blend * (gradient - m);
    v = inputs->beta2 * v + inputs->v_blend * gradient * gradient;
    lanes spread = v;
    if (inputs->m_share != 0) {
        lanes mean = inputs->m_share * m;
        spread = inputs->v_share * v + mean * mean;
    }
    lanes divisor = lanes_sqrt(spread) * inputs->root_scale + inputs->epsilon;
    lanes weight = lanes_load(DTYPE_F32, inputs->master, i, count);
    weight = inputs->keep * weight - inputs->step * (m / divisor);
    if (stochastic) {
        noise_lanes noise = noise_lanes_at(inputs->noise_key, inputs->position + i);
        m = round_stochastically(m, noise);
        v = round_stochastically(v, noise >> 16);
    }
    lanes_store(moments, inputs->m, i, count, m);
    lanes_store(moments, inputs->v, i, count, v);
    lanes_store(DTYPE_F32, inputs->master, i, count, weight);
    if (inputs->params != NULL) {
        lanes_store(inputs->dtype_params, inputs->params, i, count, weight);
    }
}

ALWAYS_INLINE void adamw_span(const struct adamw_inputs *inputs, enum dtype moments,
                              bool stochastic, int64_t first, int64_t end) {
    int64_t i = first;
    for (; i + LANES <= end; i += LANES) {
        adamw_step(inputs, moments, stochastic, i, LANES);
    }
    if (i < end) {
        adamw_step(inputs, moments, stochastic, i, end - i);
    }
}

static void adamw_lanes(const struct adamw_inputs *inputs, int64_t first, int64_t count) {
    if (inputs->stochastic) {
        adamw_span(inputs, DTYPE_BF16, true, first, first + count);
    } else if (inputs->dtype_moments == DTYPE_BF16) {
        adamw_span(inputs, DTYPE_BF16, false, first, first + count);
    } else {
        adamw_span(inputs, DTYPE_F32, false, first, first + count);
    }
}

#endif
