/* outer_params: the arguments of the kernels in outer.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_OUTER_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_OUTER_PARAMS_H

#include <stdint.h>

enum { OUTER_THREADS = 256 }; /* threads of a block */

struct outer_gradient_params {
    const float *outer, *inner; /* parameters before and after the inner steps */
    float *gradient;            /* [count] outer gradient */
    int64_t count;              /* number of elements */
};

struct outer_step_params {
    const float *params, *moments, *gradients; /* [count] inputs of the outer step */
    float *next_params, *next_moments;         /* [count] outputs of the outer step */
    int64_t count;
    float rate, momentum; /* learning rate and momentum of the outer step */
};

#endif
