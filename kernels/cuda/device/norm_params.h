/* norm_params: what the kernels of norm.cu are launched with. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_NORM_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_NORM_PARAMS_H

#include <stdint.h>

/* A row has a team: one warp where it is short, else the whole block. */
enum {
    CUDA_NORM_THREADS = 256,
    CUDA_NORM_WARPS = CUDA_NORM_THREADS / 32,
    CUDA_NORM_SHORT = 768,   /* elements of a row that one warp takes: sums of 8 fit 48 KiB */
    CUDA_NORM_TEAM_ROWS = 16 /* of one team, backward: it adds up their part of dweight */
};

struct cuda_norm_forward_params {
    const void *x, *weight;
    const void *bias; /* NULL: rmsnorm, without mean */
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
    void *dx;         /* NULL: not made */
    /* [chunks, dim], a chunk being the rows of one block; NULL: not made */
    float *dweight, *dbias;
    int64_t rows, dim;
    /* Of a team's sums in shared memory, whole steps of its threads; 0: it adds up in its row of
     * dweight and dbias. */
    int shared_columns;
};

#endif
