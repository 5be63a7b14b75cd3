/* The codecs for NEON. */
#include "kernels/loops/arm/lanes_neon.h"

typedef uint32x4_t codec_absmax;
typedef int32x4_t codec_codes;

ALWAYS_INLINE codec_absmax absmax_zero(void) {
    return vdupq_n_u32(0);
}

ALWAYS_INLINE codec_absmax absmax_update(codec_absmax absmax, lanes values) {
    return vmaxq_u32(absmax, vreinterpretq_u32_f32(lanes_abs(values)));
}

ALWAYS_INLINE uint32_t absmax_reduce(codec_absmax absmax) {
    return vmaxvq_u32(absmax);
}

ALWAYS_INLINE codec_codes codes_from_lanes(lanes scaled) {
    return vcvtnq_s32_f32(scaled);
}

ALWAYS_INLINE lanes codes_to_lanes(codec_codes codes) {
    return vcvtq_f32_s32(codes);
}

ALWAYS_INLINE void codes_store_int8(uint8_t *to, codec_codes codes) {
    int16x4_t words = vmovn_s32(codes);
    int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    memcpy(to, &bytes, LANES);
}

ALWAYS_INLINE codec_codes codes_load_int8(const uint8_t *from) {
    uint32_t four;
    memcpy(&four, from, sizeof four);
    return vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four))));
}

/* Two neighbouring codes form one 64-bit lane: the four bits of the odd code are shifted down next
 * to those of the even code. */
ALWAYS_INLINE void codes_store_int4(uint8_t *to, codec_codes codes) {
    uint32x4_t nibbles = vandq_u32(vreinterpretq_u32_s32(codes), vdupq_n_u32(0xf));
    uint64x2_t lanes64 = vreinterpretq_u64_u32(nibbles);
    uint64x2_t pairs = vorrq_u64(lanes64, vshrq_n_u64(lanes64, 28));
    to[0] = (uint8_t)vgetq_lane_u64(pairs, 0);
    to[1] = (uint8_t)vgetq_lane_u64(pairs, 1);
}

ALWAYS_INLINE codec_codes codes_load_int4(const uint8_t *from) {
    uint64x2_t bytes = vcombine_u64(vcreate_u64(from[0]), vcreate_u64(from[1]));
    uint64x2_t pairs = vorrq_u64(bytes, vshlq_n_u64(bytes, 28));
    return vshrq_n_s32(vshlq_n_s32(vreinterpretq_s32_u64(pairs), 28), 28);
}

#include "kernels/loops/codec_lanes.h"

void codec_kernels_init_neon(struct codec_kernels *kernels) {
    codec_lanes_init(kernels);
}
