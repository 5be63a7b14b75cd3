/* attention_facts: the properties of a query that the attention kernels of all dtypes use: the keys
 * that it sees and the result of its softmax. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_ATTENTION_FACTS_H
#define SKEP_KERNELS_CUDA_DEVICE_ATTENTION_FACTS_H

#include "kernels/cuda/device/attention_params.h"
#include "kernels/cuda/device/device.h"

#define MINUS_INFINITY bits_to_float(0xff800000u)

constexpr float LOG2_E = 1.44269504f;
constexpr float LN_2 = 0.693147181f;

/* The first key that a query sees, from the positions of its row of tokens. Positions count up from
 * the start of each document, so the first key never decreases from one token to the next. */
DEVICE int first_visible_key(const cuda_attention_shape &shape, const int32_t *positions,
                             int token) {
    int depth = positions[token];
    int reach = shape.window - 1;
    depth = depth < reach ? depth : reach;
    return depth < token ? token - depth : 0;
}

/* The first key that a query of a forward kernel sees, whose row of tokens starts at `start`.
 * Over a cache there is a single document. */
DEVICE int first_visible_key_forward(const cuda_attention_forward_params &p, int past,
                                     int64_t start, int token) {
    if (p.positions != nullptr) {
        return first_visible_key(p.shape, p.positions + start, token);
    }
    int position = past + token;
    return position < p.shape.window ? 0 : position - p.shape.window + 1;
}

/* The queries of one head of a row, as the prepare kernel stored them. */
DEVICE const cuda_attention_query *query_row(const cuda_attention_backward_params &p, int row,
                                             int head) {
    return p.queries + ((int64_t)row * p.shape.heads + head) * p.shape.time;
}

/* The number of tiles of queries from `token` on that see a key below `last`. Only the first query
 * of each tile is checked, because it sees the earliest keys. */
template <int QUERIES, int THREADS>
DEVICE int count_tiles_seeing_keys(const cuda_attention_shape &shape, const int32_t *positions,
                                   int token, int last) {
    SHARED(int, count, 1);
    if (threadIdx.x == 0) {
        count[0] = 0;
    }
    __syncthreads();
    int mine = 0;
    for (int t = token + (int)threadIdx.x * QUERIES; t < shape.time; t += THREADS * QUERIES) {
        mine += first_visible_key(shape, positions, t) < last ? 1 : 0;
    }
    if (mine > 0) {
        atomic_add(count, mine);
    }
    __syncthreads();
    return count[0];
}

#endif
