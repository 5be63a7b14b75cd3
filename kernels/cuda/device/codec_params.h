/* codec_params: the arguments of the kernels in codec.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_CODEC_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_CODEC_PARAMS_H

#include <stdint.h>

enum { CODEC_THREADS = 256 }; /* threads of a block */

struct codec_encode_params {
    const float *source, *feedback; /* feedback may be NULL */
    float *residual;                /* may be NULL, or the same buffer as feedback */
    uint8_t *bytes;                 /* encoded output */
    int *nonfinite; /* number of blocks or elements that are not finite; the kernel adds to it */
    int64_t count;  /* number of elements */
};

struct codec_decode_params {
    const uint8_t *bytes;
    float *values; /* [count] decoded output */
    int64_t count;
    float weight; /* factor of the decoded values, if they are added */
    int32_t add;  /* 1: add weight x decoded to values; 0: overwrite them */
};

#endif
