/* Attention backward on tensor cores. Probabilities are made again from lse, and no sum is shared
 * between blocks, so every run gives the same bits:
 *
 *   prepare        delta = dout . out, beside lse and the first key seen, of each query
 *   key gradient   a block holds a tile of keys and passes over the queries that see it, of all
 *                  heads of the group: S^T = k q^T, dP^T = v dout^T, dv += P^T dout, dk += dS^T q
 *   query gradient a block holds a tile of queries: S = q k^T, dP = dout v^T, dq += dS k
 *
 * with P = 2^(scale S - lse) and dS = P (dP - delta); dq and dk are scaled as they are stored. Two
 * of seven products are made a second time. One kernel with five would have to add to dq from
 * many blocks: in memory in a fixed order (blocks waiting for one another), or in one copy of dq
 * for each tile of keys, which grows with the square of time.
 *
 * Streamed tiles have two stages: one comes while the other one is used. */
#include "kernels/cuda/attention_tile.h"

enum { STAGES = ATTENTION_STAGES };

/* ---- queries ---- */

DEVICE float dot_chunk(const float *a, const float *b, int count, bool vector) {
    (void)vector;
    float sum = 0.0f;
    for (int i = 0; i < count && i < CHUNK; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}
DEVICE float dot_chunk(const bf16 *a, const bf16 *b, int count, bool vector) {
    words4 left = vector ? *reinterpret_cast<const words4 *>(a) : gather_chunk(a, count);
    words4 right = vector ? *reinterpret_cast<const words4 *>(b) : gather_chunk(b, count);
    float sum = 0.0f;
    UNROLL
    for (int i = 0; i < 4; i++) {
        sum += low_bf16(left.word[i]) * low_bf16(right.word[i]);
        sum += high_bf16(left.word[i]) * high_bf16(right.word[i]);
    }
    return sum;
}

template <typename T> DEVICE void prepare(const cuda_attention_prepare_params &p) {
    constexpr int LANES = ATTENTION_PREPARE_LANES;
    int64_t at = (int64_t)blockIdx.x * (ATTENTION_PREPARE_THREADS / LANES) + threadIdx.x / LANES;
    int lane = (int)threadIdx.x % LANES;
    int64_t token = at / p.shape.heads; /* of all rows */
    int64_t head = at % p.shape.heads;
    float sum = 0.0f;
    if (at < p.count) {
        int64_t start = token * p.shape.out_stride + head * p.shape.head_dim;
        for (int d = lane * CHUNK; d < p.shape.head_dim; d += LANES * CHUNK) {
            sum += dot_chunk(static_cast<const T *>(p.out) + start + d,
                             static_cast<const T *>(p.dout) + start + d, p.shape.head_dim - d,
                             p.shape.vector != 0);
        }
    }
    for (int mask = LANES / 2; mask > 0; mask /= 2) {
        sum += shuffle_xor(sum, mask);
    }
    if (at < p.count && lane == 0) {
        int64_t row = token / p.shape.time;
        int own = (int)(token % p.shape.time);
        int64_t to = (row * p.shape.heads + head) * p.shape.time + own;
        int first = first_seen(p.shape, p.positions + row * p.shape.time, own);
        p.queries[to] = cuda_attention_query{p.lse[to] * p.lse_factor, sum, first, own};
    }
}

BOUNDED_KERNEL(attention_prepare_bf16, cuda_attention_prepare_params, ATTENTION_PREPARE_THREADS,
               1) {
    prepare<bf16>(p);
}
BOUNDED_KERNEL(attention_prepare_f32, cuda_attention_prepare_params, ATTENTION_PREPARE_THREADS, 1) {
    prepare<float>(p);
}

/* ---- dq ---- */

/* A probability out of a score: above 1 only by rounding, which huge logits would magnify. */
DEVICE float probability(float score, float scale, float lse) {
    return exp2_fast(fminf(score * scale - lse, 0.0f));
}

/* Scores become probabilities; those of pairs that do not see each other 0. */
template <int ROW_TILES, int BLOCKS>
DEVICE void row_probabilities(float (&scores)[ROW_TILES][BLOCKS][4],
                              const cuda_attention_query (&facts)[ROW_TILES][2], float scale,
                              int key, bool masked) {
    int column = key + (int)threadIdx.x % 4 * 2;
    UNROLL
    for (int r = 0; r < ROW_TILES; r++) {
        UNROLL
        for (int i = 0; i < BLOCKS * 4; i++) {
            const cuda_attention_query &row = facts[r][i / 2 % 2];
            int at = column + i / 4 * 8 + i % 2;
            bool seen = !masked || (at >= row.first && at <= row.token);
            float &score = scores[r][i / 4][i % 4];
            score = seen ? probability(score, scale, row.lse) : 0.0f;
        }
    }
}

template <int DIM, int ROW_TILES, int WARPS, int KEYS>
DEVICE void query_gradient(const cuda_attention_backward_params &p) {
    constexpr int ROWS = ATTENTION_BLOCK_ROWS(ROW_TILES, WARPS);
    constexpr int THREADS = WARPS * WARP;
    constexpr int BLOCKS = KEYS / 8;
    DYNAMIC_SHARED(memory);
    bf16 *queries = reinterpret_cast<bf16 *>(memory);
    bf16 *douts = queries + ROWS * ATTENTION_PITCH(DIM);
    bf16 *keys = douts + ROWS * ATTENTION_PITCH(DIM);
    bf16 *values = keys + STAGES * KEYS * ATTENTION_PITCH(DIM);
    const cuda_attention_shape &shape = p.shape;
    const int row = (int)blockIdx.x / shape.heads;
    const int head = (int)blockIdx.x % shape.heads;
    const int token = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    const int tokens = shape.time - token < ROWS ? shape.time - token : ROWS;
    const int warp_row = (int)threadIdx.x / WARP * ROW_TILES * 16;
    const int64_t start = (int64_t)row * shape.time;
    const int64_t kv_start =
        start * shape.kv_stride + head / (shape.heads / shape.kv_heads) * shape.head_dim;
    const int64_t q_start = (start + token) * shape.q_stride + head * shape.head_dim;
    const int64_t out_start = (start + token) * shape.out_stride + head * shape.head_dim;
    bf16 *k = static_cast<bf16 *>(const_cast<void *>(p.k)) + kv_start;
    bf16 *v = static_cast<bf16 *>(const_cast<void *>(p.v)) + kv_start;
    bf16 *q = static_cast<bf16 *>(const_cast<void *>(p.q)) + q_start;
    bf16 *dout = static_cast<bf16 *>(const_cast<void *>(p.dout)) + out_start;

    const int32_t *positions = p.positions + start;
    const int seen_by_all = first_seen(shape, positions, token + tokens - 1);
    int key = first_seen(shape, positions, token) / KEYS * KEYS;
    load_tile<DIM, ROWS, THREADS>(queries, token_rows{q, shape.q_stride}, tokens, shape);
    load_tile<DIM, ROWS, THREADS>(douts, token_rows{dout, shape.out_stride}, tokens, shape);
    load_tile<DIM, KEYS, THREADS>(keys, token_rows{k + key * shape.kv_stride, shape.kv_stride},
                                  shape.time - key, shape);
    load_tile<DIM, KEYS, THREADS>(values, token_rows{v + key * shape.kv_stride, shape.kv_stride},
                                  shape.time - key, shape);
    copy_commit();
    cuda_attention_query facts[ROW_TILES][2];
    float sums[ROW_TILES][DIM / 8][4];
    UNROLL
    for (int i = 0; i < ROW_TILES * 2; i++) {
        int at = warp_row + i * 8 + (int)threadIdx.x % WARP / 4;
        facts[i / 2][i % 2] = queries_of(p, row, head)[token + (at < tokens ? at : tokens - 1)];
        clear(sums[i / 2]);
    }
    for (int stage = 0; key < token + tokens; key += KEYS, stage ^= 1) {
        const bf16 *keys_now = keys + stage * KEYS * ATTENTION_PITCH(DIM);
        const bf16 *values_now = values + stage * KEYS * ATTENTION_PITCH(DIM);
        copy_wait<0>();
        __syncthreads();
        int next = key + KEYS;
        if (next < token + tokens) {
            int other = (stage ^ 1) * KEYS * ATTENTION_PITCH(DIM);
            load_tile<DIM, KEYS, THREADS>(keys + other,
                                          token_rows{k + next * shape.kv_stride, shape.kv_stride},
                                          shape.time - next, shape);
            load_tile<DIM, KEYS, THREADS>(values + other,
                                          token_rows{v + next * shape.kv_stride, shape.kv_stride},
                                          shape.time - next, shape);
        }
        copy_commit();
        float scores[ROW_TILES][BLOCKS][4];
        float slopes[ROW_TILES][BLOCKS][4];
        product_of_rows<DIM, ROW_TILES, BLOCKS>(scores, queries, warp_row, keys_now);
        row_probabilities<ROW_TILES, BLOCKS>(scores, facts, shape.scale * LOG2_E, key,
                                             key + KEYS - 1 > token || key < seen_by_all);
        product_of_rows<DIM, ROW_TILES, BLOCKS>(slopes, douts, warp_row, values_now);
        UNROLL
        for (int i = 0; i < ROW_TILES * BLOCKS * 4; i++) {
            int r = i / (BLOCKS * 4);
            float &score = scores[r][i / 4 % BLOCKS][i % 4];
            score *= slopes[r][i / 4 % BLOCKS][i % 4] - facts[r][i / 2 % 2].delta;
        }
        add_product<DIM, ROW_TILES, BLOCKS>(sums, scores, keys_now);
    }
    copy_wait<0>();
    float factors[ROW_TILES][2];
    UNROLL
    for (int r = 0; r < ROW_TILES; r++) {
        factors[r][0] = factors[r][1] = shape.scale;
    }
    round_rows<DIM, ROW_TILES>(queries, warp_row, sums, factors);
    store_rows<DIM, ROW_TILES>(token_rows{static_cast<bf16 *>(p.dq) + q_start, shape.q_stride},
                               queries, warp_row, tokens, shape);
}

#define QUERY_GRADIENT(dim, row_tiles, warps, keys)                                                \
    BOUNDED_KERNEL(attention_query_gradient_##dim, cuda_attention_backward_params, warps *WARP,    \
                   1) {                                                                            \
        query_gradient<dim, row_tiles, warps, keys>(p);                                            \
    }
ATTENTION_QUERY_GRADIENT_TILES(QUERY_GRADIENT)

/* ---- dk and dv ---- */

/* As row_probabilities, of S^T: rows are keys, columns are queries. */
template <int ROW_TILES, int BLOCKS>
DEVICE void column_probabilities(float (&scores)[ROW_TILES][BLOCKS][4],
                                 const cuda_attention_query *facts, float scale, int key, int token,
                                 bool masked) {
    int lane = (int)threadIdx.x % WARP;
    UNROLL
    for (int c = 0; c < BLOCKS * 2; c++) {
        int at = c / 2 * 8 + lane % 4 * 2 + c % 2;
        float lse = facts[at].lse;
        int first = masked ? facts[at].first : 0;
        UNROLL
        for (int i = 0; i < ROW_TILES * 2; i++) {
            int own = key + i * 8 + lane / 4;
            bool seen = !masked || (own >= first && own <= token + at);
            float &score = scores[i / 2][c / 2][i % 2 * 2 + c % 2];
            score = seen ? probability(score, scale, lse) : 0.0f;
        }
    }
}

template <int ROW_TILES, int BLOCKS>
DEVICE void column_slopes(float (&scores)[ROW_TILES][BLOCKS][4],
                          const float (&slopes)[ROW_TILES][BLOCKS][4],
                          const cuda_attention_query *facts) {
    UNROLL
    for (int c = 0; c < BLOCKS * 2; c++) {
        float delta = facts[c / 2 * 8 + (int)threadIdx.x % 4 * 2 + c % 2].delta;
        UNROLL
        for (int i = 0; i < ROW_TILES * 2; i++) {
            int at = i % 2 * 2 + c % 2;
            scores[i / 2][c / 2][at] *= slopes[i / 2][c / 2][at] - delta;
        }
    }
}

template <int DIM, int ROW_TILES>
DEVICE void store_gradient(void *to, int64_t start, int64_t stride, float factor, bf16 *tile,
                           int row, int valid, const float (&sums)[ROW_TILES][DIM / 8][4],
                           const cuda_attention_shape &shape) {
    float factors[ROW_TILES][2];
    UNROLL
    for (int r = 0; r < ROW_TILES; r++) {
        factors[r][0] = factors[r][1] = factor;
    }
    round_rows<DIM, ROW_TILES>(tile, row, sums, factors);
    store_rows<DIM, ROW_TILES>(token_rows{static_cast<bf16 *>(to) + start, stride}, tile, row,
                               valid, shape);
}

/* A tile of the stream of queries of a key gradient: all tiles of one head, then of the next. What
 * lies beyond the last query is zero, and with q, dout, lse and delta 0 it adds 0. */
struct stream_place {
    int head, token;
};

template <int DIM, int QUERIES, int THREADS>
DEVICE void load_queries(const cuda_attention_backward_params &p, int row,
                         const stream_place &place, bf16 *queries, bf16 *douts,
                         cuda_attention_query *facts) {
    const cuda_attention_shape &shape = p.shape;
    int64_t at = (int64_t)row * shape.time + place.token;
    bf16 *q = static_cast<bf16 *>(const_cast<void *>(p.q)) + place.head * shape.head_dim;
    bf16 *dout = static_cast<bf16 *>(const_cast<void *>(p.dout)) + place.head * shape.head_dim;
    load_tile<DIM, QUERIES, THREADS>(queries, token_rows{q + at * shape.q_stride, shape.q_stride},
                                     shape.time - place.token, shape);
    load_tile<DIM, QUERIES, THREADS>(douts,
                                     token_rows{dout + at * shape.out_stride, shape.out_stride},
                                     shape.time - place.token, shape);
    if (threadIdx.x < QUERIES) {
        int token = place.token + (int)threadIdx.x;
        bool exists = token < shape.time;
        copy_async(facts + threadIdx.x,
                   queries_of(p, row, place.head) + (exists ? token : place.token), exists);
    }
}

template <int DIM, int ROW_TILES, int WARPS, int QUERIES, bool WANT_DK, bool WANT_DV>
DEVICE void key_gradient(const cuda_attention_backward_params &p) {
    constexpr int ROWS = ATTENTION_BLOCK_ROWS(ROW_TILES, WARPS);
    constexpr int THREADS = WARPS * WARP;
    constexpr int BLOCKS = QUERIES / 8;
    DYNAMIC_SHARED(memory);
    bf16 *keys = reinterpret_cast<bf16 *>(memory);
    bf16 *values = keys + ROWS * ATTENTION_PITCH(DIM);
    bf16 *queries = values + ROWS * ATTENTION_PITCH(DIM);
    bf16 *douts = queries + STAGES * QUERIES * ATTENTION_PITCH(DIM);
    cuda_attention_query *facts =
        reinterpret_cast<cuda_attention_query *>(douts + STAGES * QUERIES * ATTENTION_PITCH(DIM));
    const cuda_attention_shape &shape = p.shape;
    const int row = (int)blockIdx.x / shape.kv_heads;
    const int kv_head = (int)blockIdx.x % shape.kv_heads;
    const int group = shape.heads / shape.kv_heads;
    const int key = (int)blockIdx.y * ROWS;
    const int count = shape.time - key < ROWS ? shape.time - key : ROWS;
    const int warp_row = (int)threadIdx.x / WARP * ROW_TILES * 16;
    const int64_t start =
        ((int64_t)row * shape.time + key) * shape.kv_stride + kv_head * shape.head_dim;
    const int last =
        key + QUERIES * tiles_that_see<QUERIES, THREADS>(
                            shape, p.positions + (int64_t)row * shape.time, key, key + count);

    bf16 *k = static_cast<bf16 *>(const_cast<void *>(p.k)) + start;
    bf16 *v = static_cast<bf16 *>(const_cast<void *>(p.v)) + start;
    load_tile<DIM, ROWS, THREADS>(keys, token_rows{k, shape.kv_stride}, count, shape);
    if (WANT_DK) {
        load_tile<DIM, ROWS, THREADS>(values, token_rows{v, shape.kv_stride}, count, shape);
    }
    stream_place next = {kv_head * group, key};
    load_queries<DIM, QUERIES, THREADS>(p, row, next, queries, douts, facts);
    copy_commit();
    float dkeys[ROW_TILES][WANT_DK ? DIM / 8 : 1][4];
    float dvalues[ROW_TILES][WANT_DV ? DIM / 8 : 1][4];
    UNROLL
    for (int r = 0; r < ROW_TILES; r++) {
        clear(dkeys[r]);
        clear(dvalues[r]);
    }
    for (int stage = 0; next.head < (kv_head + 1) * group; stage ^= 1) {
        const bf16 *queries_now = queries + stage * QUERIES * ATTENTION_PITCH(DIM);
        const bf16 *douts_now = douts + stage * QUERIES * ATTENTION_PITCH(DIM);
        const int token = next.token;
        next.token += QUERIES;
        if (next.token >= last) {
            next.token = key;
            next.head++;
        }
        copy_wait<0>();
        __syncthreads();
        if (next.head < (kv_head + 1) * group) {
            int other = (stage ^ 1) * QUERIES * ATTENTION_PITCH(DIM);
            load_queries<DIM, QUERIES, THREADS>(p, row, next, queries + other, douts + other,
                                                facts + (stage ^ 1) * QUERIES);
        }
        copy_commit();
        const cuda_attention_query *facts_now = facts + stage * QUERIES;
        int newest = shape.time - token < QUERIES ? shape.time - token - 1 : QUERIES - 1;
        bool masked = key + ROWS - 1 > token || facts_now[newest].first > key;
        float scores[ROW_TILES][BLOCKS][4];
        product_of_rows<DIM, ROW_TILES, BLOCKS>(scores, keys, warp_row, queries_now);
        column_probabilities<ROW_TILES, BLOCKS>(scores, facts_now, shape.scale * LOG2_E,
                                                key + warp_row, token, masked);
        if constexpr (WANT_DV) {
            add_product<DIM, ROW_TILES, BLOCKS>(dvalues, scores, douts_now);
        }
        if constexpr (WANT_DK) {
            float slopes[ROW_TILES][BLOCKS][4];
            product_of_rows<DIM, ROW_TILES, BLOCKS>(slopes, values, warp_row, douts_now);
            column_slopes<ROW_TILES, BLOCKS>(scores, slopes, facts_now);
            add_product<DIM, ROW_TILES, BLOCKS>(dkeys, scores, queries_now);
        }
    }
    copy_wait<0>();
    if constexpr (WANT_DK) {
        store_gradient<DIM, ROW_TILES>(p.dk, start, shape.kv_stride, shape.scale, keys, warp_row,
                                       count, dkeys, shape);
    }
    if constexpr (WANT_DV) {
        store_gradient<DIM, ROW_TILES>(p.dv, start, shape.kv_stride, 1.0f, keys, warp_row, count,
                                       dvalues, shape);
    }
}

#define KEY_GRADIENT(dim, row_tiles, warps, queries)                                               \
    BOUNDED_KERNEL(attention_key_gradient_##dim, cuda_attention_backward_params, warps *WARP, 1) { \
        key_gradient<dim, row_tiles, warps, queries, true, true>(p);                               \
    }
ATTENTION_KEY_GRADIENT_TILES(KEY_GRADIENT)

#define KEY_GRADIENT_PASSES(dim, row_tiles, warps, queries)                                        \
    BOUNDED_KERNEL(attention_key_gradient_dk_##dim, cuda_attention_backward_params, warps *WARP,   \
                   1) {                                                                            \
        key_gradient<dim, row_tiles, warps, queries, true, false>(p);                              \
    }                                                                                              \
    BOUNDED_KERNEL(attention_key_gradient_dv_##dim, cuda_attention_backward_params, warps *WARP,   \
                   1) {                                                                            \
        key_gradient<dim, row_tiles, warps, queries, false, true>(p);                              \
    }
ATTENTION_KEY_GRADIENT_PASSES(KEY_GRADIENT_PASSES)
