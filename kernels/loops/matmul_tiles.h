/* matmul_tiles: the product of two packed panels over vectors of one instruction set, for each
 * number of rows. Included once by each variant, after it has defined
 *   tile_vector, LANES                the vector type, and its number of floats
 *   TILE_ROWS, TILE_VECTORS           the largest tile: rows, and vectors of columns
 *   MATMUL_TILES                      SIX_TILES or FOURTEEN_TILES, for 6 or 14 TILE_ROWS
 *   tile_zero(), tile_broadcast(const float *), tile_load(const float *)
 *   tile_multiply_add(sum, a, b)      sum + a * b over one step
 *   tile_store_sums(tile, rows, sums) adds bias and sum, converts and stores */
#ifndef SKEP_KERNELS_LOOPS_MATMUL_TILES_H
#define SKEP_KERNELS_LOOPS_MATMUL_TILES_H

#include "base/check.h"
#include "kernels/loops/matmul.h"

enum { TILE_COLUMNS = LANES * TILE_VECTORS }; /* columns of the largest tile */

/* Prefetch the cache lines of C while the sums are computed. */
ALWAYS_INLINE void tile_prefetch_output(const struct matmul_tile *tile, const int rows) {
    int64_t bytes = tile->dtype_out == DTYPE_F32 ? 4 : 2;
    for (int i = 0; i < rows; i++) {
        const char *row = (const char *)tile->out + i * tile->out_stride * bytes;
        __builtin_prefetch(row, 1);
        __builtin_prefetch(row + tile->columns * bytes - 1, 1);
    }
}

/* Add the products of one step to the sums. a and b have the layout of struct matmul_pack. */
ALWAYS_INLINE void tile_add_step(tile_vector sums[TILE_ROWS][TILE_VECTORS], const int rows,
                                 const float *a, const float *b) {
    tile_vector b_row[TILE_VECTORS];
#pragma GCC unroll 4
    for (int j = 0; j < TILE_VECTORS; j++) {
        b_row[j] = tile_load(b + j * LANES);
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        tile_vector a_value = tile_broadcast(a + i);
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++) {
            sums[i][j] = tile_multiply_add(sums[i][j], a_value, b_row[j]);
        }
    }
}

/* Compute a tile of `rows` rows. The loops are unrolled for `rows`, so that all sums stay in
 * registers together with one step of b and one or two values of a. */
ALWAYS_INLINE void tile_compute_rows(const struct matmul_tile *tile, const int rows) {
    tile_vector sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++) {
            sums[i][j] = tile_zero();
        }
    }
    tile_prefetch_output(tile, rows);
    const float *a = tile->a;
    const char *b = tile->b;
    int64_t b_stride = tile->b_stride;
    uintptr_t prefetch = (uintptr_t)tile->prefetch;
    uintptr_t prefetch_stride = (uintptr_t)tile->prefetch_stride;
    int64_t burst;
    for (int64_t left = tile->steps; left != 0; left -= burst) {
        burst = left < MATMUL_PREFETCH_STEPS ? left : MATMUL_PREFETCH_STEPS;
        __builtin_prefetch((const char *)prefetch, 0, 2);
        prefetch += prefetch_stride;
        for (int64_t step = 0; step < burst; step++) {
            tile_add_step(sums, rows, a, (const float *)(const void *)b);
            a += rows;
            b += b_stride;
        }
    }
    tile_store_sums(tile, rows, sums);
}

/* These macros define one function for each number of rows, and a table of these functions. */
#define SIX_TILES(of)      of(1) of(2) of(3) of(4) of(5) of(6)
#define FOURTEEN_TILES(of) SIX_TILES(of) of(7) of(8) of(9) of(10) of(11) of(12) of(13) of(14)
#define TILE_OF(rows)                                                                              \
    static void tile_##rows(const struct matmul_tile *tile) {                                      \
        tile_compute_rows(tile, rows);                                                             \
    }
#define TILE_NAME(rows) tile_##rows,
MATMUL_TILES(TILE_OF)

static void (*const tile_functions[TILE_ROWS])(const struct matmul_tile *tile) = {
    MATMUL_TILES(TILE_NAME)};

static void tile_compute(const struct matmul_tile *tile) {
    ASSERT(tile->rows >= 1 && tile->rows <= TILE_ROWS);
    tile_functions[tile->rows - 1](tile);
}

/* Set the tile size and the tile function of `kernel`, but not its packing function. */
static void matmul_tiles_init(struct matmul_kernel *kernel) {
    kernel->rows = TILE_ROWS;
    kernel->columns = TILE_COLUMNS;
    kernel->tile = tile_compute;
}

#undef TILE_OF
#undef TILE_NAME

#endif
