/* matmul_params: the arguments of the kernels in matmul.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_MATMUL_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_MATMUL_PARAMS_H

#include <stdint.h>

/* C[m, n] = op(A) op(B) (+ bias) (+ C), as in kernels/matmul.h. A block computes one tile of C. The
 * rows of tiles are divided into groups of MATMUL_GROUP_ROWS. Consecutive blocks process one group,
 * column by column, so that concurrent blocks read the same rows and columns. */
enum {
    MATMUL_TILE_LARGE = 128, /* rows and columns of a large tile */
    MATMUL_TILE_SMALL = 64,  /* rows and columns of a small tile */
    MATMUL_GROUP_ROWS = 8    /* rows of tiles in a group */
};

/* The bf16 product: number of copy stages in flight, and the depth of each stage. */
enum { MATMUL_STAGES = 3, MATMUL_DEPTH = 32 };
enum {
    MATMUL_F32_THREADS = 256, /* threads of a block */
    MATMUL_F32_PADDING = 4,   /* floats that pad each row of a tile in shared memory */
    MATMUL_F32_BLOCK = 1024   /* depths that are summed before the sum is added to C */
};

struct matmul_params {
    int64_t m, n, k;                  /* C is [m, n]; k: number of products in each sum */
    int64_t lda, ldb, ldc;            /* elements from one stored row to the next */
    const void *a, *b, *bias;         /* inputs; bias NULL: none */
    void *c;                          /* output */
    int32_t tile_rows, tile_columns;  /* number of rows and columns of tiles in C */
    int32_t transpose_a, transpose_b; /* 1: the operand is stored transposed */
    int32_t a_aligned, b_aligned;     /* 1: rows are aligned to 16 bytes */
    int32_t c_paired; /* 1: each pair of elements of C from an even column on is aligned */
    int32_t out_bf16, accumulate; /* 1: C is bf16, not f32; 1: add to C */
};

#endif
