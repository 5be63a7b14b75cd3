/* norm_params: the arguments of the kernels in norm.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_NORM_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_NORM_PARAMS_H

#include <stdint.h>

/* A team of threads processes a row: one warp if the row is short, else the whole block. */
enum {
    CUDA_NORM_THREADS = 256,
    CUDA_NORM_WARPS = CUDA_NORM_THREADS / 32,
    /* elements of a row that one warp processes: the sums of 8 warps fit 48 KiB */
    CUDA_NORM_SHORT = 768,
    /* rows of one team in the backward pass, which sums their part of dweight */
    CUDA_NORM_TEAM_ROWS = 16
};

struct cuda_norm_forward_params {
    const void *x, *weight;
    const void *bias; /* NULL: rmsnorm, which has no mean */
    void *out;
    float *mean, *inverse;
    int64_t rows, dim;
    float epsilon;
};

struct cuda_norm_backward_params {
    const void *dout, *x, *weight;
    const float *mean; /* NULL: rmsnorm */
    const float *inverse;
    const void *dadd; /* NULL: nothing is added */
    void *dx;         /* NULL: not computed */
    /* [chunks, dim], a chunk being the rows of one block; NULL: not computed */
    float *dweight, *dbias;
    int64_t rows, dim;
    /* Columns of a team's sums in shared memory, a multiple of its threads' step; 0: it sums in its
     * row of dweight and dbias. */
    int shared_columns;
};

#endif
