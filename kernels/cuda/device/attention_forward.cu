/* Attention forward on tensor cores, over whole rows and over a cache: a block holds one tile of
 * queries and loops over the tiles of keys that any of them sees, with the online softmax.
 *
 *   time ->   | scores | softmax | mix values | scores | ...
 *   copies    | values j         | keys j + 1 | values j + 1
 *
 * Scores are also scaled by log2 e, so that 2^x replaces e^x. */
#include "kernels/cuda/device/attention_tile.h"

struct query_range {
    int row;        /* of tokens */
    int head;       /* the first of the stack */
    int first;      /* stacked row that is the tile's first */
    int rows;       /* of the tile that contain data */
    int past;       /* keys before that of the first token */
    int keys;       /* that exist */
    int begin, end; /* tiles of keys of this part */
};

template <int ROW_TILES> struct softmax_state {
    float maxima[ROW_TILES][2];
    float sums[ROW_TILES][2]; /* sums over this thread's columns */
};

DEVICE int first_of_row(const cuda_attention_forward_params &p, const query_range &range,
                        int stacked_row) {
    return first_visible_key_forward(p, range.past, (int64_t)range.row * p.shape.time,
                                     stacked_row / p.stacked_heads);
}

template <int ROWS, int KEYS>
DEVICE query_range range_of_block(const cuda_attention_forward_params &p) {
    query_range range;
    int stacks = p.shape.heads / p.stacked_heads;
    range.row = (int)blockIdx.x / stacks;
    range.head = (int)blockIdx.x % stacks * p.stacked_heads;
    range.first = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    int all = p.shape.time * p.stacked_heads;
    range.rows = all - range.first < ROWS ? all - range.first : ROWS;
    range.past = 0;
    int tokens = p.shape.time;
    if (p.positions == nullptr) {
        range.past = p.scalars->cache_length;
        tokens = p.scalars->token_count < tokens ? p.scalars->token_count : tokens;
    }
    range.keys = range.past + tokens;
    int last = (range.first + range.rows - 1) / p.stacked_heads;
    last = last < tokens ? last : tokens - 1;
    range.begin = range.end = 0;
    if (range.first / p.stacked_heads <= last) {
        int begin = first_of_row(p, range, range.first) / KEYS;
        int end = (range.past + last) / KEYS + 1;
        int share = (end - begin + p.key_parts - 1) / p.key_parts;
        range.begin = begin + (int)blockIdx.z * share;
        range.end = range.begin + share < end ? range.begin + share : end;
    }
    return range;
}

/* Whether any row of the tile does not see some key of [key, key + KEYS). */
template <int KEYS>
DEVICE bool needs_mask(const cuda_attention_forward_params &p, const query_range &range, int key) {
    return key + KEYS - 1 > range.past + range.first / p.stacked_heads ||
           key < first_of_row(p, range, range.first + range.rows - 1);
}

template <int ROW_TILES, int BLOCKS>
DEVICE void mask_scores(float (&scores)[ROW_TILES][BLOCKS][4],
                        const cuda_attention_forward_params &p, const query_range &range, int row,
                        int key) {
    int lane = (int)threadIdx.x % WARP;
    UNROLL
    for (int i = 0; i < ROW_TILES * 2; i++) {
        int tile_row = row + i * 8 + lane / 4;
        int stacked_row = range.first + (tile_row < range.rows ? tile_row : range.rows - 1);
        int first = first_of_row(p, range, stacked_row);
        int last = range.past + stacked_row / p.stacked_heads;
        UNROLL
        for (int c = 0; c < BLOCKS * 2; c++) {
            int column = key + c / 2 * 8 + lane % 4 * 2 + c % 2;
            float &score = scores[i / 2][c / 2][i % 2 * 2 + c % 2];
            score = column >= first && column <= last ? score : MINUS_INFINITY;
        }
    }
}

/* Turns scores into probabilities relative to the new maxima, and rescales the sums so far. */
template <int DIM, int ROW_TILES, int BLOCKS>
DEVICE void softmax_step(float (&scores)[ROW_TILES][BLOCKS][4], softmax_state<ROW_TILES> &state,
                         float (&outs)[ROW_TILES][DIM / 8][4]) {
    UNROLL
    for (int i = 0; i < ROW_TILES * 2; i++) {
        int r = i / 2;
        int h = i % 2 * 2;
        float before = state.maxima[r][i % 2];
        float maximum = before;
        UNROLL
        for (int n = 0; n < BLOCKS; n++) {
            maximum = fmaxf(maximum, fmaxf(scores[r][n][h], scores[r][n][h + 1]));
        }
        maximum = fmaxf(maximum, shuffle_xor(maximum, 1));
        maximum = fmaxf(maximum, shuffle_xor(maximum, 2));
        /* A row that has seen no key yet has no maximum to subtract. */
        float base = maximum == MINUS_INFINITY ? 0.0f : maximum;
        float factor = exp2_fast(before - base);
        float sum = 0.0f;
        UNROLL
        for (int n = 0; n < BLOCKS; n++) {
            scores[r][n][h] = exp2_fast(scores[r][n][h] - base);
            scores[r][n][h + 1] = exp2_fast(scores[r][n][h + 1] - base);
            sum += scores[r][n][h] + scores[r][n][h + 1];
        }
        state.maxima[r][i % 2] = maximum;
        state.sums[r][i % 2] = state.sums[r][i % 2] * factor + sum;
        UNROLL
        for (int n = 0; n < DIM / 8; n++) {
            outs[r][n][h] *= factor;
            outs[r][n][h + 1] *= factor;
        }
    }
}

/* Stores the results of a block that processes only a part of the keys, for the kernel that
 * combines the parts. */
template <int DIM, int ROW_TILES>
DEVICE void store_part(const cuda_attention_forward_params &p, const query_range &range, int row,
                       const float (&outs)[ROW_TILES][DIM / 8][4],
                       const softmax_state<ROW_TILES> &state) {
    int lane = (int)threadIdx.x % WARP;
    int64_t all = (int64_t)p.shape.time * p.stacked_heads;
    int64_t start = ((int64_t)blockIdx.z * gridDim.x + blockIdx.x) * all + range.first;
    UNROLL
    for (int i = 0; i < ROW_TILES * 2; i++) {
        int tile_row = row + i * 8 + lane / 4;
        if (tile_row >= range.rows) {
            continue;
        }
        float *out = p.part_outs + (start + tile_row) * p.shape.head_dim;
        UNROLL
        for (int c = 0; c < DIM / 4; c++) {
            int column = c / 2 * 8 + lane % 4 * 2 + c % 2;
            if (column < p.shape.head_dim) {
                out[column] = outs[i / 2][c / 2][i % 2 * 2 + c % 2];
            }
        }
        if (lane % 4 == 0) {
            p.part_sums[2 * (start + tile_row)] = state.maxima[i / 2][i % 2];
            p.part_sums[2 * (start + tile_row) + 1] = state.sums[i / 2][i % 2];
        }
    }
}

template <int DIM, int ROW_TILES>
DEVICE void store_outs(const cuda_attention_forward_params &p, const query_range &range, int row,
                       const float (&outs)[ROW_TILES][DIM / 8][4],
                       const softmax_state<ROW_TILES> &state, bf16 *tile) {
    int lane = (int)threadIdx.x % WARP;
    float factors[ROW_TILES][2];
    UNROLL
    for (int i = 0; i < ROW_TILES * 2; i++) {
        float sum = state.sums[i / 2][i % 2];
        factors[i / 2][i % 2] = sum > 0.0f ? div_exact(1.0f, sum) : 0.0f;
        int tile_row = row + i * 8 + lane / 4;
        if (p.lse != nullptr && lane % 4 == 0 && tile_row < range.rows) {
            int64_t at = ((int64_t)range.row * p.shape.heads + range.head) * p.shape.time;
            p.lse[at + range.first + tile_row] = state.maxima[i / 2][i % 2] * LN_2 + log_full(sum);
        }
    }
    round_rows<DIM, ROW_TILES>(tile, row, outs, factors);
    int64_t start =
        (int64_t)range.row * p.shape.time * p.shape.out_stride + range.head * p.shape.head_dim;
    stacked_rows to = {static_cast<bf16 *>(p.out) + start, p.shape.out_stride, p.stacked_heads,
                       p.shape.head_dim, range.first};
    store_rows<DIM, ROW_TILES>(to, tile, row, range.rows, p.shape);
}

/* A block's tiles and the addresses of its row and heads in the tensors. */
struct forward_operands {
    bf16 *queries, *keys, *values;
    bf16 *q, *k, *v;
};

template <int DIM, int ROWS, int KEYS>
DEVICE forward_operands operands_of(const cuda_attention_forward_params &p,
                                    const query_range &range, unsigned char *memory) {
    const cuda_attention_shape &shape = p.shape;
    const int group = shape.heads / shape.kv_heads;
    const int64_t row_start = (int64_t)range.row * shape.time;
    const int64_t kv_start = row_start * shape.kv_stride + range.head / group * shape.head_dim;
    forward_operands own;
    own.queries = reinterpret_cast<bf16 *>(memory);
    own.keys = own.queries + ROWS * ATTENTION_PITCH(DIM);
    own.values = own.keys + KEYS * ATTENTION_PITCH(DIM);
    own.k = static_cast<bf16 *>(const_cast<void *>(p.k)) + kv_start;
    own.v = static_cast<bf16 *>(const_cast<void *>(p.v)) + kv_start;
    own.q = static_cast<bf16 *>(const_cast<void *>(p.q)) + row_start * shape.q_stride +
            range.head * shape.head_dim;
    return own;
}

/* Start loading the tile of `from`, which is k or v, that begins at `key`. */
template <int DIM, int KEYS, int THREADS>
DEVICE void load_keys(bf16 *tile, bf16 *from, const query_range &range, int key,
                      const cuda_attention_shape &shape) {
    load_tile<DIM, KEYS, THREADS>(tile, token_rows{from + key * shape.kv_stride, shape.kv_stride},
                                  range.keys - key, shape);
}

template <int ROW_TILES> DEVICE void clear_state(softmax_state<ROW_TILES> &state) {
    UNROLL
    for (int r = 0; r < ROW_TILES; r++) {
        state.maxima[r][0] = state.maxima[r][1] = MINUS_INFINITY;
        state.sums[r][0] = state.sums[r][1] = 0.0f;
    }
}

/* Adds the sums of the four threads that hold the columns of a row. */
template <int ROW_TILES> DEVICE void complete_sums(softmax_state<ROW_TILES> &state) {
    UNROLL
    for (int i = 0; i < ROW_TILES * 2; i++) {
        float &sum = state.sums[i / 2][i % 2];
        sum += shuffle_xor(sum, 1);
        sum += shuffle_xor(sum, 2);
    }
}

/* Turns the scores of the tile of keys from `key` on into probabilities. */
template <int DIM, int ROW_TILES, int KEYS>
DEVICE void take_tile(const cuda_attention_forward_params &p, const query_range &range, int row,
                      int key, float (&scores)[ROW_TILES][KEYS / 8][4],
                      softmax_state<ROW_TILES> &state, float (&outs)[ROW_TILES][DIM / 8][4]) {
    UNROLL
    for (int i = 0; i < ROW_TILES * KEYS / 2; i++) {
        scores[i / (KEYS / 2)][i / 4 % (KEYS / 8)][i % 4] *= p.shape.scale;
    }
    if (needs_mask<KEYS>(p, range, key)) {
        mask_scores<ROW_TILES, KEYS / 8>(scores, p, range, row, key);
    }
    softmax_step<DIM, ROW_TILES, KEYS / 8>(scores, state, outs);
}

template <int DIM, int ROW_TILES, int WARPS, int KEYS>
DEVICE void forward(const cuda_attention_forward_params &p) {
    constexpr int ROWS = ATTENTION_BLOCK_ROWS(ROW_TILES, WARPS);
    constexpr int THREADS = WARPS * WARP;
    DYNAMIC_SHARED(memory);
    const query_range range = range_of_block<ROWS, KEYS>(p);
    const forward_operands own = operands_of<DIM, ROWS, KEYS>(p, range, memory);
    const cuda_attention_shape &shape = p.shape;
    const int row = (int)threadIdx.x / WARP * ROW_TILES * 16;
    load_tile<DIM, ROWS, THREADS>(
        own.queries,
        stacked_rows{own.q, shape.q_stride, p.stacked_heads, shape.head_dim, range.first},
        range.rows, shape);
    if (range.begin < range.end) {
        load_keys<DIM, KEYS, THREADS>(own.keys, own.k, range, range.begin * KEYS, shape);
    }
    copy_commit();
    float outs[ROW_TILES][DIM / 8][4];
    softmax_state<ROW_TILES> state;
    clear_state(state);
    UNROLL
    for (int r = 0; r < ROW_TILES; r++) {
        clear_sums(outs[r]);
    }
    for (int tile = range.begin; tile < range.end; tile++) {
        copy_wait<0>();
        __syncthreads();
        load_keys<DIM, KEYS, THREADS>(own.values, own.v, range, tile * KEYS, shape);
        copy_commit();
        float scores[ROW_TILES][KEYS / 8][4];
        product_of_rows<DIM, ROW_TILES, KEYS / 8>(scores, own.queries, row, own.keys);
        copy_wait<0>();
        __syncthreads();
        if (tile + 1 < range.end) {
            load_keys<DIM, KEYS, THREADS>(own.keys, own.k, range, (tile + 1) * KEYS, shape);
        }
        copy_commit();
        take_tile<DIM, ROW_TILES, KEYS>(p, range, row, tile * KEYS, scores, state, outs);
        add_product<DIM, ROW_TILES, KEYS / 8>(outs, scores, own.values);
    }
    /* Needed if there was no tile of keys: copies of queries by other threads may still write where
     * this thread stores its rows. */
    copy_wait<0>();
    __syncthreads();
    complete_sums(state);
    if (p.key_parts > 1) {
        store_part<DIM, ROW_TILES>(p, range, row, outs, state);
    } else {
        store_outs<DIM, ROW_TILES>(p, range, row, outs, state, own.queries);
    }
}

#define FORWARD(dim, row_tiles, warps, keys)                                                       \
    BOUNDED_KERNEL(attention_forward_##dim, cuda_attention_forward_params, warps *WARP, 1) {       \
        forward<dim, row_tiles, warps, keys>(p);                                                   \
    }
ATTENTION_FORWARD_TILES(FORWARD)

#define DECODE(dim, row_tiles, warps, keys)                                                        \
    BOUNDED_KERNEL(attention_decode_##dim, cuda_attention_forward_params, warps *WARP, 1) {        \
        forward<dim, row_tiles, warps, keys>(p);                                                   \
    }
ATTENTION_DECODE_TILES(DECODE)

DEVICE void combine(const cuda_attention_combine_params &p) {
    int lane = (int)threadIdx.x % WARP;
    int64_t all = (int64_t)p.shape.time * p.shape.heads;
    int64_t row = (int64_t)blockIdx.x * (ATTENTION_COMBINE_THREADS / WARP) + threadIdx.x / WARP;
    if (row >= all) {
        return;
    }
    float maximum = MINUS_INFINITY;
    for (int part = 0; part < p.key_parts; part++) {
        maximum = fmaxf(maximum, p.part_sums[2 * (part * all + row)]);
    }
    float sum = 0.0f;
    for (int part = 0; part < p.key_parts && maximum > MINUS_INFINITY; part++) {
        const float *sums = p.part_sums + 2 * (part * all + row);
        sum += sums[1] * exp2_fast(sums[0] - maximum);
    }
    float factor = sum > 0.0f ? div_exact(1.0f, sum) : 0.0f;
    int64_t stacked = (int64_t)p.shape.time * p.stacked_heads;
    int64_t token = row % stacked / p.stacked_heads;
    int64_t head = row / stacked * p.stacked_heads + row % p.stacked_heads;
    bf16 *out = static_cast<bf16 *>(p.out) + token * p.shape.out_stride + head * p.shape.head_dim;
    for (int d = lane; d < p.shape.head_dim; d += WARP) {
        float mixed = 0.0f;
        for (int part = 0; part < p.key_parts && sum > 0.0f; part++) {
            int64_t at = part * all + row;
            mixed +=
                p.part_outs[at * p.shape.head_dim + d] * exp2_fast(p.part_sums[2 * at] - maximum);
        }
        out[d] = from_float<bf16>(mixed * factor);
    }
}

BOUNDED_KERNEL(attention_combine, cuda_attention_combine_params, ATTENTION_COMBINE_THREADS, 1) {
    combine(p);
}
