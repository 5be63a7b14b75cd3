/* The optimizer for AVX-512. */
#include "kernels/loops/x86/lanes_avx512.h"

#include "base/limits.h"
#include "kernels/loops/optimizer_lanes.h"

/* The eight partial sums of kernels/loops/optimizer.c form one vector. */
static double granule_sum(const float *gradients) {
    __m512d sums = _mm512_setzero_pd();
    for (int i = 0; i < GRANULE_ELEMENTS; i += 8) {
        __m512d value = _mm512_cvtps_pd(_mm256_loadu_ps(gradients + i));
        sums = _mm512_fmadd_pd(value, value, sums);
    }
    __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(sums), _mm512_extractf64x4_pd(sums, 1));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static void granule_sums(const float *gradients, int64_t granules, double *sums) {
    for (int64_t i = 0; i < granules; i++) {
        sums[i] = granule_sum(gradients + i * GRANULE_ELEMENTS);
    }
}

void optimizer_kernels_init_avx512(struct optimizer_kernels *kernels) {
    kernels->granule_sums = granule_sums;
    kernels->adamw = adamw_lanes;
}
