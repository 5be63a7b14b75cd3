/* matmul kernels for AVX2 with FMA: 6 x 16 tiles; bf16 becomes fp32 while it is packed. */
#include "kernels/loops/matmul.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#define MATMUL_TILES SIX_TILES

typedef __m256 tile_vector;
/* floats of a vector; rows of a tile; vectors in a row of a tile */
enum { LANES = 8, TILE_ROWS = 6, TILE_VECTORS = 2 };

/* A mask with all bits set in the first `count` of 8 lanes; empty when count <= 0. */
ALWAYS_INLINE __m256i lane_mask(int64_t count) {
    int bound = count > LANES ? LANES : (int)(count < 0 ? 0 : count);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(bound), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

ALWAYS_INLINE __m256 load_f32(const float *from, int64_t count) {
    if (count >= LANES) {
        return _mm256_loadu_ps(from);
    }
    return _mm256_maskload_ps(from, lane_mask(count));
}

ALWAYS_INLINE __m256 load_bf16(const uint16_t *from, int64_t count) {
    __m128i bits;
    if (count >= LANES) {
        bits = _mm_loadu_si128((const __m128i *)(const void *)from);
    } else {
        uint16_t few[LANES] = {0};
        for (int64_t i = 0; i < count; i++) {
            few[i] = from[i];
        }
        bits = _mm_loadu_si128((const __m128i *)(const void *)few);
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

ALWAYS_INLINE __m256 load_values(const void *source, int64_t index, int64_t count, bool bf16) {
    if (count <= 0) {
        return _mm256_setzero_ps();
    }
    return bf16 ? load_bf16((const uint16_t *)source + index, count)
                : load_f32((const float *)source + index, count);
}

ALWAYS_INLINE void store_values(float *out, int64_t count, __m256 values) {
    if (count >= LANES) {
        _mm256_storeu_ps(out, values);
    } else {
        _mm256_maskstore_ps(out, lane_mask(count), values);
    }
}

/* Transpose: rows[i] lane j becomes rows[j] lane i. */
ALWAYS_INLINE void transpose_values(__m256 rows[LANES]) {
    __m256 pairs[LANES];
    __m256 fours[LANES];
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < LANES; i += 4) {
        fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
        fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
        fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
        fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        rows[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
        rows[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
}

/* Pack 8 lanes of a source [depth, lanes], from lane `first` on. */
ALWAYS_INLINE void pack_contiguous(const struct matmul_pack *pack, int64_t first, bool bf16) {
    float *out = (float *)pack->out + first;
    for (int64_t depth = 0; depth < pack->depth; depth++) {
        int64_t index = depth * pack->stride + first;
        store_values(out + depth * pack->width, pack->width - first,
                     load_values(pack->source, index, pack->lanes - first, bf16));
    }
}

/* Pack 8 lanes of a source [lanes, depth], from lane `first` on. */
ALWAYS_INLINE void pack_transposed(const struct matmul_pack *pack, int64_t first, bool bf16) {
    float *out = (float *)pack->out + first;
    for (int64_t depth = 0; depth < pack->depth; depth += LANES) {
        int64_t left = pack->depth - depth;
        __m256 values[LANES];
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++) {
            int64_t count = first + i < pack->lanes ? left : 0;
            values[i] = load_values(pack->source, (first + i) * pack->stride + depth, count, bf16);
        }
        transpose_values(values);
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++) {
            if (i < left) {
                store_values(out + (depth + i) * pack->width, pack->width - first, values[i]);
            }
        }
    }
}

ALWAYS_INLINE void pack_panel(const struct matmul_pack *pack, bool bf16) {
    for (int64_t first = 0; first < pack->width; first += LANES) {
        if (pack->lanes_contiguous) {
            pack_contiguous(pack, first, bf16);
        } else {
            pack_transposed(pack, first, bf16);
        }
    }
}

static void pack_f32(const struct matmul_pack *pack) {
    pack_panel(pack, false);
}

static void pack_bf16(const struct matmul_pack *pack) {
    pack_panel(pack, true);
}

static void store_bf16(uint16_t *out, int64_t count, __m256 sums) {
    float values[LANES];
    _mm256_storeu_ps(values, sums);
    for (int64_t i = 0; i < count && i < LANES; i++) {
        out[i] = bf16_from_f32(values[i]);
    }
}

ALWAYS_INLINE void write_vector(const struct matmul_tile *tile, int row, int vector, __m256 sums) {
    int column = vector * LANES;
    int count = tile->columns - column;
    if (count <= 0) {
        return;
    }
    if (tile->bias != NULL) {
        sums = _mm256_add_ps(sums, load_f32(tile->bias + column, count));
    }
    if (tile->sum != NULL) {
        const float *sum = tile->sum + row * tile->sum_stride + column;
        sums = _mm256_add_ps(sums, load_f32(sum, count));
    }
    int64_t place = row * tile->out_stride + column;
    if (tile->dtype_out == DTYPE_F32) {
        store_values((float *)tile->out + place, count, sums);
    } else {
        store_bf16((uint16_t *)tile->out + place, count, sums);
    }
}

ALWAYS_INLINE tile_vector tile_zero(void) {
    return _mm256_setzero_ps();
}

ALWAYS_INLINE tile_vector tile_broadcast(const float *from) {
    return _mm256_broadcast_ss(from);
}

ALWAYS_INLINE tile_vector tile_load(const float *from) {
    return _mm256_loadu_ps(from);
}

ALWAYS_INLINE tile_vector tile_multiply_add(tile_vector sum, tile_vector a, tile_vector b) {
    return _mm256_fmadd_ps(a, b, sum);
}

ALWAYS_INLINE void tile_store_sums(const struct matmul_tile *tile, const int rows,
                                   tile_vector sums[TILE_ROWS][TILE_VECTORS]) {
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        write_vector(tile, i, 0, sums[i][0]);
        write_vector(tile, i, 1, sums[i][1]);
    }
}

#include "kernels/loops/matmul_tiles.h"

void matmul_kernels_init_avx2(struct matmul_kernels *kernels) {
    matmul_tiles_init(&kernels->f32);
    matmul_tiles_init(&kernels->bf16);
    kernels->f32.pack = pack_f32;
    kernels->bf16.pack = pack_bf16;
}
