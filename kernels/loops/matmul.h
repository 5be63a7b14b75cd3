/* matmul kernels: the innermost loops of kernels/matmul.h with a variant for each instruction set:
 * packing of panels, and the product of two packed panels, one tile of C. */
#ifndef SKEP_KERNELS_LOOPS_MATMUL_H
#define SKEP_KERNELS_LOOPS_MATMUL_H

#include "base/dtype.h"
#include "kernels/cpu_level.h"

enum {
    MATMUL_STRIP = 64, /* columns of B packed at a time, a multiple of every kernel's `columns` */
    MATMUL_PREFETCH_STEPS = 8, /* a tile prefetches one cache line every 8 steps */
};

/* A panel is `width` lanes (rows of A, or columns of B) by `depth`, with layout [ceil(depth /
 * group)][width][group], in the order in which the tile's loop reads it. */
struct matmul_pack {
    const void *source;    /* address of lane 0 at depth 0; a lane is a row of A or a column of B */
    int64_t stride;        /* elements from one stored row of the source to the next */
    bool lanes_contiguous; /* true: source is [depth, lanes]; false: it is [lanes, depth] */
    int64_t lanes; /* rows of A or columns of B to read; the others up to `width` are set to 0 */
    int64_t width; /* width of the packed panel, in lanes: rows of A or columns of B */
    int64_t depth; /* number of depths to read; the last group is padded with zeros */
    void *out;     /* the packed panel */
};

/* out[i, j] = sum over steps of a[step, i] * b[step, j] (+ bias[j]) (+ sum[i, j]). Every element is
 * summed in the order of the steps, in f32, whatever the tile's shape. */
struct matmul_tile {
    const void *a;     /* packed panel of A, of width `rows` */
    const void *b;     /* packed panel of B, as wide as the kernel's `columns` */
    int64_t b_stride;  /* bytes from one step of b to the next */
    int64_t steps;     /* number of products summed for each element */
    int rows;          /* number of rows: 1 to the kernel's `rows` */
    int columns;       /* number of columns to write: 1 to the kernel's `columns` */
    const float *bias; /* one value for each column, or NULL */
    const float *sum;  /* earlier sums to add, or NULL; may be the same buffer as the output */
    int64_t sum_stride, out_stride; /* elements from one row to the next */
    void *out;                      /* the tile of C */
    enum dtype dtype_out;           /* type of C */
    /* An address in memory that is packed next. A variant may prefetch its cache line, and for
     * every further MATMUL_PREFETCH_STEPS steps the line `prefetch_stride` bytes after the previous
     * one. */
    const void *prefetch;
    int64_t prefetch_stride; /* bytes from one prefetched line to the next */
};

/* The properties and functions of one variant. */
struct matmul_kernel {
    int rows, columns; /* the largest tile */
    int group;         /* number of depths packed side by side */
    int packed_bytes;  /* size of one element of a panel */
    void (*pack)(const struct matmul_pack *pack);
    void (*tile)(const struct matmul_tile *tile);
};

/* One kernel for each type of input. */
struct matmul_kernels {
    struct matmul_kernel f32, bf16; /* variants, by type of A and B */
};

/* matmul_write_row: finish row `row` of a tile in plain C: add bias and sum to `values` [columns],
 * and store the result. */
void matmul_write_row(const struct matmul_tile *tile, int row, const float *values);

/* matmul_kernels_init: fill *kernels with the plain C functions, then replace them with the
 * faster variants of each level up to `level`. */
void matmul_kernels_init(struct matmul_kernels *kernels, enum cpu_level level);

/* Each of these functions replaces the functions for which its level has a faster variant. */
void matmul_kernels_init_avx2(struct matmul_kernels *kernels);
void matmul_kernels_init_avx512(struct matmul_kernels *kernels);
void matmul_kernels_init_avx512_bf16(struct matmul_kernels *kernels);
void matmul_kernels_init_neon(struct matmul_kernels *kernels);

#endif
