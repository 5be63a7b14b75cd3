/* The vector exp and tanh against the C library's double precision, over all of the float range.
 * Compiled once for each instruction set. */
#include "kernels/cpu_level.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#ifdef TEST_AVX512
#include "kernels/loops/x86/vector_math_avx512.h"
#define LEVEL CPU_AVX512
enum { LANES = 16 };
static void vector_exp(const float *x, float *y) {
    _mm512_storeu_ps(y, vexp_avx512(_mm512_loadu_ps(x)));
}
static void vector_tanh(const float *x, float *y) {
    _mm512_storeu_ps(y, vtanh_avx512(_mm512_loadu_ps(x)));
}
#else
#include "kernels/loops/x86/vector_math_avx2.h"
#define LEVEL CPU_AVX2
enum { LANES = 8 };
static void vector_exp(const float *x, float *y) {
    _mm256_storeu_ps(y, vexp_avx2(_mm256_loadu_ps(x)));
}
static void vector_tanh(const float *x, float *y) {
    _mm256_storeu_ps(y, vtanh_avx2(_mm256_loadu_ps(x)));
}
#endif

/* Odd, so that the low bits of the patterns vary too; about two million values. */
enum { PATTERN_STEP = 2003 };

/* The distance from the true value in units of the last place of its nearest float. */
static double ulps(float got, double truth) {
    float nearest = (float)truth;
    if (isinf(nearest) || isinf(got)) {
        return nearest == got ? 0.0 : INFINITY;
    }
    double unit = (double)nextafterf(fabsf(nearest), INFINITY) - (double)fabsf(nearest);
    return fabs((double)got - truth) / unit;
}

static double worst_ulps(void (*candidate)(const float *, float *), double (*truth)(double)) {
    double worst = 0.0;
    float x[LANES];
    float y[LANES];
    uint64_t pattern = 0;
    while (pattern <= UINT32_MAX) {
        int lanes = 0;
        for (; lanes < LANES; lanes++) {
            uint32_t bits = (uint32_t)pattern;
            memcpy(&x[lanes], &bits, sizeof bits);
            x[lanes] = isnan(x[lanes]) ? 1.0f : x[lanes];
            pattern += PATTERN_STEP;
        }
        candidate(x, y);
        for (int i = 0; i < lanes; i++) {
            double error = ulps(y[i], truth((double)x[i]));
            if (!(error <= worst)) {
                worst = error;
            }
        }
    }
    return worst;
}

static void exp_is_within_one_ulp_everywhere(void **state) {
    (void)state;
    double worst = worst_ulps(vector_exp, exp);
    print_message("exp: %.3f ulp\n", worst);
    assert_true(worst <= 1.0);
}

static void tanh_is_within_two_ulps_everywhere(void **state) {
    (void)state;
    double worst = worst_ulps(vector_tanh, tanh);
    print_message("tanh: %.3f ulp\n", worst);
    assert_true(worst <= 2.0);
}

static void special_values_keep_their_meaning(void **state) {
    (void)state;
    float x[16] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -200.0f, 200.0f, 1e-30f};
    float y[16];
    vector_exp(x, y);
    assert_true(y[0] == 1.0f && y[1] == 1.0f && y[2] == INFINITY && y[3] == 0.0f);
    assert_true(isnan(y[4]) && y[5] == 0.0f && y[6] == INFINITY && y[7] == 1.0f);
    vector_tanh(x, y);
    assert_true(y[0] == 0.0f && y[1] == 0.0f && signbit(y[1]) && y[2] == 1.0f && y[3] == -1.0f);
    assert_true(isnan(y[4]) && y[5] == -1.0f && y[6] == 1.0f && y[7] == 1e-30f);
}

int main(void) {
    if (!cpu_supports_level(LEVEL)) {
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_one_ulp_everywhere),
        cmocka_unit_test(tanh_is_within_two_ulps_everywhere),
        cmocka_unit_test(special_values_keep_their_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
