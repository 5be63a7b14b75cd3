#include "runtime/model/rope.h"

#include <math.h>

float rope_scale_llama3(const struct blueprint *blueprint, float frequency) {
    double old = (double)blueprint->rope_original_positions;
    double low = blueprint->rope_low_freq_factor;
    double high = blueprint->rope_high_freq_factor;
    float factor = (float)blueprint->rope_factor;
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
    ASSERT(blueprint->rope != ROPE_NONE);
    int64_t dim = blueprint->head_dim;
    for (int64_t i = 0; i < dim / 2; i++) {
        float exponent = (float)(2 * i) / (float)dim;
        /* The power is rounded once, from double: PyTorch's vectorised powf is within an ulp of
         * it. */
        float frequency = 1.0f / (float)pow((double)(float)blueprint->rope_theta, (double)exponent);
        switch (blueprint->rope) {
        case ROPE_LINEAR:
            frequency = frequency / (float)blueprint->rope_factor;
            break;
        case ROPE_LLAMA3:
            frequency = rope_scale_llama3(blueprint, frequency);
            break;
        case ROPE_DEFAULT:
        case ROPE_NONE:
            break;
        }
        frequencies[i] = frequency;
    }
}
