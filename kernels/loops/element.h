/* element: access to single elements of f32 and bf16 tensors as floats, for the plain C kernels. */
#ifndef SKEP_KERNELS_LOOPS_ELEMENT_H
#define SKEP_KERNELS_LOOPS_ELEMENT_H

#include "base/dtype.h"

/* Load an element as a float. It uses memcpy, because head_loss overwrites f32 rows with bf16 in
 * place. */
static inline float element_load(const void *data, enum dtype dtype, int64_t index) {
    if (dtype == DTYPE_BF16) {
        uint16_t bits;
        memcpy(&bits, (const char *)data + 2 * index, sizeof bits);
        return bf16_to_f32(bits);
    }
    float value;
    memcpy(&value, (const char *)data + 4 * index, sizeof value);
    return value;
}

/* Store `value`, rounded once to nearest even. */
static inline void element_store(void *data, enum dtype dtype, int64_t index, float value) {
    if (dtype == DTYPE_BF16) {
        uint16_t bits = bf16_from_f32(value);
        memcpy((char *)data + 2 * index, &bits, sizeof bits);
        return;
    }
    memcpy((char *)data + 4 * index, &value, sizeof value);
}

/* Round `value` as storing it in `dtype` and loading it again would. */
static inline float element_round(float value, enum dtype dtype) {
    return dtype == DTYPE_BF16 ? bf16_to_f32(bf16_from_f32(value)) : value;
}

/* The address of an element of an f32 or bf16 tensor. */
static inline const void *element_address(const void *data, enum dtype dtype, int64_t index) {
    return (const char *)data + (dtype == DTYPE_BF16 ? 2 : 4) * index;
}

static inline void *element_address_mutable(void *data, enum dtype dtype, int64_t index) {
    return (char *)data + (dtype == DTYPE_BF16 ? 2 : 4) * index;
}

#endif
