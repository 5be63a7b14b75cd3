/* lanes: operations on four floats for aarch64, under the names that kernels/loops/NAME_lanes.h
 * uses. It has only the operations that the NEON variants need; their contracts are in
 * kernels/loops/x86/lanes_avx512.h. */
#ifndef SKEP_KERNELS_LOOPS_ARM_LANES_NEON_H
#define SKEP_KERNELS_LOOPS_ARM_LANES_NEON_H

#include "base/dtype.h"

#include <arm_neon.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef float32x4_t lanes;
enum { LANES = 4 }; /* floats of a vector */

ALWAYS_INLINE lanes lanes_abs(lanes a) {
    return vabsq_f32(a);
}

ALWAYS_INLINE lanes lanes_from_bf16(uint16x4_t bits) {
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(bits), 16));
}

ALWAYS_INLINE uint16x4_t lanes_to_bf16(lanes value) {
    uint32x4_t bits = vreinterpretq_u32_f32(value);
    uint32x4_t high = vshrq_n_u32(bits, 16);
    uint32x4_t odd = vandq_u32(high, vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
    uint32x4_t is_number = vceqq_f32(value, value);
    return vmovn_u32(vbslq_u32(is_number, vshrq_n_u32(rounded, 16), quiet));
}

/* lanes_load and lanes_store process whole vectors only: count >= LANES. */
ALWAYS_INLINE lanes lanes_load(enum dtype dtype, const void *data, int64_t index, int64_t count) {
    (void)count;
    if (dtype == DTYPE_BF16) {
        uint16x4_t bits;
        memcpy(&bits, (const char *)data + 2 * index, sizeof bits);
        return lanes_from_bf16(bits);
    }
    lanes value;
    memcpy(&value, (const char *)data + 4 * index, sizeof value);
    return value;
}

ALWAYS_INLINE void lanes_store(enum dtype dtype, void *data, int64_t index, int64_t count,
                               lanes value) {
    (void)count;
    if (dtype == DTYPE_BF16) {
        uint16x4_t bits = lanes_to_bf16(value);
        memcpy((char *)data + 2 * index, &bits, sizeof bits);
        return;
    }
    memcpy((char *)data + 4 * index, &value, sizeof value);
}

ALWAYS_INLINE lanes lanes_round_to_dtype(enum dtype dtype, lanes value) {
    return dtype == DTYPE_BF16 ? lanes_from_bf16(lanes_to_bf16(value)) : value;
}

#endif
