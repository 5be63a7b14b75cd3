/* outer_params: the arguments of the kernels in outer.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_OUTER_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_OUTER_PARAMS_H

#include <stdint.h>

enum { OUTER_THREADS = 256 };

struct outer_gradient_params {
    const float *outer, *inner;
    float *gradient;
    int64_t count;
};

struct outer_step_params {
    const float *params, *moments, *gradients;
    float *next_params, *next_moments;
    int64_t count;
    float rate, momentum;
};

#endif
