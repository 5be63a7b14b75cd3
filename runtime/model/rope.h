/* rope: scales the inverse frequencies of a rotary embedding. */
#ifndef SKEP_MODEL_ROPE_H
#define SKEP_MODEL_ROPE_H

#include "runtime/model/model.h"

/* rope_scale_llama3: scale one inverse frequency by its wavelength. Short wavelengths leave it
 * unchanged, long ones divide it by `rope->factor`, and those between interpolate.
 * dtypes    f32 in every step, as PyTorch computes it
 * source    Llama 3.1's reference code; transformers 5.23.0, modeling_rope_utils */
float rope_scale_llama3(const struct rope *rope, float frequency);

#endif
