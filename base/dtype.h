/* dtype: element types and the exact conversions between them. */
#ifndef SKEP_BASE_DTYPE_H
#define SKEP_BASE_DTYPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I32, DTYPE_COUNT };

/* dtype_bytes: the size of one element in bytes. */
int64_t dtype_bytes(enum dtype dtype);

/* dtype_name: the short name: "f32", "bf16", "f16" or "i32". */
const char *dtype_name(enum dtype dtype);

/* dtype_parse: find the type with the name `text`, ignoring case: a short name as in safetensors
 * ("F32") or a long one as in Hugging Face's configurations ("float32").
 * returns  false when `text` names no type; *dtype is then unchanged */
bool dtype_parse(const char *text, enum dtype *dtype);

static inline float bf16_to_f32(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* bf16_from_f32: rounds to nearest, ties to even; a NaN becomes a quiet NaN. */
static inline uint16_t bf16_from_f32(float value) {
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if ((wide & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((wide >> 16) | 0x40u);
    }
    return (uint16_t)((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits);

/* f16_from_f32: rounds to nearest, ties to even; overflow becomes infinity. */
uint16_t f16_from_f32(float value);

#endif
