/* Attention forward, over whole rows and over a cache. Each tile of queries is combined with all
 * visible tiles of keys by the online softmax. An item is one tile of queries of one key-value
 * head. */

#include "kernels/cpu/attention_key_range.h"
#include "kernels/cpu/cpu.h"

#include <math.h>

enum {
    /* rows of a tile; with 64, keys would be packed twice as often; more would not fit in L2 */
    QUERY_TILE = 128,
    STACKED_HEADS = 8, /* query heads of one group that use the same packed keys in an item */
    SCORES_STRIDE = ATTENTION_KEY_TILE, /* elements from one row of scores to the next */
};

struct forward_call {
    const struct attention_args *args;
    const struct attention_kernels *kernels;
    const char *q, *k, *v;              /* queries, keys and values */
    const int32_t *positions;           /* NULL: each row is a single document */
    char *out;                          /* attention output of each query */
    float *lse;                         /* log of each row's softmax sum; NULL: not computed */
    int64_t kv_stride;                  /* elements from the key of one token to that of the next */
    int64_t past_keys;                  /* number of keys before the key of the first query */
    int64_t stacked_heads, tile_tokens; /* heads and tokens of one query tile */
    int64_t head_tiles, token_tiles;    /* number of query tiles along heads and tokens */
    float *workspace;                   /* scratch memory of all threads */
};

/* A tile of queries consists of `heads` blocks of `tokens` rows, one block for each query head. */
struct query_tile {
    int64_t row, kv_head;        /* row of the batch, key-value head */
    int64_t first_head, heads;   /* query heads [first_head, first_head + heads) */
    int64_t first_token, tokens; /* tokens [first_token, first_token + tokens) */
    int64_t rows;                /* heads x tokens */
    struct attention_key_range visible_keys[QUERY_TILE]; /* [row] keys that the query sees */
};

/* The tiles of one thread in the workspace. */
struct forward_scratch {
    float *queries, *sums_of_values, *scores, *keys, *values;
    float *maxima, *sums; /* of each query so far: largest score; sum of exp(score - largest) */
};

static int64_t stacked_head_count(const struct attention_args *args) {
    return attention_min(args->heads / args->kv_heads, STACKED_HEADS);
}

static int64_t tile_token_count(const struct attention_args *args) {
    int64_t tokens = QUERY_TILE / stacked_head_count(args) / ATTENTION_STRIP * ATTENTION_STRIP;
    return attention_min(tokens, args->time);
}

static int64_t tile_row_count(const struct attention_args *args) {
    return attention_round_up(tile_token_count(args) * stacked_head_count(args), ATTENTION_STRIP);
}

static int64_t scratch_float_count(const struct attention_args *args) {
    int64_t rows = tile_row_count(args);
    int64_t dim = attention_padded_dim(args);
    return 2 * rows * dim + 2 * ATTENTION_KEY_TILE * dim + rows * SCORES_STRIDE + 2 * rows;
}

static struct forward_scratch thread_scratch(const struct forward_call *call, int thread) {
    int64_t rows = tile_row_count(call->args);
    int64_t dim = attention_padded_dim(call->args);
    struct forward_scratch scratch;
    scratch.queries = call->workspace + thread * scratch_float_count(call->args);
    scratch.sums_of_values = scratch.queries + rows * dim;
    scratch.keys = scratch.sums_of_values + rows * dim;
    scratch.values = scratch.keys + ATTENTION_KEY_TILE * dim;
    scratch.scores = scratch.values + ATTENTION_KEY_TILE * dim;
    scratch.maxima = scratch.scores + rows * SCORES_STRIDE;
    scratch.sums = scratch.maxima + rows;
    return scratch;
}

/* Set *tile to the tile that `item` processes. The last tiles see the most keys, so the first items
 * process the last tiles. */
static void init_query_tile(const struct forward_call *call, int64_t item,
                            struct query_tile *tile) {
    const struct attention_args *args = call->args;
    int64_t group = args->heads / args->kv_heads;
    int64_t head_tile = item % call->head_tiles;
    int64_t index = item / call->head_tiles;
    tile->kv_head = index % args->kv_heads;
    index /= args->kv_heads;
    tile->row = index % args->rows;
    tile->first_token = (call->token_tiles - 1 - index / args->rows) * call->tile_tokens;
    tile->tokens = attention_min(call->tile_tokens, args->time - tile->first_token);
    tile->heads = attention_min(call->stacked_heads, group - head_tile * call->stacked_heads);
    tile->first_head = tile->kv_head * group + head_tile * call->stacked_heads;
    tile->rows = tile->heads * tile->tokens;
    for (int64_t r = 0; r < tile->rows; r++) {
        int64_t token = tile->first_token + r % tile->tokens;
        int64_t depth = call->positions ? call->positions[tile->row * args->time + token]
                                        : call->past_keys + token;
        tile->visible_keys[r] = attention_key_range_of(args, call->past_keys + token, depth);
    }
}

/* Loads the queries of a tile and clears its sums. Products compute whole groups of rows, so the
 * rows after the last query are set to 0; their results are not stored. */
static void load_queries(const struct forward_call *call, const struct query_tile *tile,
                         const struct forward_scratch *scratch) {
    const struct attention_args *args = call->args;
    int64_t dim = attention_padded_dim(args);
    struct attention_layout block = {tile->tokens, args->head_dim, args->q_stride, args->dtype};
    for (int64_t h = 0; h < tile->heads; h++) {
        int64_t start = (tile->row * args->time + tile->first_token) * args->q_stride +
                        (tile->first_head + h) * args->head_dim;
        call->kernels->load_rows(&block, call->q + start * dtype_bytes(args->dtype),
                                 scratch->queries + h * tile->tokens * dim);
    }
    int64_t rows = attention_round_up(tile->rows, ATTENTION_ROW_GROUP);
    memset(scratch->queries + tile->rows * dim, 0,
           (size_t)((rows - tile->rows) * dim) * sizeof(float));
    memset(scratch->sums_of_values, 0, (size_t)(rows * dim) * sizeof(float));
    for (int64_t r = 0; r < tile->rows; r++) {
        scratch->maxima[r] = -INFINITY;
        scratch->sums[r] = 0.0f;
    }
}

static void load_keys(const struct forward_call *call, const struct query_tile *tile, int64_t key,
                      int64_t count, const struct forward_scratch *scratch) {
    const struct attention_args *args = call->args;
    struct attention_layout block = {count, args->head_dim, call->kv_stride, args->dtype};
    int64_t start =
        (tile->row * args->time + key) * call->kv_stride + tile->kv_head * args->head_dim;
    int64_t bytes = start * dtype_bytes(args->dtype);
    call->kernels->load_columns(&block, call->k + bytes, scratch->keys);
    call->kernels->load_rows(&block, call->v + bytes, scratch->values);
    if (key + 2 * ATTENTION_KEY_TILE <= call->past_keys + args->time) {
        int64_t next = bytes + ATTENTION_KEY_TILE * call->kv_stride * dtype_bytes(args->dtype);
        attention_prefetch(&block, call->k + next);
        attention_prefetch(&block, call->v + next);
    }
}

/* Adds the keys of one tile to the softmax and the sums of values of one strip of queries. */
static void process_strip(const struct forward_call *call, const struct forward_scratch *scratch,
                          int64_t row, int64_t rows,
                          const struct attention_strip_key_range *visible) {
    int64_t dim = attention_padded_dim(call->args);
    int64_t m = attention_round_up(rows, ATTENTION_ROW_GROUP);
    int64_t columns = attention_round_up(visible->high, ATTENTION_LANES) - visible->low;
    float *scores = scratch->scores + row * SCORES_STRIDE;
    float *sums_of_values = scratch->sums_of_values + row * dim;
    struct attention_product similarity = {
        .m = m,
        .n = columns,
        .k = call->args->head_dim,
        .a = scratch->queries + row * dim,
        .a_row_stride = dim,
        .a_k_stride = 1,
        .b = scratch->keys + visible->low,
        .b_stride = ATTENTION_KEY_TILE,
        .c = scores,
        .c_stride = SCORES_STRIDE,
    };
    call->kernels->product(&similarity);
    struct attention_strip strip = {
        .rows = rows,
        .columns = columns,
        .stride = SCORES_STRIDE,
        .first = visible->first,
        .last = visible->last,
        .scale = call->args->scale,
        .scores = scores,
    };
    call->kernels->softmax(&strip, scratch->maxima + row, scratch->sums + row, sums_of_values, dim);
    struct attention_product mixture = {
        .m = m,
        .n = dim,
        .k = visible->high - visible->low,
        .a = scores,
        .a_row_stride = SCORES_STRIDE,
        .a_k_stride = 1,
        .b = scratch->values + visible->low * dim,
        .b_stride = dim,
        .c = sums_of_values,
        .c_stride = dim,
        .accumulate = true,
    };
    call->kernels->product(&mixture);
}

static void store_outputs(const struct forward_call *call, const struct query_tile *tile,
                          const struct forward_scratch *scratch) {
    const struct attention_args *args = call->args;
    int64_t dim = attention_padded_dim(args);
    for (int64_t r = 0; r < tile->rows; r++) {
        float sum = scratch->sums[r];
        scratch->maxima[r] += logf(sum);
        scratch->sums[r] = 1.0f / sum;
    }
    struct attention_layout block = {tile->tokens, args->head_dim, args->out_stride, args->dtype};
    for (int64_t h = 0; h < tile->heads; h++) {
        int64_t row = h * tile->tokens;
        int64_t start = (tile->row * args->time + tile->first_token) * args->out_stride +
                        (tile->first_head + h) * args->head_dim;
        call->kernels->store_rows(&block, scratch->sums_of_values + row * dim, scratch->sums + row,
                                  call->out + start * dtype_bytes(args->dtype));
        if (call->lse) {
            float *lse = call->lse + (tile->row * args->heads + tile->first_head + h) * args->time;
            memcpy(lse + tile->first_token, scratch->maxima + row,
                   (size_t)tile->tokens * sizeof(float));
        }
    }
}

static void run_forward_item(void *context, int64_t item, int thread) {
    const struct forward_call *call = context;
    struct forward_scratch scratch = thread_scratch(call, thread);
    struct query_tile tile;
    init_query_tile(call, item, &tile);
    load_queries(call, &tile, &scratch);
    int64_t first = tile.visible_keys[0].first;
    int64_t last = 0;
    for (int64_t r = 0; r < tile.rows; r++) {
        first = attention_min(first, tile.visible_keys[r].first);
        last = attention_max(last, tile.visible_keys[r].last);
    }
    for (int64_t key = first - first % ATTENTION_KEY_TILE; key < last; key += ATTENTION_KEY_TILE) {
        int64_t count = attention_min(ATTENTION_KEY_TILE, last - key);
        load_keys(call, &tile, key, count, &scratch);
        for (int64_t row = 0; row < tile.rows; row += ATTENTION_STRIP) {
            int64_t rows = attention_min(ATTENTION_STRIP, tile.rows - row);
            struct attention_strip_key_range visible;
            if (attention_strip_key_range_of(tile.visible_keys + row, rows, key, count, &visible)) {
                process_strip(call, &scratch, row, rows, &visible);
            }
        }
    }
    store_outputs(call, &tile, &scratch);
}

static void run_forward(const struct compute *compute, struct forward_call *call, void *workspace) {
    const struct attention_args *args = call->args;
    attention_check_args(args);
    int64_t group = args->heads / args->kv_heads;
    call->kernels = &compute->table->attention;
    call->workspace = workspace;
    call->stacked_heads = stacked_head_count(args);
    call->tile_tokens = tile_token_count(args);
    call->head_tiles = attention_tile_count(group, call->stacked_heads);
    call->token_tiles = attention_tile_count(args->time, call->tile_tokens);
    pool_run(compute->pool, run_forward_item, call,
             call->token_tiles * args->rows * args->kv_heads * call->head_tiles);
}

uint64_t attention_forward_workspace_bytes(const struct attention_args *args, int threads) {
    attention_check_args(args);
    return (uint64_t)(scratch_float_count(args) * threads) * sizeof(float);
}

void attention_forward(const struct compute *compute, const struct attention_args *args,
                       const void *q, const void *k, const void *v, const int32_t *positions,
                       void *out, float *lse, void *workspace) {
    ASSERT(positions && lse);
    struct forward_call call = {
        .args = args,
        .q = q,
        .k = k,
        .v = v,
        .positions = positions,
        .out = out,
        .lse = lse,
        .kv_stride = args->kv_stride,
    };
    run_forward(compute, &call, workspace);
}

uint64_t attention_cached_workspace_bytes(const struct attention_args *args, int64_t context,
                                          int threads) {
    ASSERT(args->rows == 1 && args->time <= context);
    return attention_forward_workspace_bytes(args, threads);
}

void attention_cached(const struct compute *compute, const struct attention_args *args,
                      int64_t past_keys, const void *q, const void *k_cache, const void *v_cache,
                      void *out, void *workspace) {
    ASSERT(args->rows == 1 && past_keys >= 0);
    struct forward_call call = {
        .args = args,
        .q = q,
        .k = k_cache,
        .v = v_cache,
        .out = out,
        .kv_stride = args->kv_heads * args->head_dim,
        .past_keys = past_keys,
    };
    run_forward(compute, &call, workspace);
}
