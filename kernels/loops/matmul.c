/* matmul kernels in plain C: the reference for the tests of all variants. */
#include "kernels/loops/matmul.h"

#include <stddef.h>

enum { TILE_ROWS = 4, TILE_COLUMNS = 8 }; /* size of the largest tile */

static void pack_f32(const struct matmul_pack *pack) {
    const float *source = pack->source;
    float *out = pack->out;
    int64_t lane_stride = pack->lanes_contiguous ? 1 : pack->stride;
    int64_t depth_stride = pack->lanes_contiguous ? pack->stride : 1;
    for (int64_t depth = 0; depth < pack->depth; depth++) {
        for (int64_t lane = 0; lane < pack->width; lane++) {
            bool read = lane < pack->lanes;
            *out++ = read ? source[lane * lane_stride + depth * depth_stride] : 0.0f;
        }
    }
}

static void pack_bf16(const struct matmul_pack *pack) {
    const uint16_t *source = pack->source;
    float *out = pack->out;
    int64_t lane_stride = pack->lanes_contiguous ? 1 : pack->stride;
    int64_t depth_stride = pack->lanes_contiguous ? pack->stride : 1;
    for (int64_t depth = 0; depth < pack->depth; depth++) {
        for (int64_t lane = 0; lane < pack->width; lane++) {
            bool read = lane < pack->lanes;
            *out++ = bf16_to_f32(read ? source[lane * lane_stride + depth * depth_stride] : 0);
        }
    }
}

void matmul_write_row(const struct matmul_tile *tile, int row, const float *values) {
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

static void tile_compute(const struct matmul_tile *tile) {
    float sums[TILE_ROWS][TILE_COLUMNS] = {0};
    const float *a = tile->a;
    const char *b_step = tile->b;
    for (int64_t step = 0; step < tile->steps; step++) {
        const float *b = (const float *)b_step;
        for (int i = 0; i < tile->rows; i++) {
            for (int j = 0; j < TILE_COLUMNS; j++) {
                sums[i][j] += a[i] * b[j];
            }
        }
        a += tile->rows;
        b_step += tile->b_stride;
    }
    for (int i = 0; i < tile->rows; i++) {
        matmul_write_row(tile, i, sums[i]);
    }
}

void matmul_kernels_init(struct matmul_kernels *kernels, enum cpu_level level) {
    kernels->f32 = (struct matmul_kernel){
        .rows = TILE_ROWS,
        .columns = TILE_COLUMNS,
        .group = 1,
        .packed_bytes = sizeof(float),
        .pack = pack_f32,
        .tile = tile_compute,
    };
    kernels->bf16 = kernels->f32;
    kernels->bf16.pack = pack_bf16;
    OVERLAY_X86(matmul, kernels, level);
    OVERLAY_NEON(matmul, kernels, level);
#if defined(__x86_64__)
    if (level >= CPU_AVX512_BF16) {
        matmul_kernels_init_avx512_bf16(kernels);
    }
#endif
}
