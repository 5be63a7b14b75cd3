/* A block for each token. Its gradient goes to the row of its id: the block of the first token with
 * that id adds all of them, in token order; the blocks of later ones see that they are not first. */
#include "kernels/cuda/device.h"

#include "kernels/cuda/embedding_params.h"
#include "kernels/cuda/runs.h"

template <typename T> DEVICE void forward(const cuda_embedding_params &p) {
    constexpr int width = 16 / sizeof(T);
    int64_t token = blockIdx.x;
    const T *row = static_cast<const T *>(p.table) + p.ids[token] * p.dim;
    const T *position = static_cast<const T *>(p.position_table);
    T *out = static_cast<T *>(p.out) + token * p.dim;
    if (position != nullptr) {
        position += p.positions[token] * p.dim;
    }
    for (int64_t at = (int64_t)threadIdx.x * width; at < p.dim; at += (int64_t)blockDim.x * width) {
        bool whole = p.aligned != 0 && p.dim - at >= width;
        float values[width];
        float added[width];
        load_run<T, width>(row + at, whole, p.dim - at, values);
        if (position != nullptr) {
            load_run<T, width>(position + at, whole, p.dim - at, added);
            for (int i = 0; i < width; i++) {
                values[i] += added[i];
            }
        }
        store_run<T, width>(out + at, whole, p.dim - at, values);
    }
}

/* Whether any thread of the block says so. */
DEVICE bool block_any(bool own, int *shared) {
    if (threadIdx.x == 0) {
        *shared = 0;
    }
    __syncthreads();
    if (own) {
        atomic_add(shared, 1);
    }
    __syncthreads();
    return *shared != 0;
}

/* Gradients of the tokens that `same` marks, a byte for each from `first` on, in their order. */
template <typename T>
DEVICE void add_marked(const cuda_embedding_backward_params &p, const words4 *same, int64_t first,
                       float *row) {
    const unsigned char *marks = reinterpret_cast<const unsigned char *>(same);
    const T *dout = static_cast<const T *>(p.dout);
    for (int i = 0; i < CUDA_EMBEDDING_THREADS; i++) {
        const words4 *word = &same[i / 16];
        if (i % 16 == 0 && (word->word[0] | word->word[1] | word->word[2] | word->word[3]) == 0) {
            i += 15; /* most tokens have another id */
            continue;
        }
        for (int64_t d = threadIdx.x; marks[i] != 0 && d < p.dim; d += blockDim.x) {
            row[d] = add_exact(row[d], to_float(dout[(first + i) * p.dim + d]));
        }
    }
}

template <typename T> DEVICE void backward(const cuda_embedding_backward_params &p) {
    SHARED(int, found, 1);
    SHARED(words4, same, CUDA_EMBEDDING_THREADS / 16);
    int64_t token = blockIdx.x;
    int32_t id = p.ids[token];
    bool earlier = id == p.padding;
    for (int64_t at = threadIdx.x; at < token && !earlier; at += blockDim.x) {
        earlier = p.ids[at] == id;
    }
    if (block_any(earlier, found)) {
        return;
    }
    for (int64_t first = token; first < p.tokens; first += CUDA_EMBEDDING_THREADS) {
        int64_t own = first + threadIdx.x;
        reinterpret_cast<unsigned char *>(same)[threadIdx.x] =
            own < p.tokens && p.ids[own] == id ? 1 : 0;
        __syncthreads();
        add_marked<T>(p, same, first, p.dtable + id * p.dim);
        __syncthreads();
    }
}

BOUNDED_KERNEL(embedding_forward_f32, cuda_embedding_params, CUDA_EMBEDDING_THREADS, 4) {
    forward<float>(p);
}
BOUNDED_KERNEL(embedding_forward_bf16, cuda_embedding_params, CUDA_EMBEDDING_THREADS, 4) {
    forward<bf16>(p);
}
BOUNDED_KERNEL(embedding_backward_f32, cuda_embedding_backward_params, CUDA_EMBEDDING_THREADS, 4) {
    backward<float>(p);
}
BOUNDED_KERNEL(embedding_backward_bf16, cuda_embedding_backward_params, CUDA_EMBEDDING_THREADS, 4) {
    backward<bf16>(p);
}
