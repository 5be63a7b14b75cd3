/* generation_params: the arguments of the kernels in generation.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_GENERATION_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_GENERATION_PARAMS_H

#include "kernels/scalars.h"

enum { CUDA_GENERATION_THREADS = 256 }; /* one element each */

struct cuda_generation_params {
    const struct step_scalars *scalars;
    const void *rows;              /* new rows of keys or values, or the rows to select from */
    void *to;                      /* the cache, or one row */
    int64_t tokens, width, stride; /* rows; elements of a row; elements from row to row */
};

#endif
