/* vector math: exp and tanh of sixteen floats, for sources compiled with AVX-512. */
#ifndef SKEP_KERNELS_LOOPS_X86_VECTOR_MATH_AVX512_H
#define SKEP_KERNELS_LOOPS_X86_VECTOR_MATH_AVX512_H

#include <immintrin.h>

/* vexp_avx512: e to the power of each lane.
 * limits    any value: overflow gives infinity, underflow gives subnormals and then 0, NaN gives
 *           NaN
 * accuracy  at most 1 ulp, checked by tests/kernels/test_vector_math.c
 * source    x = n ln 2 + r, |r| <= ln 2 / 2; the polynomial is a minimax fit of relative error
 *           3e-9 */
static inline __m512 vexp_avx512(__m512 x) {
    /* max and min return their second operand if one is NaN, so NaN is propagated. */
    x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
    x = _mm512_min_ps(_mm512_set1_ps(89.0f), x);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e430p-1f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-0x1.05c610p-29f), r);
    __m512 p = _mm512_set1_ps(1.3814467e-3f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3687808e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1668393e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666520e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.9999994e-1f));
    p = _mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r);
    return _mm512_scalef_ps(_mm512_add_ps(p, _mm512_set1_ps(1.0f)), n);
}

/* vtanh_avx512: hyperbolic tangent of each lane.
 * limits    any value; NaN gives NaN
 * accuracy  at most 2 ulp
 * source    odd polynomial (minimax, 4e-9) below 0.625, 1 - 2 / (e^2|x| + 1) above */
static inline __m512 vtanh_avx512(__m512 x) {
    __m512 size = _mm512_abs_ps(x);
    __m512 power = vexp_avx512(_mm512_add_ps(size, size));
    __m512 one = _mm512_set1_ps(1.0f);
    __m512 large =
        _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0f), _mm512_add_ps(power, one)));
    __m512 square = _mm512_mul_ps(x, x);
    __m512 p = _mm512_set1_ps(-5.7049855e-3f);
    p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(2.0639086e-2f));
    p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(-5.3739715e-2f));
    p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(1.3331442e-1f));
    p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(-3.3333281e-1f));
    __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(p, square), size, size);
    __mmask16 is_small = _mm512_cmp_ps_mask(size, _mm512_set1_ps(0.625f), _CMP_LT_OQ);
    __m512 magnitude = _mm512_mask_mov_ps(large, is_small, small);
    __m512 sign = _mm512_and_ps(x, _mm512_set1_ps(-0.0f));
    return _mm512_or_ps(magnitude, sign);
}

#endif
