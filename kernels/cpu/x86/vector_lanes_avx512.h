/* vector lanes: masks, loads and stores of f32 and bf16, and the turning of 16 x 16 floats, for
 * sources compiled with AVX-512. */
#ifndef SKEP_KERNELS_CPU_X86_VECTOR_LANES_AVX512_H
#define SKEP_KERNELS_CPU_X86_VECTOR_LANES_AVX512_H

#include "base/dtype.h"

#include <immintrin.h>

enum { VECTOR_LANES_AVX512 = 16 };

/* vlanes_avx512: the first `count` of 16 lanes; all when there are more, none when count <= 0. */
static inline __mmask16 vlanes_avx512(int64_t count) {
    if (count >= VECTOR_LANES_AVX512) {
        return 0xffff;
    }
    return count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
}

/* vload_avx512: elements index .. index + 15 of `from` as floats; lanes outside the mask are 0 and
 * are not touched in memory. */
static inline __m512 vload_avx512(enum dtype dtype, const void *from, int64_t index,
                                  __mmask16 lanes) {
    if (dtype == DTYPE_F32) {
        return _mm512_maskz_loadu_ps(lanes, (const float *)from + index);
    }
    __m256i narrow = _mm256_maskz_loadu_epi16(lanes, (const uint16_t *)from + index);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16));
}

/* vbf16_avx512: to bf16, nearest even, NaN quiet. The instruction of AVX512_BF16 would flush
 * subnormals to zero. */
static inline __m256i vbf16_avx512(__m512 value) {
    __m512i bits = _mm512_castps_si512(value);
    __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}

/* vstore_avx512: the lanes of the mask to elements index .. index + 15 of `to`, rounded once. */
static inline void vstore_avx512(enum dtype dtype, void *to, int64_t index, __mmask16 lanes,
                                 __m512 value) {
    if (dtype == DTYPE_F32) {
        _mm512_mask_storeu_ps((float *)to + index, lanes, value);
    } else {
        _mm256_mask_storeu_epi16((uint16_t *)to + index, lanes, vbf16_avx512(value));
    }
}

/* vturn_avx512: rows[i] lane j becomes rows[j] lane i. First within fours of 32 bits, then the
 * quarters change places. */
static inline void vturn_avx512(__m512 rows[VECTOR_LANES_AVX512]) {
    __m512 fours[VECTOR_LANES_AVX512];
#pragma GCC unroll 4
    for (int i = 0; i < VECTOR_LANES_AVX512; i += 4) {
        __m512 low01 = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
        __m512 high01 = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
        __m512 low23 = _mm512_unpacklo_ps(rows[i + 2], rows[i + 3]);
        __m512 high23 = _mm512_unpackhi_ps(rows[i + 2], rows[i + 3]);
        fours[i] = _mm512_shuffle_ps(low01, low23, 0x44);
        fours[i + 1] = _mm512_shuffle_ps(low01, low23, 0xee);
        fours[i + 2] = _mm512_shuffle_ps(high01, high23, 0x44);
        fours[i + 3] = _mm512_shuffle_ps(high01, high23, 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512 even_low = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0x88);
        __m512 odd_low = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0xdd);
        __m512 even_high = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0x88);
        __m512 odd_high = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0xdd);
        rows[i] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
        rows[i + 4] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
        rows[i + 8] = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
        rows[i + 12] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
    }
}

#endif
