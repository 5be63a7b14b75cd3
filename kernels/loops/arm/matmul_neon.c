/* matmul kernels for NEON: 6 x 16 tiles; panels are packed by plain C. */
#include "kernels/loops/matmul.h"

#include <arm_neon.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define MATMUL_TILES  SIX_TILES

typedef float32x4_t tile_vector;
/* floats of a vector; rows of a tile; vectors in a row of a tile */
enum { LANES = 4, TILE_ROWS = 6, TILE_VECTORS = 4 };

ALWAYS_INLINE tile_vector tile_zero(void) {
    return vdupq_n_f32(0.0f);
}

ALWAYS_INLINE tile_vector tile_broadcast(const float *from) {
    return vld1q_dup_f32(from);
}

ALWAYS_INLINE tile_vector tile_load(const float *from) {
    return vld1q_f32(from);
}

ALWAYS_INLINE tile_vector tile_multiply_add(tile_vector sum, tile_vector a, tile_vector b) {
    return vfmaq_f32(sum, b, a);
}

ALWAYS_INLINE void tile_store_sums(const struct matmul_tile *tile, const int rows,
                                   tile_vector sums[TILE_ROWS][TILE_VECTORS]) {
    float values[TILE_ROWS][LANES * TILE_VECTORS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
        for (int j = 0; j < TILE_VECTORS; j++) {
            vst1q_f32(values[i] + j * LANES, sums[i][j]);
        }
    }
    for (int i = 0; i < rows; i++) {
        matmul_write_row(tile, i, values[i]);
    }
}

#include "kernels/loops/matmul_tiles.h"

void matmul_kernels_init_neon(struct matmul_kernels *kernels) {
    matmul_tiles_init(&kernels->f32);
    matmul_tiles_init(&kernels->bf16);
}
