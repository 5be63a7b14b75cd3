#include "targets/probe/probe_loops.h"

#include "base/check.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Twelve accumulators cover a latency of 4 to 6 clocks on two units, and leave registers for the
 * two factors even with only sixteen. The values stay near one for any number of rounds. */
enum { ACCUMULATORS = 12, SCALAR_ACCUMULATORS = 8 };

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

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static float run_avx2(int64_t rounds) {
    __m256 sums[ACCUMULATORS];
    const __m256 factor = _mm256_set1_ps(FACTOR);
    const __m256 term = _mm256_set1_ps(TERM);
    for (int i = 0; i < ACCUMULATORS; i++) {
        sums[i] = _mm256_set1_ps(1.0f);
    }
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < ACCUMULATORS; i++) {
            sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
        }
    }
    for (int i = 1; i < ACCUMULATORS; i++) {
        sums[0] = _mm256_add_ps(sums[0], sums[i]);
    }
    return _mm256_cvtss_f32(sums[0]);
}

__attribute__((target("avx512f"))) static float run_avx512(int64_t rounds) {
    __m512 sums[ACCUMULATORS];
    const __m512 factor = _mm512_set1_ps(FACTOR);
    const __m512 term = _mm512_set1_ps(TERM);
    for (int i = 0; i < ACCUMULATORS; i++) {
        sums[i] = _mm512_set1_ps(1.0f);
    }
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < ACCUMULATORS; i++) {
            sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
        }
    }
    for (int i = 1; i < ACCUMULATORS; i++) {
        sums[0] = _mm512_add_ps(sums[0], sums[i]);
    }
    return _mm512_cvtss_f32(sums[0]);
}

/* Each lane adds two products of bf16: 64 operations per instruction. */
__attribute__((target("avx512f,avx512bf16"))) static float run_avx512_bf16(int64_t rounds) {
    __m512 sums[ACCUMULATORS];
    const __m512bh one = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.0f), _mm512_set1_ps(1.0f));
    const __m512bh tiny = _mm512_cvtne2ps_pbh(_mm512_set1_ps(TERM), _mm512_set1_ps(TERM));
    for (int i = 0; i < ACCUMULATORS; i++) {
        sums[i] = _mm512_set1_ps(1.0f);
    }
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < ACCUMULATORS; i++) {
            sums[i] = _mm512_dpbf16_ps(sums[i], one, tiny);
        }
    }
    for (int i = 1; i < ACCUMULATORS; i++) {
        sums[0] = _mm512_add_ps(sums[0], sums[i]);
    }
    return _mm512_cvtss_f32(sums[0]);
}
#endif

#if defined(__aarch64__)
static float run_neon(int64_t rounds) {
    float32x4_t sums[ACCUMULATORS];
    const float32x4_t factor = vdupq_n_f32(FACTOR);
    const float32x4_t term = vdupq_n_f32(TERM);
    for (int i = 0; i < ACCUMULATORS; i++) {
        sums[i] = vdupq_n_f32(1.0f);
    }
    for (int64_t round = 0; round < rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < ACCUMULATORS; i++) {
            sums[i] = vfmaq_f32(term, sums[i], factor);
        }
    }
    for (int i = 1; i < ACCUMULATORS; i++) {
        sums[0] = vaddq_f32(sums[0], sums[i]);
    }
    return vaddvq_f32(sums[0]);
}
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
