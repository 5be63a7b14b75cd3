/* The codecs for AVX-512. */
#include "kernels/loops/x86/lanes_avx512.h"

typedef __m512i codec_absmax;
typedef __m512i codec_codes;

ALWAYS_INLINE codec_absmax absmax_zero(void) {
    return _mm512_setzero_si512();
}

ALWAYS_INLINE codec_absmax absmax_update(codec_absmax absmax, lanes values) {
    return _mm512_max_epi32(absmax, _mm512_castps_si512(lanes_abs(values)));
}

ALWAYS_INLINE uint32_t absmax_reduce(codec_absmax absmax) {
    return (uint32_t)_mm512_reduce_max_epi32(absmax);
}

ALWAYS_INLINE codec_codes codes_from_lanes(lanes scaled) {
    return _mm512_cvtps_epi32(scaled);
}

ALWAYS_INLINE lanes codes_to_lanes(codec_codes codes) {
    return _mm512_cvtepi32_ps(codes);
}

ALWAYS_INLINE void codes_store_int8(uint8_t *to, codec_codes codes) {
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8(codes));
}

ALWAYS_INLINE codec_codes codes_load_int8(const uint8_t *from) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from));
}

/* Two neighbouring codes form one 64-bit lane: the four bits of the odd code are shifted down next
 * to those of the even code. */
ALWAYS_INLINE void codes_store_int4(uint8_t *to, codec_codes codes) {
    __m512i nibbles = _mm512_and_si512(codes, _mm512_set1_epi32(0xf));
    __m512i pairs = _mm512_or_si512(nibbles, _mm512_srli_epi64(nibbles, 28));
    _mm_storeu_si64(to, _mm512_cvtepi64_epi8(pairs));
}

ALWAYS_INLINE codec_codes codes_load_int4(const uint8_t *from) {
    __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadu_si64(from));
    __m512i pairs = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
    return _mm512_srai_epi32(_mm512_slli_epi32(pairs, 28), 28);
}

#include "kernels/loops/codec_lanes.h"

void codec_kernels_init_avx512(struct codec_kernels *kernels) {
    codec_lanes_init(kernels);
}
