/* Normal values of a random stream for AVX2. */
#include "kernels/loops/x86/lanes_avx2.h"

typedef uint64_t normal_words __attribute__((vector_size(32)));

ALWAYS_INLINE normal_words normal_product(normal_words a, uint32_t factor) {
    return (normal_words)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(factor));
}

ALWAYS_INLINE normal_words normal_joined(normal_words low, normal_words high) {
    return (normal_words)_mm256_blend_epi32((__m256i)low, (__m256i)(high << 32), 0xaa);
}

ALWAYS_INLINE void normal_store(float *to, normal_words sums, float factor, float deviation) {
    const __m256i low_halves = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    __m256i narrow = _mm256_permutevar8x32_epi32((__m256i)sums, low_halves);
    __m128 values = _mm_cvtepi32_ps(_mm256_castsi256_si128(narrow));
    _mm_storeu_ps(to, deviation * (values * factor));
}

#include "kernels/loops/x86/random_normals_lanes.h"

void random_normals_kernels_init_avx2(struct random_normals_kernels *kernels) {
    kernels->draw = random_normals_lanes;
}
