/* matmul_tiles: the product of two packed panels over vectors of one instruction set, for each
 * number of rows. Included once by each variant, after it has defined
 *   tile_vector, LANES               the vector type, and its number of floats
 *   TILE_ROWS, TILE_VECTORS          the largest tile: rows, and vectors of columns
 *   MATMUL_TILES                     SIX_TILES or FOURTEEN_TILES, as many as TILE_ROWS
 *   tile_zero(), tile_all(const float *), tile_load(const float *)
 *   tile_step(sum, a, b)             sum + a * b over one step
 *   tile_write(tile, rows, sums)     adds bias and sum, converts and stores */
#ifndef SKEP_KERNELS_LOOPS_MATMUL_TILES_H
#define SKEP_KERNELS_LOOPS_MATMUL_TILES_H

#include "base/check.h"
#include "kernels/loops/matmul.h"

enum { TILE_COLUMNS = LANES * TILE_VECTORS };

/* Prefetch the cache lines of C while the sums are computed. */
ALWAYS_INLINE void tile_fetch_out(const struct matmul_tile *tile, const int rows) {
    int64_t bytes = tile->dtype_out == DTYPE_F32 ? 4 : 2;
    for (int i = 0; i < rows; i++) {
        const char *row = (const char *)tile->out + i * tile->out_stride * bytes;
        __builtin_prefetch(row, 1);
        __builtin_prefetch(row + tile->columns * bytes - 1, 1);
    }
}

/* One step. a and b have the layout that struct matmul_pack describes. */
ALWAYS_INLINE void tile_add_step(tile_vector sums[TILE_ROWS][TILE_VECTORS], const int rows,
                                 const float *a, const float *b) {
    tile_vector b_row[TILE_VECTORS];
#pragma GCC unroll 4
    for (int j = 0; j < TILE_VECTORS; j++) {
        b_row[j] = tile_load(b + j * LANES);
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        tile_vector a_row = tile_all(a + i);
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++) {
            sums[i][j] = tile_step(sums[i][j], a_row, b_row[j]);
        }
    }
}

/* Unrolled for `rows`, so that all sums stay in registers together with one step of b and one or
 * two of a. */
ALWAYS_INLINE void tile_rows(const struct matmul_tile *tile, const int rows) {
    tile_vector sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++) {
            sums[i][j] = tile_zero();
        }
    }
    tile_fetch_out(tile, rows);
    const float *a = tile->a;
    const char *b = tile->b;
    int64_t b_stride = tile->b_stride;
    uintptr_t ahead = (uintptr_t)tile->ahead;
    uintptr_t ahead_stride = (uintptr_t)tile->ahead_stride;
    int64_t burst;
    for (int64_t left = tile->steps; left != 0; left -= burst) {
        burst = left < MATMUL_AHEAD_STEPS ? left : MATMUL_AHEAD_STEPS;
        __builtin_prefetch((const char *)ahead, 0, 2);
        ahead += ahead_stride;
        for (int64_t step = 0; step < burst; step++) {
            tile_add_step(sums, rows, a, (const float *)(const void *)b);
            a += rows;
            b += b_stride;
        }
    }
    tile_write(tile, rows, sums);
}

/* One function for each number of rows, and a table of them. */
#define SIX_TILES(of)      of(1) of(2) of(3) of(4) of(5) of(6)
#define FOURTEEN_TILES(of) SIX_TILES(of) of(7) of(8) of(9) of(10) of(11) of(12) of(13) of(14)
#define TILE_OF(rows)                                                                              \
    static void tile_##rows(const struct matmul_tile *tile) {                                      \
        tile_rows(tile, rows);                                                                     \
    }
#define TILE_NAME(rows) tile_##rows,
MATMUL_TILES(TILE_OF)

static void (*const tile_of_rows[TILE_ROWS])(const struct matmul_tile *tile) = {
    MATMUL_TILES(TILE_NAME)};

static void tile_run(const struct matmul_tile *tile) {
    ASSERT(tile->rows >= 1 && tile->rows <= TILE_ROWS);
    tile_of_rows[tile->rows - 1](tile);
}

/* Set these tiles in `kernel`; its packing functions remain. */
static void tiles_into(struct matmul_kernel *kernel) {
    kernel->rows = TILE_ROWS;
    kernel->columns = TILE_COLUMNS;
    kernel->tile = tile_run;
}

#undef TILE_OF
#undef TILE_NAME

#endif
