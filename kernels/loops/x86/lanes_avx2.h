/* lanes: operations on eight floats for sources compiled with AVX2 and FMA, under the names that
 * kernels/loops/NAME_lanes.h uses. lanes_avx512.h has the same names and their contracts. */
#ifndef SKEP_KERNELS_LOOPS_X86_LANES_AVX2_H
#define SKEP_KERNELS_LOOPS_X86_LANES_AVX2_H

#include "base/dtype.h"
#include "kernels/loops/x86/vector_math_avx2.h"

#include <immintrin.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef __m256 lanes;
enum { LANES = 8 }; /* floats of a vector */

ALWAYS_INLINE __m256i lanes_mask(int64_t count) {
    int bounded = count > LANES ? LANES : count < 0 ? 0 : (int)count;
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(bounded),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

ALWAYS_INLINE lanes lanes_broadcast(float value) {
    return _mm256_set1_ps(value);
}

ALWAYS_INLINE lanes lanes_zero(void) {
    return _mm256_setzero_ps();
}

ALWAYS_INLINE lanes lanes_from_bf16(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

ALWAYS_INLINE __m128i lanes_to_bf16(lanes value) {
    __m256i bits = _mm256_castps_si256(value);
    __m256i high = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    __m256i narrow = _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), quiet, is_nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(narrow), _mm256_extracti128_si256(narrow, 1));
}

ALWAYS_INLINE lanes lanes_load(enum dtype dtype, const void *data, int64_t index, int64_t count) {
    if (dtype == DTYPE_BF16) {
        const uint16_t *from = (const uint16_t *)data + index;
        if (count >= LANES) {
            return lanes_from_bf16(_mm_loadu_si128((const __m128i *)from));
        }
        uint16_t some[LANES] = {0};
        for (int64_t i = 0; i < count; i++) {
            some[i] = from[i];
        }
        return lanes_from_bf16(_mm_loadu_si128((const __m128i *)some));
    }
    const float *from = (const float *)data + index;
    return count >= LANES ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, lanes_mask(count));
}

ALWAYS_INLINE void lanes_store(enum dtype dtype, void *data, int64_t index, int64_t count,
                               lanes value) {
    if (dtype == DTYPE_BF16) {
        uint16_t *to = (uint16_t *)data + index;
        __m128i bits = lanes_to_bf16(value);
        if (count >= LANES) {
            _mm_storeu_si128((__m128i *)to, bits);
            return;
        }
        uint16_t some[LANES];
        _mm_storeu_si128((__m128i *)some, bits);
        for (int64_t i = 0; i < count; i++) {
            to[i] = some[i];
        }
        return;
    }
    float *to = (float *)data + index;
    if (count >= LANES) {
        _mm256_storeu_ps(to, value);
    } else {
        _mm256_maskstore_ps(to, lanes_mask(count), value);
    }
}

ALWAYS_INLINE lanes lanes_round_to_dtype(enum dtype dtype, lanes value) {
    return dtype == DTYPE_BF16 ? lanes_from_bf16(lanes_to_bf16(value)) : value;
}

ALWAYS_INLINE lanes lanes_fma(lanes a, lanes b, lanes c) {
    return _mm256_fmadd_ps(a, b, c);
}

ALWAYS_INLINE lanes lanes_max(lanes a, lanes b) {
    return _mm256_max_ps(a, b);
}

ALWAYS_INLINE lanes lanes_min(lanes a, lanes b) {
    return _mm256_min_ps(a, b);
}

ALWAYS_INLINE lanes lanes_sqrt(lanes a) {
    return _mm256_sqrt_ps(a);
}

ALWAYS_INLINE lanes lanes_exp(lanes a) {
    return vexp_avx2(a);
}

ALWAYS_INLINE lanes lanes_abs(lanes a) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

ALWAYS_INLINE lanes lanes_select_by_sign(lanes sign, lanes negative, lanes other) {
    return _mm256_blendv_ps(other, negative, _mm256_cmp_ps(sign, _mm256_setzero_ps(), _CMP_LT_OQ));
}

struct wide_lanes {
    __m256d low, high; /* the first and the second half of the lanes */
};

ALWAYS_INLINE struct wide_lanes wide_zero(void) {
    return (struct wide_lanes){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

ALWAYS_INLINE struct wide_lanes wide_add(struct wide_lanes sum, lanes a) {
    sum.low = sum.low + _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    sum.high = sum.high + _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    return sum;
}

ALWAYS_INLINE lanes wide_round(struct wide_lanes sum) {
    return _mm256_set_m128(_mm256_cvtpd_ps(sum.high), _mm256_cvtpd_ps(sum.low));
}

ALWAYS_INLINE float lanes_reduce_sum(lanes a) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

ALWAYS_INLINE float lanes_reduce_max(lanes a) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

ALWAYS_INLINE float lanes_reduce_min(lanes a) {
    __m128 four = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 two = _mm_min_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_min_ss(two, _mm_movehdup_ps(two)));
}

#endif
