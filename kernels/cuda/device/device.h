/* device: the words in which the CUDA kernels are written.
 *
 * A .cu file includes this and nothing of CUDA's. nvcc compiles it for the device; a C++ compiler
 * with SKEP_EMULATED, the name of a header that gives these words another meaning, compiles the
 * very same file for the processor, so that kernels meet the harness on machines without a GPU. So
 * a kernel uses only what stands here and, of CUDA itself: threadIdx, blockIdx, blockDim, gridDim
 * (x, y, z), __syncthreads(), __syncwarp(), and templates.
 *
 * What may not be assumed: that threads of a warp run in step (say __syncwarp()); any order of
 * blocks; that shared memory is zero. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_DEVICE_H
#define SKEP_KERNELS_CUDA_DEVICE_DEVICE_H

#include <stdint.h>

enum { WARP = 32 };

/* bf16 by its bits; rounding to nearest even, NaN stays a quiet NaN. */
struct bf16 {
    uint16_t bits;
};
/* IEEE half precision the same way, for casts. */
struct f16 {
    uint16_t bits;
};

#ifdef SKEP_EMULATED
#include SKEP_EMULATED
#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>

/* Before a device function, a method or a specialization. */
#define DEVICE               __device__ __forceinline__

/* KERNEL(name, struct params): the head of a kernel; its body sees `p`. BOUNDED_KERNEL says the
 * most threads of a block, and how many blocks a multiprocessor should hold at once. */
#define KERNEL(name, params) extern "C" __global__ void name(const __grid_constant__ params p)
#define BOUNDED_KERNEL(name, params, threads, blocks)                                              \
    extern "C" __global__ void __launch_bounds__(threads, blocks)                                  \
        name(const __grid_constant__ params p)

/* SHARED: static shared memory of a block. DYNAMIC_SHARED: the bytes that the launch asks for,
 * aligned to 128. Both inside a kernel's or a device function's body. */
#define SHARED(type, name, count) __shared__ type name[count]
#define DYNAMIC_SHARED(name)      extern __shared__ __align__(128) unsigned char name[]

/* ---- numbers ---- */

DEVICE float to_float(float value) {
    return value;
}
DEVICE float to_float(bf16 value) {
    return __uint_as_float((unsigned)value.bits << 16);
}
DEVICE float to_float(f16 value) {
    return __half2float(__ushort_as_half(value.bits));
}
template <typename T> DEVICE T from_float(float value);
template <> DEVICE float from_float<float>(float value) {
    return value;
}
template <> DEVICE bf16 from_float<bf16>(float value) {
    return bf16{__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}
template <> DEVICE f16 from_float<f16>(float value) {
    return f16{__half_as_ushort(__float2half_rn(value))};
}
/* Two bf16 in one register, `low` in the lower half, as matrix instructions want them. */
DEVICE uint32_t pack_bf16(float low, float high) {
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}
DEVICE float low_bf16(uint32_t packed) {
    return __uint_as_float(packed << 16);
}
DEVICE float high_bf16(uint32_t packed) {
    return __uint_as_float(packed & 0xffff0000u);
}
DEVICE float bits_to_float(uint32_t bits) {
    return __uint_as_float(bits);
}
DEVICE uint32_t float_to_bits(float value) {
    return __float_as_uint(value);
}
/* 2^x to 2 ulp, for softmax: 0 for -infinity. */
DEVICE float exp2_fast(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
/* e^x and the natural logarithm to 2 ulp, over all of f32. */
DEVICE float exp_full(float x) {
    return expf(x);
}
DEVICE float log_full(float x) {
    return logf(x);
}
/* One rounding each, never fused: where bits must be those of other machines. */
DEVICE float mul_exact(float a, float b) {
    return __fmul_rn(a, b);
}
DEVICE float add_exact(float a, float b) {
    return __fadd_rn(a, b);
}
DEVICE float sub_exact(float a, float b) {
    return __fsub_rn(a, b);
}
DEVICE float div_exact(float a, float b) {
    return __fdiv_rn(a, b);
}
DEVICE float fma_exact(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
DEVICE float sqrt_exact(float a) {
    return __fsqrt_rn(a);
}
DEVICE double sqrt_exact(double a) {
    return __dsqrt_rn(a);
}
/* To the nearest integer, ties to even. */
DEVICE int nearest_int(float a) {
    return __float2int_rn(a);
}

/* ---- a warp ---- all 32 threads take part */

DEVICE float shuffle_xor(float value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
DEVICE uint32_t shuffle_xor(uint32_t value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}
DEVICE float shuffle(float value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}
DEVICE uint32_t shuffle(uint32_t value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}

/* ---- tensor cores ---- */

/* d += a b for one 16 x 8 x 16 tile of bf16 with f32 sums, over a warp, in the layout of PTX's
 * mma.m16n8k16: a row-major in 4 registers, b column-major in 2, d in 4. */
DEVICE void mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four 8 x 8 matrices of 16-bit elements out of shared memory: thread t gives the address of row
 * t % 8 of matrix t / 8 (16 bytes, aligned to 16); PTX's ldmatrix, plain and transposed. */
DEVICE void load_matrices(uint32_t r[4], const void *row) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
DEVICE void load_matrices_transposed(uint32_t r[4], const void *row) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/* ---- copies into shared memory that run beside computation ---- */

/* 16 bytes, both ends aligned to 16; where not `valid`, zeros are written and nothing is read. */
DEVICE void copy_async(void *shared, const void *global, bool valid) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
                 "r"(valid ? 16 : 0)
                 : "memory");
}
/* Close the group of copies begun since the last one. */
DEVICE void copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Until all but the newest `pending` groups of this thread have come; others see them after
 * __syncthreads(). */
template <int pending> DEVICE void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/* ---- integers added by many threads: the order does not matter ---- */

DEVICE void atomic_add(unsigned long long *at, unsigned long long value) {
    atomicAdd(at, value);
}
DEVICE void atomic_add(int *at, int value) {
    atomicAdd(at, value);
}

#endif

/* ---- what both have ---- */

struct alignas(16) words4 {
    uint32_t word[4];
};

DEVICE float warp_sum(float value) {
    for (int mask = WARP / 2; mask > 0; mask /= 2) {
        value += shuffle_xor(value, mask);
    }
    return value;
}
DEVICE float warp_max(float value) {
    for (int mask = WARP / 2; mask > 0; mask /= 2) {
        float other = shuffle_xor(value, mask);
        value = other > value ? other : value;
    }
    return value;
}

#endif
