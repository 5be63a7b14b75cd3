#include "base/dtype.h"

#include "base/check.h"

#include <math.h>
#include <strings.h>

struct dtype_info {
    const char *name;         /* short name, such as "bf16" */
    const char *long_name;    /* name in model configurations, such as "bfloat16" */
    const char *trainer_name; /* abbreviation that PyTorch trainers use, such as "fp32" */
    int64_t bytes;            /* size of one element */
};

static const struct dtype_info DTYPES[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", "float32", "fp32", 4},
    [DTYPE_BF16] = {"bf16", "bfloat16", "bf16", 2},
    [DTYPE_F16] = {"f16", "float16", "fp16", 2},
    [DTYPE_I32] = {"i32", "int32", "int32", 4},
};

int64_t dtype_bytes(enum dtype dtype) {
    ASSERT(dtype < DTYPE_COUNT);
    return DTYPES[dtype].bytes;
}

const char *dtype_name(enum dtype dtype) {
    ASSERT(dtype < DTYPE_COUNT);
    return DTYPES[dtype].name;
}

bool dtype_parse(const char *text, enum dtype *dtype) {
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcasecmp(text, DTYPES[i].name) == 0 || strcasecmp(text, DTYPES[i].long_name) == 0 ||
            strcasecmp(text, DTYPES[i].trainer_name) == 0) {
            *dtype = (enum dtype)i;
            return true;
        }
    }
    return false;
}

float f16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1fu;
    uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) {
        float magnitude = ldexpf((float)fraction, -24);
        return sign != 0 ? -magnitude : magnitude;
    }
    uint32_t wide = exponent == 31 ? sign | 0x7f800000u | (fraction << 13)
                                   : sign | ((exponent + 112) << 23) | (fraction << 13);
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

uint16_t f16_from_f32(float value) {
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    uint16_t sign = (uint16_t)((wide >> 16) & 0x8000u);
    uint32_t magnitude = wide & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u);
    }
    if (magnitude >= 0x477ff000u) { /* at least 65520, which rounds to infinity */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) { /* below 2^-14, the smallest normal f16 */
        float scaled = rintf(ldexpf(fabsf(value), 24));
        return (uint16_t)(sign | (uint16_t)scaled);
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | (uint16_t)((rounded - 0x38000000u) >> 13));
}
