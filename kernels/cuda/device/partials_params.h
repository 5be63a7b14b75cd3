/* partials_params: the arguments of kernels that call add_partial_sums(). */
#ifndef SKEP_KERNELS_CUDA_DEVICE_PARTIALS_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_PARTIALS_PARAMS_H

#include <stdint.h>

enum {
    CUDA_PARTIALS_THREADS = 256, /* threads of a block */
    CUDA_PARTIALS_COLUMNS = 32,  /* of a block */
};

struct cuda_partials_params {
    const float *partials;   /* [chunks, columns] */
    float *sums;             /* [columns], added to */
    int64_t chunks, columns; /* size of `partials` */
};

#endif
