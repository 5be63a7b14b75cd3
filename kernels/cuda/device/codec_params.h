/* codec params: what the launches of the codecs hand over. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_CODEC_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_CODEC_PARAMS_H

#include <stdint.h>

enum { CODEC_THREADS = 256 };

struct codec_encode_params {
    const float *source, *feedback; /* feedback may be NULL */
    float *residual;                /* or NULL; may be feedback */
    uint8_t *bytes;
    int *refused; /* grows by 1 for each block or element that is refused */
    int64_t count;
};

struct codec_decode_params {
    const uint8_t *bytes;
    float *values;
    int64_t count;
    float weight;
    int32_t add; /* values grow by weight x decoded; else they become it */
};

#endif
