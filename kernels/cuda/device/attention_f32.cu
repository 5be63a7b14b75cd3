/* Attention of f32 tensors, forward and backward, without tensor cores, which do not support full
 * f32 accuracy. Tiles are square, of T tokens. There are 16 x 16 threads; thread (y, x) has the
 * rows y + 16 i and the columns x + 16 j of each product, so that a row's threads are one half of a
 * warp.
 *
 * Backward as in attention_backward.cu: one kernel sums dk and dv, one dq. */
#include "kernels/cuda/device/attention_facts.h"

enum { SIDE = ATTENTION_F32_SIDE, THREADS = SIDE * SIDE };

/* One element more than a row has, so that 16 rows at the same column are in 16 different banks. */
template <int DIM> constexpr int PITCH = DIM + 1;

DEVICE int row_of_thread() {
    return (int)threadIdx.x / SIDE;
}
DEVICE int column_of_thread() {
    return (int)threadIdx.x % SIDE;
}

/* ---- tiles and products ---- */

template <int DIM, int T>
DEVICE void load_tile(float *tile, const float *base, int64_t stride, int valid, int head_dim) {
    for (int at = (int)threadIdx.x; at < T * DIM; at += THREADS) {
        int row = at / DIM;
        int d = at % DIM;
        bool exists = row < valid && d < head_dim;
        tile[row * PITCH<DIM> + d] = exists ? base[row * stride + d] : 0.0f;
    }
}

/* products = a b^T over DIM. */
template <int DIM, int R>
DEVICE void product_of_rows(float (&products)[R][R], const float *a, const float *b) {
    const float *left = a + row_of_thread() * PITCH<DIM>;
    const float *right = b + column_of_thread() * PITCH<DIM>;
    for (int i = 0; i < R * R; i++) {
        products[i / R][i % R] = 0.0f;
    }
    for (int d = 0; d < DIM; d++) {
        for (int i = 0; i < R * R; i++) {
            products[i / R][i % R] +=
                left[i / R * SIDE * PITCH<DIM> + d] * right[i % R * SIDE * PITCH<DIM> + d];
        }
    }
}

/* Pass a product through shared memory to add_product, to the threads of the same rows. */
template <int R> DEVICE void share(float *weights, const float (&products)[R][R]) {
    __syncwarp();
    for (int i = 0; i < R * R; i++) {
        weights[(row_of_thread() + i / R * SIDE) * PITCH<R * SIDE> + column_of_thread() +
                i % R * SIDE] = products[i / R][i % R];
    }
    __syncwarp();
}

/* sums += weights b */
template <int DIM, int R>
DEVICE void add_product(float (&sums)[R][DIM / SIDE], const float *weights, const float *b) {
    for (int j = 0; j < R * SIDE; j++) {
        float left[R];
        for (int i = 0; i < R; i++) {
            left[i] = weights[(row_of_thread() + i * SIDE) * PITCH<R * SIDE> + j];
        }
        for (int n = 0; n < DIM / SIDE; n++) {
            float right = b[j * PITCH<DIM> + column_of_thread() + n * SIDE];
            for (int i = 0; i < R; i++) {
                sums[i][n] += left[i] * right;
            }
        }
    }
}

template <int R, int N> DEVICE void clear_sums(float (&sums)[R][N]) {
    for (int i = 0; i < R * N; i++) {
        sums[i / N][i % N] = 0.0f;
    }
}

template <int DIM, int R>
DEVICE void store_rows(float *base, int64_t stride, int valid, int head_dim,
                       const float (&sums)[R][DIM / SIDE], const float (&factors)[R]) {
    for (int i = 0; i < R; i++) {
        int row = row_of_thread() + i * SIDE;
        for (int n = 0; n < DIM / SIDE; n++) {
            int d = column_of_thread() + n * SIDE;
            if (row < valid && d < head_dim) {
                base[row * stride + d] = sums[i][n] * factors[i];
            }
        }
    }
}

DEVICE float max_of_row(float value) {
    for (int mask = SIDE / 2; mask > 0; mask /= 2) {
        value = fmaxf(value, shuffle_xor(value, mask));
    }
    return value;
}
DEVICE float sum_of_row(float value) {
    for (int mask = SIDE / 2; mask > 0; mask /= 2) {
        value += shuffle_xor(value, mask);
    }
    return value;
}

/* ---- forward ---- */

template <int R> struct softmax_state {
    float maxima[R], sums[R];
    int first[R], last[R]; /* the keys that the rows see */
};

/* Turns scores into probabilities relative to the new maxima, and rescales the sums so far. */
template <int DIM, int R>
DEVICE void softmax_step(float (&scores)[R][R], softmax_state<R> &state,
                         float (&outs)[R][DIM / SIDE], int key, float scale) {
    for (int i = 0; i < R; i++) {
        float maximum = state.maxima[i];
        for (int j = 0; j < R; j++) {
            int column = key + column_of_thread() + j * SIDE;
            bool visible = column >= state.first[i] && column <= state.last[i];
            scores[i][j] = visible ? scores[i][j] * scale : MINUS_INFINITY;
            maximum = fmaxf(maximum, scores[i][j]);
        }
        maximum = max_of_row(maximum);
        /* A row that has seen no key yet has no maximum to subtract. */
        float base = maximum == MINUS_INFINITY ? 0.0f : maximum;
        float factor = exp_full(state.maxima[i] - base);
        float sum = 0.0f;
        for (int j = 0; j < R; j++) {
            scores[i][j] = exp_full(scores[i][j] - base);
            sum += scores[i][j];
        }
        state.maxima[i] = maximum;
        state.sums[i] = state.sums[i] * factor + sum;
        for (int n = 0; n < DIM / SIDE; n++) {
            outs[i][n] *= factor;
        }
    }
}

template <int DIM, int T> DEVICE void forward(const cuda_attention_forward_params &p) {
    constexpr int R = T / SIDE;
    DYNAMIC_SHARED(memory);
    float *queries = reinterpret_cast<float *>(memory);
    float *others = queries + T * PITCH<DIM>; /* holds keys, then values */
    float *weights = others + T * PITCH<DIM>;
    const cuda_attention_shape &shape = p.shape;
    const int row = (int)blockIdx.x / shape.heads;
    const int head = (int)blockIdx.x % shape.heads;
    const int token = (int)(gridDim.y - 1 - blockIdx.y) * T;
    const int tokens = shape.time - token < T ? shape.time - token : T;
    const int64_t start = (int64_t)row * shape.time;
    const int64_t kv_start =
        start * shape.kv_stride + head / (shape.heads / shape.kv_heads) * shape.head_dim;
    const float *k = static_cast<const float *>(p.k) + kv_start;
    const float *v = static_cast<const float *>(p.v) + kv_start;
    const int past = p.positions != nullptr ? 0 : p.scalars->cache_length;
    int new_keys = shape.time;
    if (p.positions == nullptr && p.scalars->token_count < new_keys) {
        new_keys = p.scalars->token_count;
    }
    const int key_end = past + (token + tokens < new_keys ? token + tokens : new_keys);

    load_tile<DIM, T>(queries,
                      static_cast<const float *>(p.q) + (start + token) * shape.q_stride +
                          head * shape.head_dim,
                      shape.q_stride, tokens, shape.head_dim);
    softmax_state<R> state;
    float outs[R][DIM / SIDE];
    clear_sums(outs);
    for (int i = 0; i < R; i++) {
        int own = token + row_of_thread() + i * SIDE;
        own = own < shape.time ? own : shape.time - 1;
        state.maxima[i] = MINUS_INFINITY;
        state.sums[i] = 0.0f;
        state.first[i] = first_visible_key_forward(p, past, start, own);
        state.last[i] = past + own;
    }
    int key = token < new_keys ? first_visible_key_forward(p, past, start, token) / T * T : key_end;
    for (; key < key_end; key += T) {
        float scores[R][R];
        __syncthreads();
        load_tile<DIM, T>(others, k + key * shape.kv_stride, shape.kv_stride, key_end - key,
                          shape.head_dim);
        __syncthreads();
        product_of_rows<DIM, R>(scores, queries, others);
        softmax_step<DIM, R>(scores, state, outs, key, shape.scale);
        share<R>(weights, scores);
        __syncthreads();
        load_tile<DIM, T>(others, v + key * shape.kv_stride, shape.kv_stride, key_end - key,
                          shape.head_dim);
        __syncthreads();
        add_product<DIM, R>(outs, weights, others);
    }
    float factors[R];
    for (int i = 0; i < R; i++) {
        int at = row_of_thread() + i * SIDE;
        float sum = sum_of_row(state.sums[i]);
        factors[i] = sum > 0.0f ? div_exact(1.0f, sum) : 0.0f;
        if (p.lse != nullptr && at < tokens && column_of_thread() == 0) {
            p.lse[((int64_t)row * shape.heads + head) * shape.time + token + at] =
                state.maxima[i] + log_full(sum);
        }
    }
    store_rows<DIM, R>(static_cast<float *>(p.out) + (start + token) * shape.out_stride +
                           head * shape.head_dim,
                       shape.out_stride, tokens, shape.head_dim, outs, factors);
}

#define FORWARD(dim, rows)                                                                         \
    BOUNDED_KERNEL(attention_f32_forward_##dim, cuda_attention_forward_params, THREADS, 1) {       \
        forward<dim, rows>(p);                                                                     \
    }
ATTENTION_F32_TILES(FORWARD)

/* ---- backward ---- */

/* A probability from a score. Rounding could make it exceed 1, which huge logits would magnify. */
DEVICE float probability(float score, float scale, const cuda_attention_query &query, int key) {
    bool visible = key >= query.first && key <= query.token;
    return visible ? exp_full(fminf(fma_exact(score, scale, -query.lse), 0.0f)) : 0.0f;
}

template <int DIM, int T> DEVICE void query_gradient(const cuda_attention_backward_params &p) {
    constexpr int R = T / SIDE;
    DYNAMIC_SHARED(memory);
    float *queries = reinterpret_cast<float *>(memory);
    float *douts = queries + T * PITCH<DIM>;
    float *keys = douts + T * PITCH<DIM>;
    float *values = keys + T * PITCH<DIM>;
    float *weights = values + T * PITCH<DIM>;
    const cuda_attention_shape &shape = p.shape;
    const int dim = shape.head_dim;
    const int row = (int)blockIdx.x / shape.heads;
    const int head = (int)blockIdx.x % shape.heads;
    const int token = (int)(gridDim.y - 1 - blockIdx.y) * T;
    const int tokens = shape.time - token < T ? shape.time - token : T;
    const int64_t start = (int64_t)row * shape.time;
    const int64_t kv_start = start * shape.kv_stride + head / (shape.heads / shape.kv_heads) * dim;
    const int64_t q_start = (start + token) * shape.q_stride + head * dim;
    const int64_t out_start = (start + token) * shape.out_stride + head * dim;
    load_tile<DIM, T>(queries, static_cast<const float *>(p.q) + q_start, shape.q_stride, tokens,
                      dim);
    load_tile<DIM, T>(douts, static_cast<const float *>(p.dout) + out_start, shape.out_stride,
                      tokens, dim);
    cuda_attention_query facts[R];
    float sums[R][DIM / SIDE];
    float factors[R];
    clear_sums(sums);
    for (int i = 0; i < R; i++) {
        int own = row_of_thread() + i * SIDE;
        facts[i] = query_row(p, row, head)[token + (own < tokens ? own : tokens - 1)];
        factors[i] = shape.scale;
    }
    int key = first_visible_key(shape, p.positions + start, token) / T * T;
    for (; key < token + tokens; key += T) {
        float scores[R][R];
        float slopes[R][R];
        int64_t at = kv_start + key * shape.kv_stride;
        __syncthreads();
        load_tile<DIM, T>(keys, static_cast<const float *>(p.k) + at, shape.kv_stride,
                          shape.time - key, dim);
        load_tile<DIM, T>(values, static_cast<const float *>(p.v) + at, shape.kv_stride,
                          shape.time - key, dim);
        __syncthreads();
        product_of_rows<DIM, R>(scores, queries, keys);
        product_of_rows<DIM, R>(slopes, douts, values);
        for (int i = 0; i < R * R; i++) {
            const cuda_attention_query &query = facts[i / R];
            scores[i / R][i % R] = probability(scores[i / R][i % R], shape.scale, query,
                                               key + column_of_thread() + i % R * SIDE) *
                                   (slopes[i / R][i % R] - query.delta);
        }
        share<R>(weights, scores);
        add_product<DIM, R>(sums, weights, keys);
    }
    store_rows<DIM, R>(static_cast<float *>(p.dq) + q_start, shape.q_stride, tokens, dim, sums,
                       factors);
}

/* Turns the scores of keys from `key` on and queries from `token` on into probabilities, and dP
 * into their gradients. */
template <int R>
DEVICE void column_slopes(const cuda_attention_backward_params &p, int row, int head, int key,
                          int token, float (&scores)[R][R], float (&slopes)[R][R]) {
    for (int i = 0; i < R * R; i++) {
        int own = token + column_of_thread() + i % R * SIDE;
        /* Queries beyond the last one have q and dout 0 and see no key. */
        cuda_attention_query query = {0.0f, 0.0f, INT32_MAX, own};
        if (own < p.shape.time) {
            query = query_row(p, row, head)[own];
        }
        float &score = scores[i / R][i % R];
        score = probability(score, p.shape.scale, query, key + row_of_thread() + i / R * SIDE);
        slopes[i / R][i % R] = score * (slopes[i / R][i % R] - query.delta);
    }
}

template <int DIM, int T> DEVICE void key_gradient(const cuda_attention_backward_params &p) {
    constexpr int R = T / SIDE;
    DYNAMIC_SHARED(memory);
    float *keys = reinterpret_cast<float *>(memory);
    float *values = keys + T * PITCH<DIM>;
    float *queries = values + T * PITCH<DIM>;
    float *douts = queries + T * PITCH<DIM>;
    float *weights = douts + T * PITCH<DIM>;
    const cuda_attention_shape &shape = p.shape;
    const int dim = shape.head_dim;
    const int row = (int)blockIdx.x / shape.kv_heads;
    const int kv_head = (int)blockIdx.x % shape.kv_heads;
    const int group = shape.heads / shape.kv_heads;
    const int key = (int)blockIdx.y * T;
    const int count = shape.time - key < T ? shape.time - key : T;
    const int64_t start = (int64_t)row * shape.time;
    const int64_t kv_start = (start + key) * shape.kv_stride + kv_head * dim;
    const int last =
        key + T * count_tiles_seeing_keys<T, THREADS>(shape, p.positions + start, key, key + count);
    load_tile<DIM, T>(keys, static_cast<const float *>(p.k) + kv_start, shape.kv_stride, count,
                      dim);
    load_tile<DIM, T>(values, static_cast<const float *>(p.v) + kv_start, shape.kv_stride, count,
                      dim);
    float dkeys[R][DIM / SIDE];
    float dvalues[R][DIM / SIDE];
    clear_sums(dkeys);
    clear_sums(dvalues);
    for (int head = kv_head * group; head < (kv_head + 1) * group; head++) {
        for (int token = key; token < last; token += T) {
            float scores[R][R];
            float slopes[R][R];
            __syncthreads();
            load_tile<DIM, T>(queries,
                              static_cast<const float *>(p.q) + (start + token) * shape.q_stride +
                                  head * dim,
                              shape.q_stride, shape.time - token, dim);
            load_tile<DIM, T>(douts,
                              static_cast<const float *>(p.dout) +
                                  (start + token) * shape.out_stride + head * dim,
                              shape.out_stride, shape.time - token, dim);
            __syncthreads();
            product_of_rows<DIM, R>(scores, keys, queries);
            product_of_rows<DIM, R>(slopes, values, douts);
            column_slopes<R>(p, row, head, key, token, scores, slopes);
            share<R>(weights, scores);
            add_product<DIM, R>(dvalues, weights, douts);
            share<R>(weights, slopes);
            add_product<DIM, R>(dkeys, weights, queries);
        }
    }
    float factors[R];
    float ones[R];
    for (int i = 0; i < R; i++) {
        factors[i] = shape.scale;
        ones[i] = 1.0f;
    }
    store_rows<DIM, R>(static_cast<float *>(p.dk) + kv_start, shape.kv_stride, count, dim, dkeys,
                       factors);
    store_rows<DIM, R>(static_cast<float *>(p.dv) + kv_start, shape.kv_stride, count, dim, dvalues,
                       ones);
}

#define BACKWARD(dim, rows)                                                                        \
    BOUNDED_KERNEL(attention_f32_query_gradient_##dim, cuda_attention_backward_params, THREADS,    \
                   1) {                                                                            \
        query_gradient<dim, rows>(p);                                                              \
    }                                                                                              \
    BOUNDED_KERNEL(attention_f32_key_gradient_##dim, cuda_attention_backward_params, THREADS, 1) { \
        key_gradient<dim, rows>(p);                                                                \
    }
ATTENTION_F32_TILES(BACKWARD)
