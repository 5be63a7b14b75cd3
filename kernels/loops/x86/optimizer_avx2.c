/* The optimizer for AVX2. */
#include "kernels/loops/x86/lanes_avx2.h"

#include "base/limits.h"
#include "kernels/loops/optimizer_lanes.h"

/* The eight partial sums of kernels/loops/optimizer.c form two vectors. */
static double granule_sum(const float *gradients) {
    __m256d low = _mm256_setzero_pd();
    __m256d high = _mm256_setzero_pd();
    for (int i = 0; i < GRANULE_ELEMENTS; i += 8) {
        __m256d first = _mm256_cvtps_pd(_mm_loadu_ps(gradients + i));
        __m256d second = _mm256_cvtps_pd(_mm_loadu_ps(gradients + i + 4));
        low = _mm256_fmadd_pd(first, first, low);
        high = _mm256_fmadd_pd(second, second, high);
    }
    __m256d four = _mm256_add_pd(low, high);
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static void granule_sums(const float *gradients, int64_t granules, double *sums) {
    for (int64_t i = 0; i < granules; i++) {
        sums[i] = granule_sum(gradients + i * GRANULE_ELEMENTS);
    }
}

void optimizer_kernels_init_avx2(struct optimizer_kernels *kernels) {
    kernels->granule_sums = granule_sums;
    kernels->adamw = adamw_lanes;
}
