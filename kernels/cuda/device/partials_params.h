/* partials_params: the arguments of kernels that call add_partial_sums(). */
#ifndef SKEP_KERNELS_CUDA_DEVICE_PARTIALS_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_PARTIALS_PARAMS_H

#include <stdint.h>

enum {
    CUDA_PARTIALS_THREADS = 256, /* threads of a block */
    CUDA_PARTIALS_COLUMNS = 32,  /* columns that a block sums */
};

struct cuda_partials_params {
    const float *partials;   /* [chunks, columns] */
    float *sums;             /* [columns] to which the sums of the chunks are added */
    int64_t chunks, columns; /* size of `partials` */
};

#endif
