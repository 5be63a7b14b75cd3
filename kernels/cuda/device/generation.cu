/* Copies of rows to and from a cache, with one thread per element because a chunk of a prompt is
 * small. */
#include "kernels/cuda/device/device.h"

#include "kernels/cuda/device/generation_params.h"

DEVICE int64_t own_element() {
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* Appends the valid rows to those that the cache holds. */
template <typename T> DEVICE void append(const cuda_generation_params &p) {
    int64_t at = own_element();
    int64_t row = at / p.width;
    int64_t column = at % p.width;
    if (row < p.scalars->token_count && row < p.tokens) {
        int64_t to = (p.scalars->cache_length + row) * p.width + column;
        static_cast<T *>(p.to)[to] = static_cast<const T *>(p.rows)[row * p.stride + column];
    }
}

template <typename T> DEVICE void select(const cuda_generation_params &p) {
    int64_t column = own_element();
    if (column < p.width) {
        int64_t row = p.scalars->token_count - 1;
        static_cast<T *>(p.to)[column] = static_cast<const T *>(p.rows)[row * p.stride + column];
    }
}

KERNEL(cache_append_f32, cuda_generation_params) {
    append<uint32_t>(p);
}
KERNEL(cache_append_bf16, cuda_generation_params) {
    append<uint16_t>(p);
}
KERNEL(select_last_f32, cuda_generation_params) {
    select<uint32_t>(p);
}
KERNEL(select_last_bf16, cuda_generation_params) {
    select<uint16_t>(p);
}
