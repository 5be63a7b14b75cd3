/* emulated: the words of kernels/cuda/device/device.h for a C++ compiler: see
 * tests/emulated/launch.h for what they look for. Included by device.h, inside of it. */
#ifndef SKEP_TESTS_EMULATED_EMULATED_H
#define SKEP_TESTS_EMULATED_EMULATED_H

extern "C" {
#include "base/dtype.h"
}
#include "tests/emulated/threads.h"

#include <math.h>
#include <string.h>

#define DEVICE inline

/* The kernel as a function of this file, and an object that makes it known before main(). */
struct emulated_registration {
    emulated_kernel kernel;
    emulated_registration(const char *name, void (*body)(const void *), size_t bytes,
                          unsigned threads)
        : kernel{name, body, bytes, threads, 0, nullptr} {
        emulated_register(&kernel);
    }
};
#define BOUNDED_KERNEL(name, params, threads, blocks)                                              \
    static void name(const params &p);                                                             \
    static emulated_registration name##_registration(                                              \
        #name, [](const void *p) { name(*static_cast<const params *>(p)); }, sizeof(params),       \
        threads);                                                                                  \
    static void name(const params &p)
#define KERNEL(name, params) BOUNDED_KERNEL(name, params, 0, 0)

/* Aligned as its type asks for and no better, between red zones. */
template <typename T, size_t count> struct emulated_array {
    static constexpr size_t FRONT = EMULATED_RED_ZONE + (alignof(T) < 64 ? alignof(T) : 0);
    alignas(EMULATED_RED_ZONE) unsigned char bytes[FRONT + sizeof(T[count]) + EMULATED_RED_ZONE];
    emulated_shared shared;

    T (&enter())[count] {
        emulated_shared_enter(&shared, bytes + FRONT, sizeof(T[count]));
        return *reinterpret_cast<T(*)[count]>(bytes + FRONT);
    }
};
#define SHARED(type, name, count)                                                                  \
    static emulated_array<type, count> name##_array;                                               \
    type(&name)[count] = name##_array.enter()
#define DYNAMIC_SHARED(name) unsigned char *name = emulated_dynamic_shared()

#define __syncthreads() emulated_barrier(__LINE__)
#define __syncwarp()    emulated_warp_barrier(__LINE__)

/* ---- numbers ---- */

DEVICE float bits_to_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
DEVICE uint32_t float_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
DEVICE float to_float(float value) {
    return value;
}
DEVICE float to_float(bf16 value) {
    return bits_to_float((uint32_t)value.bits << 16);
}
DEVICE float to_float(f16 value) {
    return f16_to_f32(value.bits);
}
template <typename T> DEVICE T from_float(float value);
template <> DEVICE float from_float<float>(float value) {
    return value;
}
template <> DEVICE bf16 from_float<bf16>(float value) {
    uint32_t bits = float_to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return bf16{0x7fff};
    }
    return bf16{(uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
template <> DEVICE f16 from_float<f16>(float value) {
    return f16{f16_from_f32(value)};
}
DEVICE uint32_t pack_bf16(float low, float high) {
    return from_float<bf16>(low).bits | (uint32_t)from_float<bf16>(high).bits << 16;
}
DEVICE float low_bf16(uint32_t packed) {
    return bits_to_float(packed << 16);
}
DEVICE float high_bf16(uint32_t packed) {
    return bits_to_float(packed & 0xffff0000u);
}
/* Wrong by a unit in the last place every other time, as the device may be. */
DEVICE float exp2_fast(float x) {
    float value = exp2f(x);
    if (value < 0x1p-126f) {
        return 0;
    }
    bool is_odd = (float_to_bits(x) & 1u) != 0 && x != floorf(x) && isfinite(value);
    return is_odd ? bits_to_float(float_to_bits(value) + 1) : value;
}
DEVICE float exp_full(float x) {
    return expf(x);
}
DEVICE float log_full(float x) {
    return logf(x);
}
/* Without contraction each operator rounds once. */
DEVICE float mul_exact(float a, float b) {
    return a * b;
}
DEVICE float add_exact(float a, float b) {
    return a + b;
}
DEVICE float sub_exact(float a, float b) {
    return a - b;
}
DEVICE float div_exact(float a, float b) {
    return a / b;
}
DEVICE float fma_exact(float a, float b, float c) {
    return fmaf(a, b, c);
}
DEVICE float sqrt_exact(float a) {
    return sqrtf(a);
}
DEVICE double sqrt_exact(double a) {
    return sqrt(a);
}
DEVICE int nearest_int(float a) {
    return (int)lrintf(a);
}

/* ---- a warp ---- */

DEVICE uint32_t shuffle(uint32_t value, int lane, int line = __builtin_LINE()) {
    return emulated_shuffle(value, lane, line);
}
DEVICE float shuffle(float value, int lane, int line = __builtin_LINE()) {
    return bits_to_float(emulated_shuffle(float_to_bits(value), lane, line));
}
DEVICE uint32_t shuffle_xor(uint32_t value, int mask, int line = __builtin_LINE()) {
    return emulated_shuffle(value, (int)(threadIdx.x % WARP) ^ mask, line);
}
DEVICE float shuffle_xor(float value, int mask, int line = __builtin_LINE()) {
    return bits_to_float(shuffle_xor(float_to_bits(value), mask, line));
}

/* ---- tensor cores ---- */

DEVICE void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2],
                     int line = __builtin_LINE()) {
    emulated_mma(d, a, b, line);
}
DEVICE void load_matrices(uint32_t r[4], const void *row, int line = __builtin_LINE()) {
    emulated_load_matrices(r, row, false, line);
}
DEVICE void load_matrices_transposed(uint32_t r[4], const void *row, int line = __builtin_LINE()) {
    emulated_load_matrices(r, row, true, line);
}

/* ---- copies ---- */

DEVICE void copy_async(void *shared, const void *global, bool valid) {
    emulated_copy(shared, global, valid);
}
DEVICE void copy_commit() {
    emulated_copy_commit();
}
template <int pending> DEVICE void copy_wait() {
    emulated_copy_wait(pending);
}

/* ---- integers: threads run one at a time ---- */

DEVICE void atomic_add(unsigned long long *at, unsigned long long value) {
    *at += value;
}
DEVICE void atomic_add(int *at, int value) {
    *at += value;
}

#endif
