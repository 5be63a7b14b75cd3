/* device: the language in which the CUDA kernels are written, and the header of all device code.
 *
 * A .cu file includes this header and no header of CUDA. nvcc compiles it for the device. With
 * SKEP_EMULATED, the name of a header that defines the same macros and functions for the CPU, a C++
 * compiler compiles the same file for the CPU, so that tests run kernels on machines without a GPU.
 * A kernel therefore uses only templates, the declarations of this header and, from CUDA,
 * threadIdx, blockIdx, blockDim, gridDim (x, y, z), __syncthreads() and __syncwarp().
 *
 * A kernel must not assume that the threads of a warp run in step (it calls __syncwarp()), that
 * blocks run in a particular order, or that shared memory is zero.
 *
 * kernels/cuda/launch launches the kernels and fills the structs of their arguments, NAME_params.h.
 *
 * public   attention_params.h codec_params.h elementwise_params.h embedding_params.h
 *          generation_params.h head_loss_params.h matmul_params.h norm_params.h
 *          optimizer_params.h outer_params.h partials_params.h wire_sum_params.h */
#ifndef SKEP_KERNELS_CUDA_DEVICE_DEVICE_H
#define SKEP_KERNELS_CUDA_DEVICE_DEVICE_H

#include <stdint.h>

enum { WARP = 32 }; /* threads of a warp */

/* The bits of a bf16. Conversions round to nearest even; NaN gives a quiet NaN. */
struct bf16 {
    uint16_t bits; /* the number's bit pattern */
};
/* The bits of an IEEE half, for casts only. */
struct f16 {
    uint16_t bits;
};

#ifdef SKEP_EMULATED
#include SKEP_EMULATED
#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>

/* Qualifier of a device function, method or specialization. */
#define DEVICE               __device__ __forceinline__

/* KERNEL(name, struct params): declares a kernel whose body reads its arguments from `p`.
 * BOUNDED_KERNEL also states the maximum threads of a block and the minimum blocks that a
 * multiprocessor should hold at once. */
#define KERNEL(name, params) extern "C" __global__ void name(const __grid_constant__ params p)
#define BOUNDED_KERNEL(name, params, threads, blocks)                                              \
    extern "C" __global__ void __launch_bounds__(threads, blocks)                                  \
        name(const __grid_constant__ params p)

/* SHARED: static shared memory of a block. DYNAMIC_SHARED: the bytes that the launch requests,
 * aligned to 128. Both are used inside the body of a kernel or device function. */
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
/* Two bf16 in one register, `low` in the lower half, as matrix instructions require. */
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
/* 2^x with an error of at most 2 ulp, for softmax; 0 for -infinity. */
DEVICE float exp2_fast(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
/* e^x and the natural logarithm with an error of at most 2 ulp, for every f32 value. */
DEVICE float exp_full(float x) {
    return expf(x);
}
DEVICE float log_full(float x) {
    return logf(x);
}
/* Operations that round exactly once and are never fused, for results whose bits must be equal on
 * all machines. */
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
/* Rounds to the nearest integer, ties to even. */
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

/* Load four 8 x 8 matrices of 16-bit elements from shared memory: thread t passes the address of
 * row t % 8 of matrix t / 8 (16 bytes, aligned to 16). PTX's ldmatrix, plain and transposed. */
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

/* ---- asynchronous copies to shared memory ---- */

/* Copy 16 bytes, both addresses aligned to 16; unless `valid`, write zeros and read nothing. */
DEVICE void copy_async(void *shared, const void *global, bool valid) {
    uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
                 "r"(valid ? 16 : 0)
                 : "memory");
}
/* Close the group of copies started since the last group. */
DEVICE void copy_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Wait until all but the newest `pending` groups of this thread have arrived; other threads see
 * them after __syncthreads(). */
template <int pending> DEVICE void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/* ---- atomic additions of integers, whose order does not matter ---- */

DEVICE void atomic_add(unsigned long long *at, unsigned long long value) {
    atomicAdd(at, value);
}
DEVICE void atomic_add(int *at, int value) {
    atomicAdd(at, value);
}

#endif

/* ---- code shared by the device and the emulation ---- */

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
