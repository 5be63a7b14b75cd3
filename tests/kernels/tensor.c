#include "tests/kernels/tensor.h"

#include "base/check.h"
#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD_BYTES = 256, GUARD_FILL = 0xA5 };

static const char *const PATTERN_NAMES[PATTERN_COUNT] = {"normal", "zero", "denormal", "large",
                                                         "mixed"};

const char *pattern_name(enum pattern pattern) {
    return PATTERN_NAMES[pattern];
}

static size_t padded_bytes(const struct tensor *tensor) {
    size_t bytes = (size_t)(tensor->count * dtype_bytes(tensor->dtype));
    return (bytes + 63) / 64 * 64;
}

static struct tensor tensor_new(enum dtype dtype, int64_t count) {
    struct tensor tensor = {.dtype = dtype, .count = count};
    size_t bytes = 2 * GUARD_BYTES + padded_bytes(&tensor);
    uint8_t *base =
        aligned_alloc(GUARD_BYTES, (bytes + GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES);
    assert_non_null(base);
    memset(base, GUARD_FILL, bytes);
    tensor.data = base + GUARD_BYTES;
    tensor.exact = calloc((size_t)count + 1, sizeof(double));
    assert_non_null(tensor.exact);
    return tensor;
}

double tensor_value(const struct tensor *tensor, int64_t index) {
    switch (tensor->dtype) {
    case DTYPE_F32:
        return (double)((const float *)tensor->data)[index];
    case DTYPE_BF16:
        return (double)bf16_to_f32(((const uint16_t *)tensor->data)[index]);
    case DTYPE_F16:
        return (double)f16_to_f32(((const uint16_t *)tensor->data)[index]);
    case DTYPE_I32:
        return (double)((const int32_t *)tensor->data)[index];
    case DTYPE_COUNT:
        break;
    }
    ASSERT(false && "a dtype");
    return 0;
}

static void tensor_set(struct tensor *tensor, int64_t index, float value) {
    switch (tensor->dtype) {
    case DTYPE_F32:
        ((float *)tensor->data)[index] = value;
        break;
    case DTYPE_BF16:
        ((uint16_t *)tensor->data)[index] = bf16_from_f32(value);
        break;
    case DTYPE_F16:
        ((uint16_t *)tensor->data)[index] = f16_from_f32(value);
        break;
    case DTYPE_I32:
    case DTYPE_COUNT:
        ((int32_t *)tensor->data)[index] = (int32_t)value;
        break;
    }
    tensor->exact[index] = tensor_value(tensor, index);
}

static float pattern_value(enum pattern pattern, uint64_t seed, uint64_t index) {
    float normal = random_normal(seed, index);
    uint32_t words[4];
    random_block(~seed, index, words);
    switch (pattern) {
    case PATTERN_ZERO:
        return (words[0] & 1) != 0 ? -0.0f : 0.0f;
    case PATTERN_DENORMAL:
        return ldexpf(normal, -130);
    case PATTERN_LARGE:
        return ldexpf(normal, 18);
    case PATTERN_MIXED:
        return ldexpf(normal, (int)(words[0] % 41) - 30);
    case PATTERN_NORMAL:
    case PATTERN_COUNT:
        break;
    }
    return normal;
}

struct tensor tensor_random(enum dtype dtype, int64_t count, enum pattern pattern, uint64_t seed) {
    struct tensor tensor = tensor_new(dtype, count);
    for (int64_t i = 0; i < count; i++) {
        tensor_set(&tensor, i, pattern_value(pattern, seed, (uint64_t)i));
    }
    return tensor;
}

struct tensor tensor_integers(int64_t count, int32_t below, uint64_t seed) {
    struct tensor tensor = tensor_new(DTYPE_I32, count);
    for (int64_t i = 0; i < count; i++) {
        int32_t value = (int32_t)(random_uniform(seed, (uint64_t)i) * below);
        ((int32_t *)tensor.data)[i] = value;
        tensor.exact[i] = value;
    }
    return tensor;
}

struct tensor tensor_zeros(enum dtype dtype, int64_t count) {
    struct tensor tensor = tensor_new(dtype, count);
    memset(tensor.data, 0, (size_t)(count * dtype_bytes(dtype)));
    return tensor;
}

struct tensor tensor_unset(enum dtype dtype, int64_t count) {
    struct tensor tensor = tensor_new(dtype, count);
    memset(tensor.data, 0xFF, (size_t)(count * dtype_bytes(dtype)));
    return tensor;
}

struct tensor workspace_of(uint64_t bytes) {
    return tensor_unset(DTYPE_F32, (int64_t)((bytes + 3) / 4));
}

bool tensor_guards_stand(const struct tensor *tensor) {
    const uint8_t *data = tensor->data;
    size_t bytes = (size_t)(tensor->count * dtype_bytes(tensor->dtype));
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (data[bytes + i] != GUARD_FILL || *(data - 1 - i) != GUARD_FILL) {
            return false;
        }
    }
    return true;
}

void tensor_free(struct tensor *tensor) {
    if (tensor->data == NULL) {
        return;
    }
    bool stand = tensor_guards_stand(tensor);
    free((uint8_t *)tensor->data - GUARD_BYTES);
    free(tensor->exact);
    memset(tensor, 0, sizeof *tensor);
    if (!stand) {
        fail_msg("bytes outside a tensor were written");
    }
}
