/* The codecs for AVX2. */
#include "kernels/loops/x86/lanes_avx2.h"

typedef __m256i codec_absmax;
typedef __m256i codec_codes;

ALWAYS_INLINE codec_absmax absmax_zero(void) {
    return _mm256_setzero_si256();
}

ALWAYS_INLINE codec_absmax absmax_update(codec_absmax absmax, lanes values) {
    return _mm256_max_epi32(absmax, _mm256_castps_si256(lanes_abs(values)));
}

ALWAYS_INLINE uint32_t absmax_reduce(codec_absmax absmax) {
    __m128i four =
        _mm_max_epi32(_mm256_castsi256_si128(absmax), _mm256_extracti128_si256(absmax, 1));
    __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1)));
}

ALWAYS_INLINE codec_codes codes_from_lanes(lanes scaled) {
    return _mm256_cvtps_epi32(scaled);
}

ALWAYS_INLINE lanes codes_to_lanes(codec_codes codes) {
    return _mm256_cvtepi32_ps(codes);
}

ALWAYS_INLINE void codes_store_int8(uint8_t *to, codec_codes codes) {
    __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
    _mm_storeu_si64(to, _mm_packs_epi16(words, words));
}

ALWAYS_INLINE codec_codes codes_load_int8(const uint8_t *from) {
    return _mm256_cvtepi8_epi32(_mm_loadu_si64(from));
}

/* Two neighbouring codes form one 64-bit lane: the four bits of the odd code are shifted down next
 * to those of the even code. */
ALWAYS_INLINE void codes_store_int4(uint8_t *to, codec_codes codes) {
    __m256i nibbles = _mm256_and_si256(codes, _mm256_set1_epi32(0xf));
    __m256i pairs = _mm256_or_si256(nibbles, _mm256_srli_epi64(nibbles, 28));
    __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    const __m128i first_of_words =
        _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    _mm_storeu_si32(to, _mm_shuffle_epi8(words, first_of_words));
}

ALWAYS_INLINE codec_codes codes_load_int4(const uint8_t *from) {
    __m256i bytes = _mm256_cvtepu8_epi64(_mm_loadu_si32(from));
    __m256i pairs = _mm256_or_si256(bytes, _mm256_slli_epi64(bytes, 28));
    return _mm256_srai_epi32(_mm256_slli_epi32(pairs, 28), 28);
}

#include "kernels/loops/codec_lanes.h"

void codec_kernels_init_avx2(struct codec_kernels *kernels) {
    codec_lanes_init(kernels);
}
