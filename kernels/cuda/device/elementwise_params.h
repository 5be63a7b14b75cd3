/* elementwise_params: the arguments of the kernels in elementwise.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_ELEMENTWISE_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_ELEMENTWISE_PARAMS_H

#include <stdint.h>

enum {
    CUDA_ELEMENT_THREADS = 256,
    CUDA_CAST_ELEMENTS_PER_THREAD = 8, /* number of elements that one thread casts */
    CUDA_COLUMN_SUM_WARPS = 8,         /* warps of a block; each sums every eighth row of a chunk */
    CUDA_COLUMN_SUM_ROWS =
        128, /* rows of a chunk; one block sums a chunk to one row of partial sums */
};

struct cuda_element_params {
    const void *in[3];
    void *out[2];
    int64_t count;
    int aligned; /* 1: all tensors are aligned to 16 bytes */
};

struct cuda_cast_params {
    const void *in;
    void *out;
    int64_t count;
    int aligned;
};

struct cuda_column_sum_params {
    const void *x;
    float *partials; /* [chunks, columns] */
    int64_t rows, columns, stride;
    int aligned; /* 1: x and all of its rows are aligned to 16 bytes */
};

/* A unit is the work of one thread: `width` pairs of a head, or `width` elements that are not
 * rotated. */
struct cuda_rope_params {
    const float *table;
    const int32_t *positions;
    const void *in;
    void *out;
    int64_t in_stride, out_stride;
    int64_t units; /* number of units of all tokens */
    int token_units, head_units, pair_units;
    int head_dim, rotary_dim;
    int inverse; /* 1: rotate backwards, for the backward pass */
};

#endif
