/* Attention backward on tensor cores. Probabilities are recomputed from lse, and no sum is shared
 * between blocks, so that every execution gives the same bits:
 *
 *   prepare         delta = dout . out, lse and the first visible key of each query
 *   key gradient    a block holds a tile of keys and loops over the queries that see it, of all
 *                   heads of the group: S^T = k q^T, dP^T = v dout^T, dv += P^T dout, dk += dS^T q
 *   query gradient  a block holds a tile of queries: S = q k^T, dP = dout v^T, dq += dS k
 *
 * with P = 2^(scale S - lse) and dS = P (dP - delta); dq and dk are scaled as they are stored. Two
 * of the seven products are computed twice. A single kernel with five products would have to add to
 * dq from many blocks: in memory in a fixed order, with blocks waiting for each other, or in one
 * copy of dq for each tile of keys, which grows with the square of time. Streamed tiles have two
 * stages: one is loaded while the other one is used. */
#include "kernels/cuda/device/attention_tile.h"

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
    words4 left = vector ? *reinterpret_cast<const words4 *>(a) : load_unaligned_chunk(a, count);
    words4 right = vector ? *reinterpret_cast<const words4 *>(b) : load_unaligned_chunk(b, count);
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
        int first = first_visible_key(p.shape, p.positions + row * p.shape.time, own);
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

/* ---- for both gradients ---- */

/* A probability from a score; 0 for a pair that is not visible. Rounding could make it exceed 1,
 * which huge logits would magnify. BRANCH false: computed for every pair before the selection, of
 * which compilers would else make a branch; that takes registers. */
template <bool BRANCH> DEVICE float probability(float score, float scale, float lse, bool visible) {
    if (BRANCH) {
        return visible ? exp2_fast(fminf(score * scale - lse, 0.0f)) : 0.0f;
    }
    const float value = exp2_fast(fminf(score * scale - lse, 0.0f));
    return visible ? value : 0.0f;
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

/* ---- dq ---- */

/* Turns scores into probabilities, which are 0 for invisible pairs. */
template <bool BRANCH, int ROW_TILES, int BLOCKS>
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
            bool visible = !masked || (at >= row.first && at <= row.token);
            float &score = scores[r][i / 4][i % 4];
            score = probability<BRANCH>(score, scale, row.lse, visible);
        }
    }
}

/* A block's tiles and the addresses of its rows in the tensors. Keys and values have STAGES tiles
 * each. */
struct query_operands {
    bf16 *queries, *douts, *keys, *values;
    bf16 *k, *v;
    int64_t q_start, out_start;
    int row, head, token, tokens; /* the tile's first token, and its number of tokens */
};

template <int DIM, int ROWS, int KEYS>
DEVICE query_operands query_operands_of(const cuda_attention_backward_params &p,
                                        unsigned char *memory) {
    const cuda_attention_shape &shape = p.shape;
    query_operands own;
    own.queries = reinterpret_cast<bf16 *>(memory);
    own.douts = own.queries + ROWS * ATTENTION_PITCH(DIM);
    own.keys = own.douts + ROWS * ATTENTION_PITCH(DIM);
    own.values = own.keys + STAGES * KEYS * ATTENTION_PITCH(DIM);
    own.row = (int)blockIdx.x / shape.heads;
    own.head = (int)blockIdx.x % shape.heads;
    own.token = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    own.tokens = shape.time - own.token < ROWS ? shape.time - own.token : ROWS;
    const int64_t start = (int64_t)own.row * shape.time;
    const int64_t kv_start =
        start * shape.kv_stride + own.head / (shape.heads / shape.kv_heads) * shape.head_dim;
    own.q_start = (start + own.token) * shape.q_stride + own.head * shape.head_dim;
    own.out_start = (start + own.token) * shape.out_stride + own.head * shape.head_dim;
    own.k = static_cast<bf16 *>(const_cast<void *>(p.k)) + kv_start;
    own.v = static_cast<bf16 *>(const_cast<void *>(p.v)) + kv_start;
    return own;
}

template <int DIM, int ROWS, int THREADS>
DEVICE void load_own_queries(const cuda_attention_backward_params &p, const query_operands &own) {
    const cuda_attention_shape &shape = p.shape;
    bf16 *q = static_cast<bf16 *>(const_cast<void *>(p.q)) + own.q_start;
    bf16 *dout = static_cast<bf16 *>(const_cast<void *>(p.dout)) + own.out_start;
    load_tile<DIM, ROWS, THREADS>(own.queries, token_rows{q, shape.q_stride}, own.tokens, shape);
    load_tile<DIM, ROWS, THREADS>(own.douts, token_rows{dout, shape.out_stride}, own.tokens, shape);
}

/* Start loading the keys and values from `key` on. */
template <int DIM, int KEYS, int THREADS>
DEVICE void load_keys(const query_operands &own, int stage, int key,
                      const cuda_attention_shape &shape) {
    const int at = stage * KEYS * ATTENTION_PITCH(DIM);
    load_tile<DIM, KEYS, THREADS>(own.keys + at,
                                  token_rows{own.k + key * shape.kv_stride, shape.kv_stride},
                                  shape.time - key, shape);
    load_tile<DIM, KEYS, THREADS>(own.values + at,
                                  token_rows{own.v + key * shape.kv_stride, shape.kv_stride},
                                  shape.time - key, shape);
}

/* Turns probabilities into the gradients of the scores. */
template <int ROW_TILES, int BLOCKS>
DEVICE void row_slopes(float (&scores)[ROW_TILES][BLOCKS][4],
                       const float (&slopes)[ROW_TILES][BLOCKS][4],
                       const cuda_attention_query (&facts)[ROW_TILES][2]) {
    UNROLL
    for (int i = 0; i < ROW_TILES * BLOCKS * 4; i++) {
        int r = i / (BLOCKS * 4);
        float &score = scores[r][i / 4 % BLOCKS][i % 4];
        score *= slopes[r][i / 4 % BLOCKS][i % 4] - facts[r][i / 2 % 2].delta;
    }
}

template <int DIM, int ROW_TILES, int WARPS, int KEYS>
DEVICE void query_gradient(const cuda_attention_backward_params &p) {
    constexpr int ROWS = ATTENTION_BLOCK_ROWS(ROW_TILES, WARPS);
    constexpr int THREADS = WARPS * WARP;
    constexpr int BLOCKS = KEYS / 8;
    DYNAMIC_SHARED(memory);
    const query_operands own = query_operands_of<DIM, ROWS, KEYS>(p, memory);
    const cuda_attention_shape &shape = p.shape;
    const int warp_row = (int)threadIdx.x / WARP * ROW_TILES * 16;
    const int end = own.token + own.tokens;
    const int32_t *positions = p.positions + (int64_t)own.row * shape.time;
    const int seen_by_all = first_visible_key(shape, positions, end - 1);
    int key = first_visible_key(shape, positions, own.token) / KEYS * KEYS;
    load_own_queries<DIM, ROWS, THREADS>(p, own);
    load_keys<DIM, KEYS, THREADS>(own, 0, key, shape);
    copy_commit();
    cuda_attention_query facts[ROW_TILES][2];
    float sums[ROW_TILES][DIM / 8][4];
    UNROLL
    for (int i = 0; i < ROW_TILES * 2; i++) {
        int at = warp_row + i * 8 + (int)threadIdx.x % WARP / 4;
        at = at < own.tokens ? at : own.tokens - 1;
        facts[i / 2][i % 2] = query_row(p, own.row, own.head)[own.token + at];
        clear_sums(sums[i / 2]);
    }
    for (int stage = 0; key < end; key += KEYS, stage ^= 1) {
        const bf16 *keys_now = own.keys + stage * KEYS * ATTENTION_PITCH(DIM);
        const bf16 *values_now = own.values + stage * KEYS * ATTENTION_PITCH(DIM);
        copy_wait<0>();
        __syncthreads();
        if (key + KEYS < end) {
            load_keys<DIM, KEYS, THREADS>(own, stage ^ 1, key + KEYS, shape);
        }
        copy_commit();
        float scores[ROW_TILES][BLOCKS][4];
        float slopes[ROW_TILES][BLOCKS][4];
        product_of_rows<DIM, ROW_TILES, BLOCKS>(scores, own.queries, warp_row, keys_now);
        /* at 256 a select would spill registers */
        row_probabilities<DIM == 256, ROW_TILES, BLOCKS>(scores, facts, shape.scale * LOG2_E, key,
                                                         key + KEYS - 1 > own.token ||
                                                             key < seen_by_all);
        product_of_rows<DIM, ROW_TILES, BLOCKS>(slopes, own.douts, warp_row, values_now);
        row_slopes<ROW_TILES, BLOCKS>(scores, slopes, facts);
        add_product<DIM, ROW_TILES, BLOCKS>(sums, scores, keys_now);
    }
    copy_wait<0>();
    store_gradient<DIM, ROW_TILES>(p.dq, own.q_start, shape.q_stride, shape.scale, own.queries,
                                   warp_row, own.tokens, sums, shape);
}

#define QUERY_GRADIENT(dim, row_tiles, warps, keys)                                                \
    BOUNDED_KERNEL(attention_query_gradient_##dim, cuda_attention_backward_params, warps *WARP,    \
                   1) {                                                                            \
        query_gradient<dim, row_tiles, warps, keys>(p);                                            \
    }
ATTENTION_QUERY_GRADIENT_TILES(QUERY_GRADIENT)

/* ---- dk and dv ---- */

/* As row_probabilities, but for S^T: rows are keys, columns are queries. */
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
            bool visible = !masked || (own >= first && own <= token + at);
            float &score = scores[i / 2][c / 2][i % 2 * 2 + c % 2];
            score = probability<false>(score, scale, lse, visible);
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

/* A tile in the stream of queries of a key gradient: all tiles of one head, then of the next.
 * Entries beyond the last query are zero; with q, dout, lse and delta 0 they add 0. */
struct stream_position {
    int head, token;
};

/* The tokens of a head are [first, last). */
template <int QUERIES>
DEVICE stream_position position_after(const stream_position &position, int first, int last) {
    bool more = position.token + QUERIES < last;
    return stream_position{position.head + (more ? 0 : 1), more ? position.token + QUERIES : first};
}

/* Whether any of the `exist` queries does not see some key of the tile from `key` on: a query
 * before the last key of the tile, or one whose first visible key, which never decreases, is after
 * `key`. */
template <int QUERIES>
DEVICE bool tile_needs_mask(const cuda_attention_query *facts, int exist, bool on_diagonal,
                            int key) {
    int newest = exist < QUERIES ? exist - 1 : QUERIES - 1;
    return on_diagonal || facts[newest].first > key;
}

template <int DIM, int QUERIES, int THREADS>
DEVICE void load_queries(const cuda_attention_backward_params &p, int row,
                         const stream_position &position, bf16 *queries, bf16 *douts,
                         cuda_attention_query *facts) {
    const cuda_attention_shape &shape = p.shape;
    int64_t at = (int64_t)row * shape.time + position.token;
    bf16 *q = static_cast<bf16 *>(const_cast<void *>(p.q)) + position.head * shape.head_dim;
    bf16 *dout = static_cast<bf16 *>(const_cast<void *>(p.dout)) + position.head * shape.head_dim;
    load_tile<DIM, QUERIES, THREADS>(queries, token_rows{q + at * shape.q_stride, shape.q_stride},
                                     shape.time - position.token, shape);
    load_tile<DIM, QUERIES, THREADS>(douts,
                                     token_rows{dout + at * shape.out_stride, shape.out_stride},
                                     shape.time - position.token, shape);
    if (threadIdx.x < QUERIES) {
        int token = position.token + (int)threadIdx.x;
        bool exists = token < shape.time;
        copy_async(facts + threadIdx.x,
                   query_row(p, row, position.head) + (exists ? token : position.token), exists);
    }
}

/* A block's tiles and the addresses of its rows in the tensors. Queries, douts and facts have
 * STAGES tiles each. */
struct key_operands {
    bf16 *keys, *values, *queries, *douts;
    cuda_attention_query *facts;
    int64_t start;
    int row, head, key, count; /* the tile's first key, and its number of keys */
};

template <int DIM, int ROWS, int QUERIES>
DEVICE key_operands key_operands_of(const cuda_attention_backward_params &p,
                                    unsigned char *memory) {
    const cuda_attention_shape &shape = p.shape;
    key_operands own;
    own.keys = reinterpret_cast<bf16 *>(memory);
    own.values = own.keys + ROWS * ATTENTION_PITCH(DIM);
    own.queries = own.values + ROWS * ATTENTION_PITCH(DIM);
    own.douts = own.queries + STAGES * QUERIES * ATTENTION_PITCH(DIM);
    own.facts = reinterpret_cast<cuda_attention_query *>(own.douts +
                                                         STAGES * QUERIES * ATTENTION_PITCH(DIM));
    own.row = (int)blockIdx.x / shape.kv_heads;
    own.head = (int)blockIdx.x % shape.kv_heads;
    own.key = (int)blockIdx.y * ROWS;
    own.count = shape.time - own.key < ROWS ? shape.time - own.key : ROWS;
    own.start =
        ((int64_t)own.row * shape.time + own.key) * shape.kv_stride + own.head * shape.head_dim;
    return own;
}

template <int DIM, int ROWS, int THREADS, bool WANT_DK>
DEVICE void load_own_keys(const cuda_attention_backward_params &p, const key_operands &own) {
    const cuda_attention_shape &shape = p.shape;
    bf16 *k = static_cast<bf16 *>(const_cast<void *>(p.k)) + own.start;
    bf16 *v = static_cast<bf16 *>(const_cast<void *>(p.v)) + own.start;
    load_tile<DIM, ROWS, THREADS>(own.keys, token_rows{k, shape.kv_stride}, own.count, shape);
    if (WANT_DK) {
        load_tile<DIM, ROWS, THREADS>(own.values, token_rows{v, shape.kv_stride}, own.count, shape);
    }
}

template <int DIM, int ROW_TILES, int WARPS, int QUERIES, bool WANT_DK, bool WANT_DV>
DEVICE void key_gradient(const cuda_attention_backward_params &p) {
    constexpr int ROWS = ATTENTION_BLOCK_ROWS(ROW_TILES, WARPS);
    constexpr int THREADS = WARPS * WARP;
    constexpr int BLOCKS = QUERIES / 8;
    DYNAMIC_SHARED(memory);
    const key_operands own = key_operands_of<DIM, ROWS, QUERIES>(p, memory);
    const cuda_attention_shape &shape = p.shape;
    const int end = (own.head + 1) * (shape.heads / shape.kv_heads);
    const int warp_row = (int)threadIdx.x / WARP * ROW_TILES * 16;
    const int last = own.key + QUERIES * count_tiles_seeing_keys<QUERIES, THREADS>(
                                             shape, p.positions + (int64_t)own.row * shape.time,
                                             own.key, own.key + own.count);
    load_own_keys<DIM, ROWS, THREADS, WANT_DK>(p, own);
    stream_position next = {own.head * (shape.heads / shape.kv_heads), own.key};
    load_queries<DIM, QUERIES, THREADS>(p, own.row, next, own.queries, own.douts, own.facts);
    copy_commit();
    float dkeys[ROW_TILES][WANT_DK ? DIM / 8 : 1][4];
    float dvalues[ROW_TILES][WANT_DV ? DIM / 8 : 1][4];
    UNROLL
    for (int r = 0; r < ROW_TILES; r++) {
        clear_sums(dkeys[r]);
        clear_sums(dvalues[r]);
    }
    for (int stage = 0; next.head < end; stage ^= 1) {
        const bf16 *queries_now = own.queries + stage * QUERIES * ATTENTION_PITCH(DIM);
        const bf16 *douts_now = own.douts + stage * QUERIES * ATTENTION_PITCH(DIM);
        const cuda_attention_query *facts_now = own.facts + stage * QUERIES;
        const int token = next.token;
        next = position_after<QUERIES>(next, own.key, last);
        copy_wait<0>();
        __syncthreads();
        if (next.head < end) {
            int other = (stage ^ 1) * QUERIES;
            load_queries<DIM, QUERIES, THREADS>(
                p, own.row, next, own.queries + other * ATTENTION_PITCH(DIM),
                own.douts + other * ATTENTION_PITCH(DIM), own.facts + other);
        }
        copy_commit();
        float scores[ROW_TILES][BLOCKS][4];
        product_of_rows<DIM, ROW_TILES, BLOCKS>(scores, own.keys, warp_row, queries_now);
        column_probabilities<ROW_TILES, BLOCKS>(
            scores, facts_now, shape.scale * LOG2_E, own.key + warp_row, token,
            tile_needs_mask<QUERIES>(facts_now, shape.time - token, own.key + ROWS - 1 > token,
                                     own.key));
        if constexpr (WANT_DV) {
            add_product<DIM, ROW_TILES, BLOCKS>(dvalues, scores, douts_now);
        }
        if constexpr (WANT_DK) {
            float slopes[ROW_TILES][BLOCKS][4];
            product_of_rows<DIM, ROW_TILES, BLOCKS>(slopes, own.values, warp_row, douts_now);
            column_slopes<ROW_TILES, BLOCKS>(scores, slopes, facts_now);
            add_product<DIM, ROW_TILES, BLOCKS>(dkeys, scores, queries_now);
        }
    }
    copy_wait<0>();
    if constexpr (WANT_DK) {
        store_gradient<DIM, ROW_TILES>(p.dk, own.start, shape.kv_stride, shape.scale, own.keys,
                                       warp_row, own.count, dkeys, shape);
    }
    if constexpr (WANT_DV) {
        store_gradient<DIM, ROW_TILES>(p.dv, own.start, shape.kv_stride, 1.0f, own.keys, warp_row,
                                       own.count, dvalues, shape);
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
