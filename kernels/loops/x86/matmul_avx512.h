/* matmul_avx512: the code that the fp32 and the bf16 variants for AVX-512 share: tiles, storing of
 * sums, and the transpose of 16 x 16 words. The including file defines MATMUL_STEP(sum, a, b): sum
 * + a * b over one step. */
#ifndef SKEP_KERNELS_LOOPS_X86_MATMUL_AVX512_H
#define SKEP_KERNELS_LOOPS_X86_MATMUL_AVX512_H

#include "kernels/loops/matmul.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The distance in rows of a [depth, lanes] source between the row that is packed and the row that
 * is prefetched: kernels/cpu/matmul.c packs this number of rows of the neighbouring panels before
 * it returns to the current panel. */
enum { PREFETCH_ROWS = 64 };

#define MATMUL_TILES FOURTEEN_TILES

typedef __m512 tile_vector;
/* floats of a vector; rows of a tile; vectors in a row of a tile */
enum { LANES = 16, TILE_ROWS = 14, TILE_VECTORS = 2 };

/* A mask of the first `count` of 16 lanes; empty when count <= 0. */
ALWAYS_INLINE __mmask16 lane_mask(int64_t count) {
    int64_t bound = count < 0 ? 0 : count > LANES ? LANES : count;
    return (__mmask16)((1u << bound) - 1);
}

/* Transpose: rows[i] lane j becomes rows[j] lane i. */
ALWAYS_INLINE void transpose_words(__m512i rows[LANES]) {
    __m512i pairs[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 2) {
        pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    __m512i fours[LANES];
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 4) {
        fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
        fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
        fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i even_low = _mm512_shuffle_i32x4(fours[i], fours[i + 4], 0x88);
        __m512i odd_low = _mm512_shuffle_i32x4(fours[i], fours[i + 4], 0xdd);
        __m512i even_high = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], 0x88);
        __m512i odd_high = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], 0xdd);
        rows[i] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
        rows[i + 4] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
        rows[i + 8] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
        rows[i + 12] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
    }
}

/* Store one of the last `left` steps of a panel. An unmasked store is faster; it may overwrite the
 * following steps, which are stored later. */
ALWAYS_INLINE void store_step(uint32_t *out, __m512i words, int64_t width, __mmask16 lanes,
                              int64_t left) {
    if (lanes == 0xffff || left * width >= LANES) {
        _mm512_storeu_si512(out, words);
    } else {
        _mm512_mask_storeu_epi32(out, lanes, words);
    }
}

/* Stores `width` lanes of words[step] to out + step * width, for 16 steps or the `left` ones that
 * remain. A whole vector is stored faster than a masked one, and its surplus lanes are overwritten
 * by the next step, so only stores that would write past the last step are masked. */
ALWAYS_INLINE void store_steps(const __m512i words[LANES], uint32_t *out, int64_t width,
                               __mmask16 lanes, int64_t left) {
    if (lanes == 0xffff ? left >= LANES : left * width >= LANES * (width + 1)) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            _mm512_storeu_si512(out + i * width, words[i]);
        }
        return;
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        if (i < left) {
            _mm512_mask_storeu_epi32(out + i * width, lanes, words[i]);
        }
    }
}

/* Converts to bf16, rounding to nearest even. It does not use the instruction of AVX512_BF16, which
 * would flush subnormals to zero. */
ALWAYS_INLINE __m256i bf16_from_sums(__m512 sums) {
    __m512i bits = _mm512_castps_si512(sums);
    __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    __mmask16 nan = _mm512_cmp_ps_mask(sums, sums, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

/* The values that are equal for all rows of a tile, copied so that the compiler need not reload
 * them after stores. */
struct tile_store {
    __mmask16 lanes[TILE_VECTORS];  /* columns to store, for each vector */
    __m512 bias[TILE_VECTORS];      /* bias of the columns; zeros without a bias */
    const float *sum;               /* earlier sums to add, or NULL */
    char *out;                      /* first element of the tile of C */
    int64_t sum_stride, out_stride; /* sum_stride in elements, out_stride in bytes */
    bool is_f32;                    /* f32, not bf16 */
};

ALWAYS_INLINE struct tile_store tile_store_init(const struct matmul_tile *tile) {
    struct tile_store end;
    end.lanes[0] = lane_mask(tile->columns);
    end.lanes[1] = lane_mask(tile->columns - LANES);
    end.bias[0] = end.bias[1] = _mm512_setzero_ps();
    if (tile->bias != NULL) {
        end.bias[0] = _mm512_maskz_loadu_ps(end.lanes[0], tile->bias);
        end.bias[1] = _mm512_maskz_loadu_ps(end.lanes[1], tile->bias + LANES);
    }
    end.is_f32 = tile->dtype_out == DTYPE_F32;
    end.sum = tile->sum;
    end.sum_stride = tile->sum_stride;
    end.out = tile->out;
    end.out_stride = tile->out_stride * (end.is_f32 ? 4 : 2);
    return end;
}

ALWAYS_INLINE void write_vector(const struct tile_store *end, int row, int vector, __m512 sums) {
    sums = _mm512_add_ps(sums, end->bias[vector]);
    if (end->sum != NULL) {
        const float *sum = end->sum + row * end->sum_stride + vector * LANES;
        sums = _mm512_add_ps(sums, _mm512_maskz_loadu_ps(end->lanes[vector], sum));
    }
    char *out = end->out + row * end->out_stride;
    if (end->is_f32) {
        _mm512_mask_storeu_ps(out + vector * LANES * 4, end->lanes[vector], sums);
    } else {
        _mm256_mask_storeu_epi16(out + vector * LANES * 2, end->lanes[vector],
                                 bf16_from_sums(sums));
    }
}

ALWAYS_INLINE tile_vector tile_zero(void) {
    return _mm512_setzero_ps();
}

ALWAYS_INLINE tile_vector tile_broadcast(const float *from) {
    return _mm512_set1_ps(*from);
}

ALWAYS_INLINE tile_vector tile_load(const float *from) {
    return _mm512_loadu_ps(from);
}

ALWAYS_INLINE tile_vector tile_multiply_add(tile_vector sum, tile_vector a, tile_vector b) {
    return MATMUL_STEP(sum, a, b);
}

ALWAYS_INLINE void tile_store_sums(const struct matmul_tile *tile, const int rows,
                                   tile_vector sums[TILE_ROWS][TILE_VECTORS]) {
    const struct tile_store end = tile_store_init(tile);
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++) {
        write_vector(&end, i, 0, sums[i][0]);
        write_vector(&end, i, 1, sums[i][1]);
    }
}

#include "kernels/loops/matmul_tiles.h"

#endif
