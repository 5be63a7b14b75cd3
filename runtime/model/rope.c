#include "runtime/model/rope.h"

#include <math.h>

float rope_scale_llama3(const struct rope *rope, float frequency) {
    double old = (double)rope->original_positions;
    double low = rope->low_freq_factor;
    double high = rope->high_freq_factor;
    float factor = (float)rope->factor;
    float wavelength = (float)(2 * M_PI) / frequency;
    if (wavelength > (float)(old / low)) {
        return frequency / factor;
    }
    if (wavelength < (float)(old / high)) {
        return frequency;
    }
    float smooth = ((float)old / wavelength - (float)low) / (float)(high - low);
    return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

void blueprint_rope_frequencies(const struct blueprint *blueprint, float *frequencies) {
    const struct rope *rope = &blueprint->rope;
    ASSERT(rope->kind != ROPE_NONE);
    int64_t dim = blueprint->head_dim;
    for (int64_t i = 0; i < dim / 2; i++) {
        float exponent = (float)(2 * i) / (float)dim;
        /* pow is computed in double and rounded once to f32. PyTorch's vectorised powf is within
         * one ulp of this value. */
        float frequency = 1.0f / (float)pow((double)(float)rope->theta, (double)exponent);
        switch (rope->kind) {
        case ROPE_LINEAR:
            frequency = frequency / (float)rope->factor;
            break;
        case ROPE_LLAMA3:
            frequency = rope_scale_llama3(rope, frequency);
            break;
        case ROPE_DEFAULT:
        case ROPE_NONE:
            break;
        }
        frequencies[i] = frequency;
    }
}
