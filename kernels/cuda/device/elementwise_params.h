/* elementwise_params: the arguments of the kernels in elementwise.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_ELEMENTWISE_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_ELEMENTWISE_PARAMS_H

#include <stdint.h>

enum {
    CUDA_ELEMENT_THREADS = 256,        /* threads of a block */
    CUDA_CAST_ELEMENTS_PER_THREAD = 8, /* number of elements that one thread casts */
    CUDA_COLUMN_SUM_WARPS = 8,         /* warps of a block; each sums every eighth row of a chunk */
    CUDA_COLUMN_SUM_ROWS =
        128, /* rows of a chunk; one block sums a chunk to one row of partial sums */
};

struct cuda_element_params {
    const void *in[3]; /* inputs; NULL where the function has fewer */
    void *out[2];      /* outputs; NULL where the function has fewer */
    int64_t count;     /* number of elements */
    int aligned;       /* 1: all tensors are aligned to 16 bytes */
};

struct cuda_cast_params {
    const void *in;
    void *out;
    int64_t count;
    int aligned;
};

struct cuda_column_sum_params {
    const void *x;                 /* input matrix */
    float *partials;               /* [chunks, columns] */
    int64_t rows, columns, stride; /* size of x; stride: elements from one row to the next */
    int aligned;                   /* 1: x and all of its rows are aligned to 16 bytes */
};

/* A unit is the work of one thread: `width` pairs of a head, or `width` elements that are not
 * rotated. */
struct cuda_rope_params {
    const float *table;       /* cosines and sines of each position */
    const int32_t *positions; /* position of each token in its document */
    const void *in;
    void *out;
    int64_t in_stride, out_stride;           /* elements from one token to the next */
    int64_t units;                           /* number of units of all tokens */
    int token_units, head_units, pair_units; /* units of a token, a head, and its rotated pairs */
    int head_dim, rotary_dim; /* elements of a head; number of them that are rotated */
    int inverse;              /* 1: rotate backwards, for the backward pass */
};

#endif
