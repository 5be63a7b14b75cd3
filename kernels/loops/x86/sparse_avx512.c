/* The passes of the sparse codec for AVX-512. */
#include "kernels/loops/sparse.h"

#include <immintrin.h>

enum { LANES = 16, GROUP = SPARSE_COLUMNS / LANES }; /* floats of a vector; vectors of columns */

static inline __m512i load_magnitudes(const float *values) {
    return _mm512_and_si512(_mm512_loadu_si512(values), _mm512_set1_epi32(SPARSE_MAGNITUDE_MASK));
}

static struct sparse_bounds bound_magnitudes(const float *values, int columns) {
    __m512i least = _mm512_set1_epi32(SPARSE_MAGNITUDE_MASK);
    __m512i most = _mm512_setzero_si512();
    for (int first = 0; first < columns; first += SPARSE_COLUMNS) {
        __m512i largest[GROUP];
        for (int g = 0; g < GROUP; g++) {
            largest[g] = _mm512_setzero_si512();
        }
        for (int row = first; row < SPARSE_BLOCK; row += columns) {
            for (int g = 0; g < GROUP; g++) {
                largest[g] =
                    _mm512_max_epu32(largest[g], load_magnitudes(values + row + g * LANES));
            }
        }
        for (int g = 0; g < GROUP; g++) {
            least = _mm512_min_epu32(least, largest[g]);
            most = _mm512_max_epu32(most, largest[g]);
        }
    }
    return (struct sparse_bounds){.lower_bound = _mm512_reduce_min_epu32(least),
                                  .largest = _mm512_reduce_max_epu32(most)};
}

static int mask_at_least(const float *values, uint32_t threshold,
                         uint64_t masks[SPARSE_MASK_COUNT]) {
    const __m512i least = _mm512_set1_epi32((int)threshold);
    int marked = 0;
    for (int m = 0; m < SPARSE_MASK_COUNT; m++) {
        uint64_t mask = 0;
        for (int g = 0; g < 64 / LANES; g++) {
            __m512i some = load_magnitudes(values + 64 * m + g * LANES);
            mask |= (uint64_t)_mm512_cmpge_epu32_mask(some, least) << (g * LANES);
        }
        masks[m] = mask;
        marked += __builtin_popcountll(mask);
    }
    return marked;
}

static int count_at_least(const uint32_t *magnitudes, int length, uint32_t threshold) {
    const __m512i least = _mm512_set1_epi32((int)threshold);
    int counted = 0;
    for (int i = 0; i < length; i += LANES) {
        __mmask16 inside = length - i < LANES ? (__mmask16)((1u << (length - i)) - 1) : 0xffff;
        __m512i some = _mm512_maskz_loadu_epi32(inside, magnitudes + i);
        counted += __builtin_popcount(_mm512_mask_cmpge_epu32_mask(inside, some, least));
    }
    return counted;
}

void sparse_kernels_init_avx512(struct sparse_kernels *kernels) {
    *kernels = (struct sparse_kernels){.bound_magnitudes = bound_magnitudes,
                                       .mask_at_least = mask_at_least,
                                       .count_at_least = count_at_least};
}
