/* rope: what the rotary embedding's kinds do to the inverse frequencies. */
#ifndef SKEP_MODEL_ROPE_H
#define SKEP_MODEL_ROPE_H

#include "runtime/model/blueprint.h"

/* rope_scale_llama3: one inverse frequency of `rope->theta`, scaled by wavelength: short
 * waves stay, long ones are divided by its factor, those between are blended.
 * dtypes    f32 in every step, as PyTorch computes it
 * source    Llama 3.1's reference code; transformers 5.23.0, modeling_rope_utils */
float rope_scale_llama3(const struct rope *rope, float frequency);

#endif
