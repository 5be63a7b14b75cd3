/* codec_params: the arguments of the kernels in codec.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_CODEC_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_CODEC_PARAMS_H

#include <stdint.h>

enum { CODEC_THREADS = 256 };

struct codec_encode_params {
    const float *source, *feedback; /* feedback may be NULL */
    float *residual;                /* or NULL; may be feedback */
    uint8_t *bytes;
    int *nonfinite; /* incremented for each block or element that is not finite */
    int64_t count;
};

struct codec_decode_params {
    const uint8_t *bytes;
    float *values;
    int64_t count;
    float weight;
    int32_t add; /* 1: add weight x decoded to values; 0: overwrite them */
};

#endif
