/* matmul kernels: the innermost loops of kernels/matmul.h that have a variant per instruction set:
 * packing of panels, and the product of two packed panels, one tile of C. */
#ifndef SKEP_KERNELS_LOOPS_MATMUL_H
#define SKEP_KERNELS_LOOPS_MATMUL_H

#include "base/dtype.h"
#include "kernels/cpu_level.h"

enum {
    MATMUL_STRIP = 64,      /* columns of B packed at a time; every kernel's `columns` divides it */
    MATMUL_AHEAD_STEPS = 8, /* steps of a tile for each line that it fetches ahead */
};

/* A panel is `width` lanes (rows of A, or columns of B) by `depth`, laid out
 * [ceil(depth / group)][width][group]: one step of the tile's loop after the other. */
struct matmul_pack {
    const void *source; /* lane 0 at depth 0 */
    int64_t stride;     /* elements; from one lane to the next, or from one depth to the next */
    bool lanes_adjoin;  /* source is [depth, lanes] (true) or [lanes, depth] (false) */
    int64_t lanes;      /* lanes to read; those from here to `width` are set to zero */
    int64_t width;
    int64_t depth; /* what is left of the last group is set to zero */
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
    int columns; /* 1 .. the kernel's `columns`: those that are written */
    const float *bias;
    const float *sum;               /* may be out */
    int64_t sum_stride, out_stride; /* elements from row to row */
    void *out;
    enum dtype dtype_out;
    const void *ahead; /* memory that is packed next: a variant may fetch the line here, and one */
    int64_t ahead_stride; /* more, so many bytes on, for each further MATMUL_AHEAD_STEPS steps */
};

/* What a driver needs to know of one variant. */
struct matmul_kernel {
    int rows, columns; /* the largest tile */
    int group;         /* depths packed side by side */
    int packed_bytes;  /* of one element of a panel */
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

/* matmul_kernels_init: plain C in every slot, then overlays up to `level`. */
void matmul_kernels_init(struct matmul_kernels *kernels, enum cpu_level level);

/* The overlays: each replaces what it has a stronger variant of. */
void matmul_kernels_init_avx2(struct matmul_kernels *kernels);
void matmul_kernels_init_avx512(struct matmul_kernels *kernels);
void matmul_kernels_init_avx512_bf16(struct matmul_kernels *kernels);
void matmul_kernels_init_neon(struct matmul_kernels *kernels);

#endif
