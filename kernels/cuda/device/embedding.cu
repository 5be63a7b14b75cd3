/* Forward has one block for each token. Backward has one block for each token and group of columns.
 * The blocks of the first token with an id add the gradients of all tokens with this id, in token
 * order, to the row of the id; the blocks of later tokens detect that they are not first and do
 * nothing. */

#include "kernels/cuda/device/element_spans.h"
#include "kernels/cuda/device/embedding_params.h"

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
        load_span<T, width>(row + at, whole, p.dim - at, values);
        if (position != nullptr) {
            load_span<T, width>(position + at, whole, p.dim - at, added);
            for (int i = 0; i < width; i++) {
                values[i] += added[i];
            }
        }
        store_span<T, width>(out + at, whole, p.dim - at, values);
    }
}

/* ---- backward ---- */

enum {
    ADDERS = CUDA_EMBEDDING_BACKWARD_THREADS,
    COMPARED = CUDA_EMBEDDING_IDS_COMPARED,
    CHUNK = ADDERS * COMPARED, /* tokens whose ids a block compares at a time */
    AT_ONCE = 8,               /* gradients that a thread loads before it adds the first */
};

struct search {
    words2 marked[ADDERS];     /* one byte for each of COMPARED tokens: 1 if it matches */
    int counts[ADDERS / WARP]; /* matches found by each warp */
    int found[2];
    int tokens[CHUNK]; /* the matching tokens of a chunk */
};

/* Whether `any` holds for a thread of the block. `turn` alternates from call to call, so that the
 * flag that is reset is one that no thread still reads. */
DEVICE bool block_any(bool own, int *found, int turn) {
    int *any = found + turn % 2;
    if (threadIdx.x == 0) {
        *any = 0;
    }
    __syncthreads();
    if (own) {
        atomic_add(any, 1);
    }
    __syncthreads();
    return *any != 0;
}

/* The mask of a thread's tokens of [first, end) that have this id. */
DEVICE unsigned match(const int32_t *ids, int64_t first, int64_t end, int32_t id) {
    unsigned found = 0;
#pragma unroll
    for (int i = 0; i < COMPARED; i++) {
        int64_t at = first + i * ADDERS + (int)threadIdx.x;
        found |= (at < end && ids[at] == id ? 1u : 0u) << i;
    }
    return found;
}

/* The sum of `own` over the threads before this one, and over all threads. */
DEVICE int sum_before(int own, int *counts, int &all) {
    int lane = (int)threadIdx.x % WARP;
    int warp = (int)threadIdx.x / WARP;
    int sum = own;
    for (int apart = 1; apart < WARP; apart *= 2) {
        int lower = (int)shuffle((uint32_t)sum, lane >= apart ? lane - apart : lane);
        sum += lane >= apart ? lower : 0;
    }
    if (lane == WARP - 1) {
        counts[warp] = sum;
    }
    __syncthreads();
    int before = sum - own;
    all = 0;
    for (int i = 0; i < ADDERS / WARP; i++) {
        before += i < warp ? counts[i] : 0;
        all += counts[i];
    }
    return before;
}

/* List the tokens that match() found, in order, and return their number. */
DEVICE int list_tokens(search &own, unsigned found, int64_t first) {
    unsigned char *bytes = reinterpret_cast<unsigned char *>(own.marked);
#pragma unroll
    for (int i = 0; i < COMPARED; i++) {
        bytes[i * ADDERS + (int)threadIdx.x] = found >> i & 1;
    }
    __syncthreads();
    words2 mine = own.marked[threadIdx.x];
    int count = (int)((mine.word[0] + mine.word[1]) * 0x01010101u >> 24);
    int all;
    int to = sum_before(count, own.counts, all);
#pragma unroll
    for (int i = 0; i < COMPARED; i++) {
        if ((mine.word[i / 4] >> i % 4 * 8 & 1) != 0) {
            own.tokens[to++] = (int)first + (int)threadIdx.x * COMPARED + i;
        }
    }
    __syncthreads();
    return all;
}

/* sums += the thread's columns of the gradients of `count` tokens, in their order. */
template <typename T>
DEVICE void add_tokens(const cuda_embedding_backward_params &p, const int *tokens, int count,
                       int64_t column, bool whole, float sums[CUDA_EMBEDDING_COLUMNS_PER_THREAD]) {
    constexpr int width = CUDA_EMBEDDING_COLUMNS_PER_THREAD;
    const T *dout = static_cast<const T *>(p.dout) + column;
    for (int at = 0; at < count; at += AT_ONCE) {
        float values[AT_ONCE][width];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (at + i < count) {
                load_span<T, width>(dout + tokens[at + i] * p.dim, whole, p.dim - column,
                                    values[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE * width; i++) {
            if (at + i / width < count) {
                sums[i % width] = add_exact(sums[i % width], values[i / width][i % width]);
            }
        }
    }
}

template <typename T> DEVICE void backward(const cuda_embedding_backward_params &p) {
    constexpr int width = CUDA_EMBEDDING_COLUMNS_PER_THREAD;
    SHARED(search, shared, 1);
    search &own = shared[0];
    int64_t token = blockIdx.x;
    int32_t id = p.ids[token];
    if (id == p.padding) {
        return;
    }
    int turn = 0;
    for (int64_t first = 0; first < token; first += CHUNK) {
        if (block_any(match(p.ids, first, token, id) != 0, own.found, turn++)) {
            return;
        }
    }
    int64_t column = ((int64_t)blockIdx.y * ADDERS + threadIdx.x) * width;
    int64_t left = p.dim - column;
    bool whole = p.aligned != 0 && left >= width;
    float *row = p.dtable + id * p.dim + column;
    float sums[width];
    load_span<float, width>(row, whole, left, sums);
    for (int64_t first = token; first < p.tokens; first += CHUNK) {
        unsigned found = match(p.ids, first, p.tokens, id);
        if (block_any(found != 0, own.found, turn++)) {
            int count = list_tokens(own, found, first);
            add_tokens<T>(p, own.tokens, left > 0 ? count : 0, column, whole, sums);
        }
    }
    store_span<float, width>(row, whole, left, sums);
}

BOUNDED_KERNEL(embedding_forward_f32, cuda_embedding_params, CUDA_EMBEDDING_THREADS, 4) {
    forward<float>(p);
}
BOUNDED_KERNEL(embedding_forward_bf16, cuda_embedding_params, CUDA_EMBEDDING_THREADS, 4) {
    forward<bf16>(p);
}
BOUNDED_KERNEL(embedding_backward_f32, cuda_embedding_backward_params,
               CUDA_EMBEDDING_BACKWARD_THREADS, 8) {
    backward<float>(p);
}
BOUNDED_KERNEL(embedding_backward_bf16, cuda_embedding_backward_params,
               CUDA_EMBEDDING_BACKWARD_THREADS, 8) {
    backward<bf16>(p);
}
