/* matmul kernels for NEON: 6 x 16 tiles; panels are packed by plain C. */
#include "base/check.h"
#include "kernels/cpu/matmul.h"

#include <arm_neon.h>
#include <stddef.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { LANES = 4, TILE_ROWS = 6, TILE_VECTORS = 4, TILE_COLUMNS = LANES * TILE_VECTORS };

static void write_values(const struct matmul_tile *tile, int row, const float *values) {
    for (int j = 0; j < tile->columns; j++) {
        float value = values[j];
        if (tile->bias != NULL) {
            value += tile->bias[j];
        }
        if (tile->sum != NULL) {
            value += tile->sum[row * tile->sum_stride + j];
        }
        if (tile->dtype_out == DTYPE_F32) {
            ((float *)tile->out)[row * tile->out_stride + j] = value;
        } else {
            ((uint16_t *)tile->out)[row * tile->out_stride + j] = bf16_from_f32(value);
        }
    }
}

/* Unrolled for `rows`, so that all sums stay in registers: 24 of them, 4 of b, 1 to 4 of a. */
ALWAYS_INLINE void tile_rows(const struct matmul_tile *tile, const int rows) {
    float32x4_t sums[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++) {
            sums[i][j] = vdupq_n_f32(0.0f);
        }
    }
    const float *a = tile->a;
    const char *b_step = tile->b;
    for (int64_t step = tile->steps; step != 0; step--) {
        const float *b = (const float *)(const void *)b_step;
        float32x4_t b_row[TILE_VECTORS] = {vld1q_f32(b), vld1q_f32(b + LANES),
                                           vld1q_f32(b + 2 * LANES), vld1q_f32(b + 3 * LANES)};
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
            for (int j = 0; j < TILE_VECTORS; j++) {
                sums[i][j] = vfmaq_n_f32(sums[i][j], b_row[j], a[i]);
            }
        }
        a += rows;
        b_step += tile->b_stride;
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        float values[TILE_COLUMNS];
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++) {
            vst1q_f32(values + j * LANES, sums[i][j]);
        }
        write_values(tile, i, values);
    }
}

#define TILE_OF(rows)                                                                              \
    static void tile_##rows(const struct matmul_tile *tile) {                                      \
        tile_rows(tile, rows);                                                                     \
    }
TILE_OF(1)
TILE_OF(2)
TILE_OF(3)
TILE_OF(4)
TILE_OF(5)
TILE_OF(6)
#undef TILE_OF

static void tile_run(const struct matmul_tile *tile) {
    static void (*const tiles[TILE_ROWS])(const struct matmul_tile *tile) = {
        tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
    ASSERT(tile->rows >= 1 && tile->rows <= TILE_ROWS);
    tiles[tile->rows - 1](tile);
}

static void widen_tiles(struct matmul_kernel *kernel) {
    kernel->rows = TILE_ROWS;
    kernel->columns = TILE_COLUMNS;
    kernel->tile = tile_run;
}

void matmul_kernels_init_neon(struct matmul_kernels *kernels) {
    widen_tiles(&kernels->f32);
    widen_tiles(&kernels->bf16);
}
