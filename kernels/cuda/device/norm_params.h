/* norm_params: the arguments of the kernels in norm.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_NORM_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_NORM_PARAMS_H

#include <stdint.h>

/* A team of threads processes a row: one warp if the row is short, else the whole block. */
enum {
    CUDA_NORM_THREADS = 256,                  /* threads of a block */
    CUDA_NORM_WARPS = CUDA_NORM_THREADS / 32, /* warps of a block */
    /* maximum number of elements in a row that one warp processes: the sums of 8 warps fit in 48
     * KiB */
    CUDA_NORM_SHORT_ROW_MAX = 768,
    /* number of rows that one team processes in the backward pass; it sums their terms of
     * dweight */
    CUDA_NORM_ROWS_PER_TEAM = 16
};

struct cuda_norm_forward_params {
    const void *x, *weight; /* input rows and weight vector */
    const void *bias;       /* NULL: this is rmsnorm, which has no bias and no mean */
    void *out;              /* normalized rows */
    float *mean, *inverse;  /* mean of each row; 1 / its root mean square or standard deviation */
    int64_t rows, dim;      /* number of rows; elements of a row */
    float epsilon;          /* added under the root */
};

struct cuda_norm_backward_params {
    const void *dout, *x, *weight; /* gradient of out; operands of the forward pass */
    const float *mean;             /* NULL: rmsnorm */
    const float *inverse;          /* 1 / root mean square or standard deviation of each row */
    const void *dadd;              /* added to dx; NULL: nothing is added */
    void *dx;                      /* NULL: dx is not computed */
    /* partial sums [chunks, dim], where a chunk is the rows of one block; NULL: not computed */
    float *dweight, *dbias;
    int64_t rows, dim;
    /* Number of columns of each team's sums in shared memory, a multiple of the columns that its
     * threads process at a time; 0: a team sums directly in its row of dweight and dbias. */
    int shared_columns;
};

#endif
