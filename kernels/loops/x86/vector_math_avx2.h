/* vector math: exp and tanh of eight floats, for sources compiled with AVX2 and FMA. */
#ifndef SKEP_KERNELS_LOOPS_X86_VECTOR_MATH_AVX2_H
#define SKEP_KERNELS_LOOPS_X86_VECTOR_MATH_AVX2_H

#include <immintrin.h>

/* vscale_avx2: x times 2^n for integers n in [-280, 254]. It multiplies by two factors, because 2^n
 * itself may not be a normal float. */
static inline __m256 vscale_avx2(__m256 x, __m256 n) {
    __m256i whole = _mm256_cvtps_epi32(n);
    __m256i half = _mm256_srai_epi32(whole, 1);
    __m256i rest = _mm256_sub_epi32(whole, half);
    __m256i bias = _mm256_set1_epi32(127);
    __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i second = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

/* vexp_avx2: e to the power of each lane.
 * limits    any value: overflow gives infinity, underflow gives subnormals and then 0, NaN gives
 *           NaN
 * accuracy  at most 1 ulp, checked by tests/kernels/test_vector_math.c
 * source    x = n ln 2 + r, |r| <= ln 2 / 2; the polynomial is a minimax fit of relative error
 *           3e-9 */
static inline __m256 vexp_avx2(__m256 x) {
    /* max and min return their second operand if one is NaN, so NaN is propagated. */
    x = _mm256_max_ps(_mm256_set1_ps(-104.0f), x);
    x = _mm256_min_ps(_mm256_set1_ps(89.0f), x);
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e430p-1f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-0x1.05c610p-29f), r);
    __m256 p = _mm256_set1_ps(1.3814467e-3f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3687808e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1668393e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666520e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.9999994e-1f));
    p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, r);
    return vscale_avx2(_mm256_add_ps(p, _mm256_set1_ps(1.0f)), n);
}

/* vtanh_avx2: hyperbolic tangent of each lane.
 * limits    any value; NaN gives NaN
 * accuracy  at most 2 ulp
 * source    odd polynomial (minimax, 4e-9) below 0.625, 1 - 2 / (e^2|x| + 1) above */
static inline __m256 vtanh_avx2(__m256 x) {
    __m256 sign_bit = _mm256_set1_ps(-0.0f);
    __m256 size = _mm256_andnot_ps(sign_bit, x);
    __m256 power = vexp_avx2(_mm256_add_ps(size, size));
    __m256 one = _mm256_set1_ps(1.0f);
    __m256 large =
        _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(power, one)));
    __m256 square = _mm256_mul_ps(x, x);
    __m256 p = _mm256_set1_ps(-5.7049855e-3f);
    p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(2.0639086e-2f));
    p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(-5.3739715e-2f));
    p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(1.3331442e-1f));
    p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(-3.3333281e-1f));
    __m256 small = _mm256_fmadd_ps(_mm256_mul_ps(p, square), size, size);
    __m256 is_small = _mm256_cmp_ps(size, _mm256_set1_ps(0.625f), _CMP_LT_OQ);
    __m256 magnitude = _mm256_blendv_ps(large, small, is_small);
    return _mm256_or_ps(magnitude, _mm256_and_ps(x, sign_bit));
}

#endif
