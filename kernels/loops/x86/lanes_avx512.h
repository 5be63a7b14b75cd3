/* lanes: operations on sixteen floats for sources compiled with AVX-512, under the names that
 * kernels/loops/NAME_lanes.h uses. lanes_avx2.h defines the same names for AVX2. Sums, products and
 * quotients are written with the operators of C. */
#ifndef SKEP_KERNELS_LOOPS_X86_LANES_AVX512_H
#define SKEP_KERNELS_LOOPS_X86_LANES_AVX512_H

#include "base/dtype.h"
#include "kernels/loops/x86/vector_math_avx512.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef __m512 lanes;
enum { LANES = 16 }; /* floats of a vector */

ALWAYS_INLINE __mmask16 lanes_mask(int64_t count) {
    if (count >= LANES) {
        return 0xffff;
    }
    return (__mmask16)(count <= 0 ? 0 : (1u << count) - 1);
}

ALWAYS_INLINE lanes lanes_broadcast(float value) {
    return _mm512_set1_ps(value);
}

ALWAYS_INLINE lanes lanes_zero(void) {
    return _mm512_setzero_ps();
}

ALWAYS_INLINE lanes lanes_from_bf16(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* Rounds to nearest even so that the upper half of the result is the bf16; NaN stays a quiet NaN.
 * The instruction vcvtneps2bf16 is not used because it flushes subnormals to zero. */
ALWAYS_INLINE __m512i lanes_bf16_bits(lanes value) {
    __m512i bits = _mm512_castps_si512(value);
    __mmask16 is_odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    __m512i rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    rounded = _mm512_mask_add_epi32(rounded, is_odd, bits, _mm512_set1_epi32(0x8000));
    return _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x400000));
}

ALWAYS_INLINE __m256i lanes_to_bf16(lanes value) {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(lanes_bf16_bits(value), 16));
}

/* lanes_load: load elements [index, index + min(count, LANES)) of an f32 or bf16 tensor, and set
 * the other lanes to 0. */
ALWAYS_INLINE lanes lanes_load(enum dtype dtype, const void *data, int64_t index, int64_t count) {
    if (dtype == DTYPE_BF16) {
        const uint16_t *from = (const uint16_t *)data + index;
        return lanes_from_bf16(count >= LANES ? _mm256_loadu_si256((const __m256i *)from)
                                              : _mm256_maskz_loadu_epi16(lanes_mask(count), from));
    }
    const float *from = (const float *)data + index;
    return count >= LANES ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(lanes_mask(count), from);
}

/* lanes_store: the inverse of lanes_load; rounds once to bf16. */
ALWAYS_INLINE void lanes_store(enum dtype dtype, void *data, int64_t index, int64_t count,
                               lanes value) {
    if (dtype == DTYPE_BF16) {
        uint16_t *to = (uint16_t *)data + index;
        __m256i bits = lanes_to_bf16(value);
        if (count >= LANES) {
            _mm256_storeu_si256((__m256i *)to, bits);
        } else {
            _mm256_mask_storeu_epi16(to, lanes_mask(count), bits);
        }
        return;
    }
    float *to = (float *)data + index;
    if (count >= LANES) {
        _mm512_storeu_ps(to, value);
    } else {
        _mm512_mask_storeu_ps(to, lanes_mask(count), value);
    }
}

/* Round the values as storing them in `dtype` and loading them again would. */
ALWAYS_INLINE lanes lanes_round_to_dtype(enum dtype dtype, lanes value) {
    if (dtype != DTYPE_BF16) {
        return value;
    }
    __m512i upper = _mm512_set1_epi32((int)0xffff0000u);
    return _mm512_castsi512_ps(_mm512_and_si512(lanes_bf16_bits(value), upper));
}

/* a * b + c, rounded once. */
ALWAYS_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    return _mm512_fmadd_ps(a, b, c);
}

/* lanes_max and lanes_min return the second operand where either is NaN. */
ALWAYS_INLINE lanes lanes_max(lanes a, lanes b) {
    return _mm512_max_ps(a, b);
}

ALWAYS_INLINE lanes lanes_min(lanes a, lanes b) {
    return _mm512_min_ps(a, b);
}

ALWAYS_INLINE lanes lanes_sqrt(lanes a) {
    return _mm512_sqrt_ps(a);
}

ALWAYS_INLINE lanes lanes_exp(lanes a) {
    return vexp_avx512(a);
}

ALWAYS_INLINE lanes lanes_abs(lanes a) {
    return _mm512_abs_ps(a);
}

/* Select `negative` where `sign` is below zero, and `other` elsewhere. */
ALWAYS_INLINE lanes lanes_select_by_sign(lanes sign, lanes negative, lanes other) {
    __mmask16 below = _mm512_cmp_ps_mask(sign, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_mask_mov_ps(other, below, negative);
}

/* One fp64 sum for each lane. */
struct wide_lanes {
    __m512d low, high; /* the first and the second half of the lanes */
};

ALWAYS_INLINE struct wide_lanes wide_zero(void) {
    return (struct wide_lanes){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

ALWAYS_INLINE struct wide_lanes wide_add(struct wide_lanes sum, lanes a) {
    sum.low = sum.low + _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    sum.high = sum.high + _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    return sum;
}

ALWAYS_INLINE lanes wide_round(struct wide_lanes sum) {
    __m512 low = _mm512_castps256_ps512(_mm512_cvtpd_ps(sum.low));
    return _mm512_insertf32x8(low, _mm512_cvtpd_ps(sum.high), 1);
}

ALWAYS_INLINE float lanes_reduce_sum(lanes a) {
    return _mm512_reduce_add_ps(a);
}

ALWAYS_INLINE float lanes_reduce_max(lanes a) {
    return _mm512_reduce_max_ps(a);
}

ALWAYS_INLINE float lanes_reduce_min(lanes a) {
    return _mm512_reduce_min_ps(a);
}

#endif
