/* codec reference: the layouts of kernels/codec.h written a second time, element by element in
 * fp64, for the tests of the codecs. */
#ifndef SKEP_TESTS_KERNELS_CODEC_REFERENCE_H
#define SKEP_TESTS_KERNELS_CODEC_REFERENCE_H

#include "kernels/codec.h"
#include "kernels/cpu_level.h"

/* codec_reference_encode: the bytes of `meant` [count] and what they decode to. */
void codec_reference_encode(enum codec codec, int64_t count, const float *meant, uint8_t *bytes,
                            float *decoded);

/* codec_compute: kernels of `level` on one thread of a pool that lives as long as the test. */
const struct compute *codec_compute(enum cpu_level level);

/* codec_step: the distance of two neighbouring decoded values in the block of element `index`. */
double codec_step(enum codec codec, int64_t index, const uint8_t *bytes);

#endif
