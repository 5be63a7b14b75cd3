/* Normal values of a random stream for AVX-512. */
#include "kernels/loops/x86/lanes_avx512.h"

typedef uint64_t normal_words __attribute__((vector_size(64)));

ALWAYS_INLINE normal_words normal_product(normal_words a, uint32_t factor) {
    return (normal_words)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(factor));
}

ALWAYS_INLINE normal_words normal_joined(normal_words low, normal_words high) {
    return (normal_words)_mm512_mask_blend_epi32(0xaaaa, (__m512i)low, (__m512i)(high << 32));
}

ALWAYS_INLINE void normal_store(float *to, normal_words sums, float factor, float deviation) {
    _mm256_storeu_ps(to, deviation * (_mm512_cvtepi64_ps((__m512i)sums) * factor));
}

#include "kernels/loops/x86/random_normals_lanes.h"

void random_normals_kernels_init_avx512(struct random_normals_kernels *kernels) {
    kernels->draw = random_normals_lanes;
}
