/* init: random first values of parameters, any range of any tensor on its own. */
#ifndef SKEP_MODEL_INIT_H
#define SKEP_MODEL_INIT_H

#include "runtime/model/blueprint.h"

/* param_init_fill: elements [first, first + count) of a parameter, row-major, as stored.
 * values    INIT_NORMAL: init_std times normal value `index` of the stream keyed by (seed, name);
 *           INIT_ZERO 0; INIT_ONE 1. So the bits depend on seed, name and index alone: not on
 *           ranks, ranges, threads or the machine
 * shapes    out [count]
 * dtypes    out f32
 * limits    0 <= first, first + count <= param_elements(param)
 * source    deviations as transformers sets them: initializer_range, and for gpt2's residual
 *           projections initializer_range / sqrt(2 * layers) */
void param_init_fill(const struct param *param, uint64_t seed, int64_t first, int64_t count,
                     float *out);

#endif
