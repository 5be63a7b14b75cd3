/* The passes of the sparse codec for AVX2. The sign bit of a magnitude is 0, so that signed
 * comparisons give the right order. */
#include "kernels/loops/sparse.h"

#include <immintrin.h>

enum { LANES = 8, GROUP = SPARSE_COLUMNS / LANES }; /* floats of a vector; vectors of columns */

static inline __m256i load_magnitudes(const float *values) {
    __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)values);
    return _mm256_and_si256(bits, _mm256_set1_epi32(SPARSE_MAGNITUDE_MASK));
}

static inline uint32_t reduce_max(__m256i lanes) {
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1)));
}

static inline uint32_t reduce_min(__m256i lanes) {
    return SPARSE_MAGNITUDE_MASK -
           reduce_max(_mm256_sub_epi32(_mm256_set1_epi32(SPARSE_MAGNITUDE_MASK), lanes));
}

static struct sparse_bounds bound_magnitudes(const float *values, int columns) {
    __m256i least = _mm256_set1_epi32(SPARSE_MAGNITUDE_MASK);
    __m256i most = _mm256_setzero_si256();
    for (int first = 0; first < columns; first += SPARSE_COLUMNS) {
        __m256i largest[GROUP];
        for (int g = 0; g < GROUP; g++) {
            largest[g] = _mm256_setzero_si256();
        }
        for (int row = first; row < SPARSE_BLOCK; row += columns) {
            for (int g = 0; g < GROUP; g++) {
                largest[g] =
                    _mm256_max_epi32(largest[g], load_magnitudes(values + row + g * LANES));
            }
        }
        for (int g = 0; g < GROUP; g++) {
            least = _mm256_min_epi32(least, largest[g]);
            most = _mm256_max_epi32(most, largest[g]);
        }
    }
    return (struct sparse_bounds){.lower_bound = reduce_min(least), .largest = reduce_max(most)};
}

/* Sets bits of the masks a byte at a time, from eight comparisons. */
static int mask_at_least(const float *values, uint32_t threshold,
                         uint64_t masks[SPARSE_MASK_COUNT]) {
    const __m256i below = _mm256_set1_epi32((int)threshold - 1);
    int marked = 0;
    for (int m = 0; m < SPARSE_MASK_COUNT; m++) {
        uint64_t mask = 0;
        for (int g = 0; g < 64 / LANES; g++) {
            __m256i is_set =
                _mm256_cmpgt_epi32(load_magnitudes(values + 64 * m + g * LANES), below);
            uint64_t bits = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(is_set));
            mask |= bits << (g * LANES);
        }
        masks[m] = mask;
        marked += __builtin_popcountll(mask);
    }
    return marked;
}

static int count_at_least(const uint32_t *magnitudes, int length, uint32_t threshold) {
    const __m256i below = _mm256_set1_epi32((int)threshold - 1);
    __m256i counted = _mm256_setzero_si256();
    int whole = length / LANES * LANES;
    for (int i = 0; i < whole; i += LANES) {
        __m256i some = _mm256_loadu_si256((const __m256i *)(const void *)(magnitudes + i));
        counted = _mm256_sub_epi32(counted, _mm256_cmpgt_epi32(some, below));
    }
    int lanes[LANES];
    _mm256_storeu_si256((__m256i *)(void *)lanes, counted);
    int sum = 0;
    for (int i = 0; i < LANES; i++) {
        sum += lanes[i];
    }
    for (int i = whole; i < length; i++) {
        sum += magnitudes[i] >= threshold;
    }
    return sum;
}

void sparse_kernels_init_avx2(struct sparse_kernels *kernels) {
    *kernels = (struct sparse_kernels){.bound_magnitudes = bound_magnitudes,
                                       .mask_at_least = mask_at_least,
                                       .count_at_least = count_at_least};
}
