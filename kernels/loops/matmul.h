/* matmul kernels: the innermost loops of kernels/matmul.h with a variant for each instruction set:
 * packing of panels, and the product of two packed panels, one tile of C. */
#ifndef SKEP_KERNELS_LOOPS_MATMUL_H
#define SKEP_KERNELS_LOOPS_MATMUL_H

#include "base/dtype.h"
#include "kernels/cpu_level.h"

enum {
    MATMUL_STRIP = 64,      /* columns of B packed at a time; every kernel's `columns` divides it */
    MATMUL_AHEAD_STEPS = 8, /* steps of a tile for each cache line that it prefetches */
};

/* A panel is `width` lanes (rows of A, or columns of B) by `depth`, with layout [ceil(depth /
 * group)][width][group], in the order in which the tile's loop reads it. */
struct matmul_pack {
    const void *source; /* lane 0 at depth 0 */
    int64_t stride;     /* elements; from one lane to the next, or from one depth to the next */
    bool lanes_adjoin;  /* source is [depth, lanes] (true) or [lanes, depth] (false) */
    int64_t lanes;      /* lanes to read; those from here to `width` are set to zero */
    int64_t width;
    int64_t depth; /* the rest of the last group is set to zero */
    void *out;
};

/* out[i, j] = sum over steps of a[step, i] * b[step, j] (+ bias[j]) (+ sum[i, j]). Every element is
 * summed in the order of the steps, in f32, whatever the tile's shape. */
struct matmul_tile {
    const void *a;    /* packed panel of width `rows` */
    const void *b;    /* packed panel of the kernel's `columns` */
    int64_t b_stride; /* bytes from one step of b to the next */
    int64_t steps;
    int rows;    /* 1 .. the kernel's `rows` */
    int columns; /* columns to write: 1 .. the kernel's `columns` */
    const float *bias;
    const float *sum;               /* may be out */
    int64_t sum_stride, out_stride; /* elements from row to row */
    void *out;
    enum dtype dtype_out;
    /* memory that is packed next: a variant may prefetch this cache line, and one */
    const void *ahead;
    /* more at this distance in bytes for every further MATMUL_AHEAD_STEPS steps */
    int64_t ahead_stride;
};

/* The properties and functions of one variant. */
struct matmul_kernel {
    int rows, columns; /* the largest tile */
    int group;         /* depths packed side by side */
    int packed_bytes;  /* size of one element of a panel */
    void (*pack)(const struct matmul_pack *pack);
    void (*tile)(const struct matmul_tile *tile);
};

/* One kernel for each type of input. */
struct matmul_kernels {
    struct matmul_kernel f32, bf16;
};

/* matmul_write_row: the end of a tile in plain C: bias and sum are added to `values` [columns],
 * which are stored as row `row`. */
void matmul_write_row(const struct matmul_tile *tile, int row, const float *values);

/* matmul_kernels_init: set plain C functions in every slot, then replace them by faster variants up
 * to `level`. */
void matmul_kernels_init(struct matmul_kernels *kernels, enum cpu_level level);

/* One function for each level: replaces the kernels that it has a faster variant of. */
void matmul_kernels_init_avx2(struct matmul_kernels *kernels);
void matmul_kernels_init_avx512(struct matmul_kernels *kernels);
void matmul_kernels_init_avx512_bf16(struct matmul_kernels *kernels);
void matmul_kernels_init_neon(struct matmul_kernels *kernels);

#endif
