/* generation_params: the arguments of the kernels in generation.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_GENERATION_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_GENERATION_PARAMS_H

#include "kernels/scalars.h"

enum { CUDA_GENERATION_THREADS = 256 }; /* threads of a block; each copies one element */

struct cuda_generation_params {
    const struct step_scalars *scalars; /* scalars with the number of valid rows */
    const void *rows;                   /* new rows of keys or values, or the rows to select from */
    void *to;                           /* output: the cache, or one row */
    /* number of rows; elements of a row; elements from one row to the next */
    int64_t tokens, width, stride;
};

#endif
