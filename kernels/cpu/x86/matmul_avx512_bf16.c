/* matmul kernels for AVX512_BF16: pairs of bf16 are multiplied and added in one instruction. */
#define MATMUL_STEP(sum, a, b)                                                                     \
    _mm512_dpbf16_ps(sum, (__m512bh)(__m512i)_mm512_castps_si512(a),                               \
                     (__m512bh)(__m512i)_mm512_castps_si512(b))
#include "kernels/cpu/x86/matmul_avx512.h"

enum { PAIR = 2 };

/* 16 lanes from `first` on, source [depth, lanes]: two rows of the source become one of pairs. */
static void pack_adjoining(const struct matmul_pack *pack, int64_t first) {
    __mmask16 read = lane_mask(pack->lanes - first);
    __mmask16 write = lane_mask(pack->width - first);
    const uint16_t *source = (const uint16_t *)pack->source + first;
    uint32_t *out = (uint32_t *)pack->out + first;
    for (int64_t depth = 0; depth < pack->depth; depth += PAIR) {
        const uint16_t *low_row = source + depth * pack->stride;
        bool paired = depth + 1 < pack->depth;
        const uint16_t *high_row = paired ? low_row + pack->stride : low_row;
        __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(read, low_row));
        __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(paired ? read : 0, high_row));
        __m512i words = _mm512_or_epi32(low, _mm512_slli_epi32(high, 16));
        _mm512_mask_storeu_epi32(out, write, words);
        out += pack->width;
    }
}

/* 16 lanes from `first` on, source [lanes, depth]: a pair is a word there already. */
static void pack_turning(const struct matmul_pack *pack, int64_t first) {
    int64_t lanes = pack->lanes - first;
    __mmask16 write = lane_mask(pack->width - first);
    const uint16_t *source = pack->source;
    uint32_t *out = (uint32_t *)pack->out + first;
    for (int64_t depth = 0; depth < pack->depth; depth += PAIR * LANES) {
        int64_t left = pack->depth - depth;
        __mmask32 read = left >= PAIR * LANES ? 0xffffffffu : (1u << left) - 1;
        __m512i words[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            int64_t index = i < lanes ? (first + i) * pack->stride + depth : 0;
            words[i] = _mm512_maskz_loadu_epi16(i < lanes ? read : 0, source + index);
        }
        turn_words(words);
        store_steps(words, out + depth / PAIR * pack->width, pack->width, write,
                    (left + PAIR - 1) / PAIR);
    }
}

static void pack_pairs(const struct matmul_pack *pack) {
    for (int64_t first = 0; first < pack->width; first += LANES) {
        if (pack->lanes_adjoin) {
            pack_adjoining(pack, first);
        } else {
            pack_turning(pack, first);
        }
    }
}

void matmul_kernels_init_avx512_bf16(struct matmul_kernels *kernels) {
    kernels->bf16 = (struct matmul_kernel){
        .rows = TILE_ROWS,
        .columns = TILE_COLUMNS,
        .group = PAIR,
        .packed_bytes = sizeof(uint16_t),
        .pack = pack_pairs,
        .tile = tile_run,
    };
}
