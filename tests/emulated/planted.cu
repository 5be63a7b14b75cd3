/* Kernels that use each word of device.h rightly, and the same with a mistake planted. */
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/element_spans.h"

#include "tests/emulated/planted_params.h"

/* ---- sums over a block ---- */

template <bool waits> DEVICE void block_sum(const planted_params &p) {
    SHARED(float, partial, 32);
    const float *in = static_cast<const float *>(p.in);
    float total = 0;
    for (int64_t i = threadIdx.x; i < p.count; i += blockDim.x) {
        total += in[i];
    }
    total = warp_sum(total);
    if (threadIdx.x % WARP == 0) {
        partial[threadIdx.x / WARP] = total;
    }
    if (waits) {
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        float sum = 0;
        for (unsigned i = 0; i < blockDim.x / WARP; i++) {
            sum += partial[i];
        }
        static_cast<float *>(p.out)[blockIdx.x] = sum;
    }
}
KERNEL(planted_sum, planted_params) {
    block_sum<true>(p);
}
KERNEL(planted_sum_without_barrier, planted_params) {
    block_sum<false>(p);
}

/* Each thread shows its left neighbour what it holds, twice: without the second barrier of a round
 * a fast thread overwrites what a slow one has not read. */
template <bool waits> DEVICE void pass_left(const planted_params &p) {
    SHARED(int, shown, 128);
    int *out = static_cast<int *>(p.out);
    int mine = (int)threadIdx.x;
    for (int round = 0; round < 2; round++) {
        shown[threadIdx.x] = mine;
        __syncthreads();
        mine = shown[(threadIdx.x + 1) % blockDim.x];
        if (waits) {
            __syncthreads();
        }
    }
    out[threadIdx.x] = mine;
}
KERNEL(planted_pass, planted_params) {
    pass_left<true>(p);
}
KERNEL(planted_pass_without_barrier, planted_params) {
    pass_left<false>(p);
}

/* ---- who comes when ---- */

KERNEL(planted_order, planted_params) {
    int *out = static_cast<int *>(p.out);
    atomic_add(&out[0], 1);
    out[out[0]] = (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

KERNEL(planted_place, planted_params) {
    int64_t block = blockIdx.x + gridDim.x * (blockIdx.y + (int64_t)gridDim.y * blockIdx.z);
    static_cast<int *>(p.out)[block * blockDim.x + threadIdx.x] += 1;
}

KERNEL(planted_shuffle, planted_params) {
    uint32_t *out = static_cast<uint32_t *>(p.out);
    uint32_t lane = threadIdx.x % WARP;
    uint32_t first = shuffle(lane * 3, (int)(lane + 5) % WARP);
    uint32_t second = shuffle_xor(first, 9);
    out[threadIdx.x] = first * 1000 + second;
}

KERNEL(planted_lone_shuffle, planted_params) {
    float value = 1;
    if (threadIdx.x % WARP != 7) {
        value = shuffle(value, 0);
    }
    static_cast<float *>(p.out)[threadIdx.x] = value;
}

KERNEL(planted_two_barriers, planted_params) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

/* ---- memory ---- */

KERNEL(planted_static_overrun, planted_params) {
    SHARED(float, few, 8);
    float *at = few;
    at[p.count + threadIdx.x / 32] = 1;
    static_cast<float *>(p.out)[0] = few[0];
}

KERNEL(planted_index_overrun, planted_params) {
    SHARED(float, few, 8);
    few[p.count] = 1;
    static_cast<float *>(p.out)[0] = few[0];
}

KERNEL(planted_store, planted_params) {
    SHARED(words4, few, 1);
    store_words(p.count == 0 ? static_cast<words4 *>(p.out) : few, words4{{1, 2, 3, 4}});
}

KERNEL(planted_dynamic_write, planted_params) {
    DYNAMIC_SHARED(bytes);
    bytes[p.count] = 1;
}

KERNEL(planted_unaligned, planted_params) {
    const words4 *in = reinterpret_cast<const words4 *>(static_cast<const float *>(p.in) + 1);
    static_cast<words4 *>(p.out)[threadIdx.x] = in[threadIdx.x];
}

BOUNDED_KERNEL(planted_bounded, planted_params, 64, 1) {
    static_cast<float *>(p.out)[threadIdx.x] = 1;
}

/* ---- copies beside computation: two groups, waited for one after the other ---- */

template <int pending> DEVICE void copy_twice(const planted_params &p) {
    SHARED(words4, tile, 2 * 32);
    const words4 *in = static_cast<const words4 *>(p.in);
    words4 *out = static_cast<words4 *>(p.out);
    copy_async(&tile[threadIdx.x], &in[threadIdx.x], threadIdx.x < p.count);
    copy_commit();
    copy_async(&tile[32 + threadIdx.x], &in[32 + threadIdx.x], true);
    copy_commit();
    copy_wait<pending>();
    __syncthreads();
    out[31 - threadIdx.x] = tile[31 - threadIdx.x];
    copy_wait<0>();
    __syncthreads();
    out[63 - threadIdx.x] = tile[63 - threadIdx.x];
}
KERNEL(planted_copies, planted_params) {
    copy_twice<1>(p);
}
KERNEL(planted_copies_too_early, planted_params) {
    copy_twice<2>(p);
}

/* ---- one product on tensor cores ---- */

template <bool transposed> DEVICE void product(const planted_product_params &p) {
    SHARED(words4, tiles, 16 * 2 + 8 * 2);
    bf16 *a = reinterpret_cast<bf16 *>(tiles);
    bf16 *b = a + 16 * 16;
    int lane = (int)threadIdx.x;
    for (int i = lane; i < 16 * 16; i += WARP) {
        int at = transposed ? i % 16 * 16 + i / 16 : i;
        a[at] = static_cast<const bf16 *>(p.a)[i];
    }
    for (int i = lane; i < 8 * 16; i += WARP) {
        b[i] = static_cast<const bf16 *>(p.b)[i];
    }
    __syncwarp();
    /* Matrices of 8 x 8 in the order of a's registers: down first, then right. */
    int row = lane % 8 + lane / 8 % 2 * 8;
    int column = lane / 16 * 8;
    int mirrored_row = lane % 8 + lane / 16 * 8;
    int mirrored_column = lane / 8 % 2 * 8;
    uint32_t left[4];
    uint32_t right[4];
    if (transposed) {
        load_matrices_transposed(left, a + mirrored_row * 16 + mirrored_column);
    } else {
        load_matrices(left, a + row * 16 + column);
    }
    load_matrices(right, b + lane % 8 * 16 + lane / 8 % 2 * 8);
    float d[4] = {0, 0, 0, 0};
    mma_bf16(d, left, right);
    float *out = p.d + lane / 4 * 8 + lane % 4 * 2;
    out[0] = d[0];
    out[1] = d[1];
    out[8 * 8] = d[2];
    out[8 * 8 + 1] = d[3];
}
KERNEL(planted_product, planted_product_params) {
    product<false>(p);
}
KERNEL(planted_product_transposed, planted_product_params) {
    product<true>(p);
}

/* ---- numbers ---- */

KERNEL(planted_numbers, planted_params) {
    const float *in = static_cast<const float *>(p.in);
    float *out = static_cast<float *>(p.out);
    float x = in[threadIdx.x];
    uint32_t packed = pack_bf16(x, -x);
    out[0 * 32 + threadIdx.x] = to_float(from_float<bf16>(x));
    out[1 * 32 + threadIdx.x] = low_bf16(packed) + high_bf16(packed);
    out[2 * 32 + threadIdx.x] = exp2_fast(x);
    out[3 * 32 + threadIdx.x] = fma_exact(x, x, sub_exact(1, mul_exact(x, x)));
    out[4 * 32 + threadIdx.x] = sqrt_exact(div_exact(add_exact(x, x), 2));
    out[5 * 32 + threadIdx.x] = (float)nearest_int(x);
}
