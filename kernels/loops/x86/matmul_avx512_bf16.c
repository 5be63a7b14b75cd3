/* matmul kernels for AVX512_BF16: pairs of bf16 are multiplied and added in one instruction. */
#define MATMUL_STEP(sum, a, b)                                                                     \
    _mm512_dpbf16_ps(sum, (__m512bh)(__m512i)_mm512_castps_si512(a),                               \
                     (__m512bh)(__m512i)_mm512_castps_si512(b))
#include "kernels/loops/x86/matmul_avx512.h"

enum { PAIR_ELEMENTS = 2 }; /* bf16 that one word holds */

/* Permutations that interleave lanes 0 to 15, and 16 to 31, of two rows; indices from 32 select the
 * second row. */
static const _Alignas(64) uint16_t interleave_low[2 * LANES] = {
    0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
static const _Alignas(64) uint16_t interleave_high[2 * LANES] = {
    16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
    24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};

ALWAYS_INLINE __mmask32 half_lane_mask(int64_t count) {
    if (count >= 2 * LANES) {
        return 0xffffffffu;
    }
    return count <= 0 ? 0 : (1u << count) - 1;
}

/* The address may be past the end of the source, because a prefetch never faults. */
ALWAYS_INLINE void prefetch_lane(const uint16_t *source, int64_t index) {
    uintptr_t address = (uintptr_t)source + (uintptr_t)index * sizeof *source;
    _mm_prefetch((const char *)address, _MM_HINT_T0);
}

/* Pack all lanes, at most 32, of a source [depth, lanes]: two rows of it become one row of
 * pairs. */
static void pack_contiguous(const struct matmul_pack *pack) {
    const uint16_t *source = pack->source;
    uint32_t *out = pack->out;
    int64_t index = 0;
    int64_t stride = pack->stride;
    int64_t width = pack->width;
    __mmask32 read = half_lane_mask(pack->lanes);
    __mmask16 write_low = lane_mask(width);
    __mmask16 write_high = lane_mask(width - LANES);
    __m512i order_low = _mm512_load_si512(interleave_low);
    __m512i order_high = _mm512_load_si512(interleave_high);
    for (int64_t left = pack->depth; left > 0; left -= PAIR_ELEMENTS) {
        prefetch_lane(source, index + PREFETCH_ROWS * stride);
        prefetch_lane(source, index + (PREFETCH_ROWS + 1) * stride);
        __m512i even = _mm512_maskz_loadu_epi16(read, source + index);
        __m512i odd = left > 1 ? _mm512_maskz_loadu_epi16(read, source + index + stride)
                               : _mm512_setzero_si512();
        int64_t steps = (left + 1) / PAIR_ELEMENTS;
        store_step(out, _mm512_permutex2var_epi16(even, order_low, odd), width, write_low, steps);
        if (write_high != 0) {
            store_step(out + LANES, _mm512_permutex2var_epi16(even, order_high, odd), width,
                       write_high, steps);
        }
        index += PAIR_ELEMENTS * stride;
        out += width;
    }
}

/* Pack 16 lanes of a source [lanes, depth], from lane `first` on. In it, a pair already is one
 * word. */
static void pack_transposed(const struct matmul_pack *pack, int64_t first) {
    const uint16_t *source = pack->source;
    int64_t stride = pack->stride;
    int64_t width = pack->width;
    int64_t lanes = pack->lanes - first;
    __mmask16 write = lane_mask(width - first);
    uint32_t *out = (uint32_t *)pack->out + first;
    int64_t index = first * stride;
    for (int64_t left = pack->depth; left > 0; left -= PAIR_ELEMENTS * LANES) {
        __mmask32 read = half_lane_mask(left);
        __m512i words[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            words[i] = _mm512_maskz_loadu_epi16(i < lanes ? read : 0,
                                                source + (i < lanes ? index + i * stride : 0));
            prefetch_lane(source, index + (LANES + i) * stride);
        }
        transpose_words(words);
        store_steps(words, out, width, write, (left + 1) / PAIR_ELEMENTS);
        index += PAIR_ELEMENTS * LANES;
        out += LANES * width;
    }
}

static void pack_pairs(const struct matmul_pack *pack) {
    if (pack->lanes_contiguous) {
        pack_contiguous(pack);
        return;
    }
    for (int64_t first = 0; first < pack->width; first += LANES) {
        pack_transposed(pack, first);
    }
}

void matmul_kernels_init_avx512_bf16(struct matmul_kernels *kernels) {
    matmul_tiles_init(&kernels->bf16);
    kernels->bf16.group = PAIR_ELEMENTS;
    kernels->bf16.packed_bytes = sizeof(uint16_t);
    kernels->bf16.pack = pack_pairs;
}
