/* rope: scales the inverse frequencies of a rotary embedding. */
#ifndef SKEP_MODEL_ROPE_H
#define SKEP_MODEL_ROPE_H

#include "runtime/model/model.h"

/* rope_scale_llama3: one inverse frequency of `rope->theta`, scaled by wavelength: short
 * waves are unchanged, long ones are divided by the factor, and those between are interpolated.
 * dtypes    f32 in every step, as PyTorch computes it
 * source    Llama 3.1's reference code; transformers 5.23.0, modeling_rope_utils */
float rope_scale_llama3(const struct rope *rope, float frequency);

#endif
