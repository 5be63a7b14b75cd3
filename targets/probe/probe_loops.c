#include "targets/probe/probe_loops.h"

#include "base/check.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Twelve accumulators cover a latency of 4 to 6 clocks on two units, and leave registers for the
 * two factors even where there are only sixteen. The values stay near one for any number of
 * rounds. */
enum { ACCUMULATORS = 12, SCALAR_ACCUMULATORS = 8 }; /* independent sums of one loop */

static const float FACTOR = 0.999999f;
static const float TERM = 1e-6f;

static float run_scalar(int64_t rounds) {
    float sums[SCALAR_ACCUMULATORS] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (int64_t round = 0; round < rounds; round++) {
        for (int i = 0; i < SCALAR_ACCUMULATORS; i++) {
            sums[i] = sums[i] * FACTOR + TERM;
        }
    }
    float sum = 0;
    for (int i = 0; i < SCALAR_ACCUMULATORS; i++) {
        sum += sums[i];
    }
    return sum;
}

/* Defines a function of ACCUMULATORS independent chains: `step` computes the next sums[i] from the
 * constants x and y. */
#define PROBE_LOOP(name, attributes, vector, splat, x_value, y_value, step, add, first_lane)       \
    attributes static float name(int64_t rounds) {                                                 \
        vector sums[ACCUMULATORS];                                                                 \
        const __typeof__(x_value) x = x_value;                                                     \
        const __typeof__(y_value) y = y_value;                                                     \
        for (int i = 0; i < ACCUMULATORS; i++) {                                                   \
            sums[i] = splat(1.0f);                                                                 \
        }                                                                                          \
        for (int64_t round = 0; round < rounds; round++) {                                         \
            _Pragma("GCC unroll 12") for (int i = 0; i < ACCUMULATORS; i++) {                      \
                sums[i] = step;                                                                    \
            }                                                                                      \
        }                                                                                          \
        for (int i = 1; i < ACCUMULATORS; i++) {                                                   \
            sums[0] = add(sums[0], sums[i]);                                                       \
        }                                                                                          \
        return first_lane(sums[0]);                                                                \
    }

#if defined(__x86_64__)
PROBE_LOOP(run_avx2, __attribute__((target("avx2,fma"))), __m256, _mm256_set1_ps,
           _mm256_set1_ps(FACTOR), _mm256_set1_ps(TERM), _mm256_fmadd_ps(sums[i], x, y),
           _mm256_add_ps, _mm256_cvtss_f32)

PROBE_LOOP(run_avx512, __attribute__((target("avx512f"))), __m512, _mm512_set1_ps,
           _mm512_set1_ps(FACTOR), _mm512_set1_ps(TERM), _mm512_fmadd_ps(sums[i], x, y),
           _mm512_add_ps, _mm512_cvtss_f32)

/* Each lane adds two products of bf16: 64 operations per instruction. */
PROBE_LOOP(run_avx512_bf16, __attribute__((target("avx512f,avx512bf16"))), __m512, _mm512_set1_ps,
           _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.0f), _mm512_set1_ps(1.0f)),
           _mm512_cvtne2ps_pbh(_mm512_set1_ps(TERM), _mm512_set1_ps(TERM)),
           _mm512_dpbf16_ps(sums[i], x, y), _mm512_add_ps, _mm512_cvtss_f32)
#endif

#if defined(__aarch64__)
PROBE_LOOP(run_neon, , float32x4_t, vdupq_n_f32, vdupq_n_f32(FACTOR), vdupq_n_f32(TERM),
           vfmaq_f32(y, sums[i], x), vaddq_f32, vaddvq_f32)
#endif

struct probe_loop probe_loop_f32(const char *isa) {
#if defined(__x86_64__)
    if (strcmp(isa, "avx512") == 0 || strcmp(isa, "avx512_bf16") == 0) {
        return (struct probe_loop){run_avx512, 2.0 * 16 * ACCUMULATORS};
    }
    if (strcmp(isa, "avx2") == 0) {
        return (struct probe_loop){run_avx2, 2.0 * 8 * ACCUMULATORS};
    }
#elif defined(__aarch64__)
    if (strcmp(isa, "neon") == 0) {
        return (struct probe_loop){run_neon, 2.0 * 4 * ACCUMULATORS};
    }
#endif
    ASSERT(strcmp(isa, "scalar") == 0);
    return (struct probe_loop){run_scalar, 2.0 * SCALAR_ACCUMULATORS};
}

struct probe_loop probe_loop_bf16(const char *isa) {
#if defined(__x86_64__)
    if (strcmp(isa, "avx512_bf16") == 0) {
        return (struct probe_loop){run_avx512_bf16, 4.0 * 16 * ACCUMULATORS};
    }
#endif
    return probe_loop_f32(isa);
}
