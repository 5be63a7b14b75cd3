/* Attention backward: probabilities are recomputed from lse, for one pair of a query tile and a key
 * tile at a time. For each pair, with P = exp(scale q k - lse) and delta = dout . out:
 *
 *     dP = dout v      dS = scale P (dP - delta)
 *     dv += P^T dout   dk += dS^T q   dq += dS k
 *
 * Two ways to divide the work give the same bits, because every sum adds its terms in the same
 * order:
 *   head items  an item is one key-value head of one row; the outer loop is over keys, and dq is
 *               summed in memory
 *   tile items  an item is one tile of keys (dk, dv), and later one tile of queries (dq); two of
 *               the five products are computed twice, but there is work for many threads */

#include "kernels/cpu/attention_key_range.h"
#include "kernels/cpu/cpu.h"

enum {
    TILE = ATTENTION_KEY_TILE,   /* rows of a query tile, and keys of a key tile */
    SCRATCH_TILES = 8,           /* number of [TILE, dim] buffers in struct backward_scratch */
    HEAD_ITEM_PRODUCTS = 5,      /* matrix products that head items compute per pair of tiles */
    TILE_ITEM_PRODUCTS = 7,      /* matrix products that tile items compute per pair of tiles */
    DQ_SUM_FLOATS_MAX = 1 << 18, /* limit of 1 MiB per thread for the dq sums of bf16 tensors */
};

struct backward_call {
    const struct attention_args *args;
    const struct attention_kernels *kernels;
    const char *q, *k, *v, *out, *dout; /* forward operands and output; gradient of out */
    const float *lse;                   /* log of each row's softmax sum */
    const int32_t *positions; /* positions of the tokens; NULL: each row is a single document */
    char *dq, *dk, *dv;       /* gradients of q, k and v */
    float *delta;             /* [rows, heads, time]: dout . out of each query, in the workspace */
    float *scratch;           /* one struct backward_scratch for each thread */
    bool use_head_items;      /* true: head items; false: tile items */
};

struct backward_scratch {
    float *queries, *douts, *dqueries;          /* [TILE, dim] */
    float *keys, *dkeys, *dvalues;              /* [TILE, dim] */
    float *keys_transposed, *values_transposed; /* [dim, TILE] */
    float *scores, *score_gradients;            /* [TILE, TILE] */
    float *dq_sums; /* f32 sums of dq for all heads of a group; only in head items with bf16 */
};

struct query_range {
    int64_t row, head, token, tokens;              /* tokens [token, token + tokens) of one head */
    struct attention_key_range visible_keys[TILE]; /* [query] keys that the query sees */
    int64_t first_key; /* the lowest key that any query in the range sees */
};

struct key_range {
    int64_t row, kv_head, key, count; /* keys [key, key + count) of one key-value head */
};

static int64_t heads_per_group(const struct attention_args *args) {
    return args->heads / args->kv_heads;
}

static int64_t dq_sum_float_count(const struct attention_args *args) {
    return args->dtype == DTYPE_F32
               ? 0
               : heads_per_group(args) * args->time * attention_padded_dim(args);
}

static bool can_use_head_items(const struct attention_args *args, int threads) {
    int64_t items = args->rows * args->kv_heads;
    int64_t tiles = attention_tile_count(args->time, TILE);
    int64_t head_cost = HEAD_ITEM_PRODUCTS * attention_tile_count(items, threads) * tiles;
    int64_t tile_cost = TILE_ITEM_PRODUCTS * attention_tile_count(items * tiles, threads);
    return dq_sum_float_count(args) <= DQ_SUM_FLOATS_MAX && head_cost <= tile_cost;
}

static int64_t scratch_float_count(const struct attention_args *args, bool use_head_items) {
    int64_t tiles = SCRATCH_TILES * TILE * attention_padded_dim(args) + 2 * TILE * TILE;
    return tiles + (use_head_items ? dq_sum_float_count(args) : 0);
}

static int64_t delta_float_count(const struct attention_args *args) {
    return attention_round_up(args->rows * args->heads * args->time, ATTENTION_LANES);
}

static struct backward_scratch thread_scratch(const struct backward_call *call, int thread) {
    int64_t size = TILE * attention_padded_dim(call->args);
    float *base = call->scratch + thread * scratch_float_count(call->args, call->use_head_items);
    struct backward_scratch scratch = {
        .queries = base,
        .douts = base + size,
        .dqueries = base + 2 * size,
        .keys = base + 3 * size,
        .dkeys = base + 4 * size,
        .dvalues = base + 5 * size,
        .keys_transposed = base + 6 * size,
        .values_transposed = base + 7 * size,
        .scores = base + SCRATCH_TILES * size,
        .score_gradients = base + SCRATCH_TILES * size + TILE * TILE,
        .dq_sums = base + SCRATCH_TILES * size + 2 * TILE * TILE,
    };
    return scratch;
}

static int64_t token_offset_bytes(const struct attention_args *args, int64_t row, int64_t token,
                                  int64_t stride, int64_t head) {
    int64_t element = (row * args->time + token) * stride + head * args->head_dim;
    return element * dtype_bytes(args->dtype);
}

static struct attention_layout make_block(const struct attention_args *args, int64_t rows,
                                          int64_t stride) {
    return (struct attention_layout){rows, args->head_dim, stride, args->dtype};
}

/* Compute delta of each query for one tile of tokens of every head: the mean of the gradients of
 * the query's probabilities, weighted by the probabilities. */
static void run_delta_item(void *context, int64_t item, int thread) {
    const struct backward_call *call = context;
    const struct attention_args *args = call->args;
    struct backward_scratch scratch = thread_scratch(call, thread);
    int64_t tiles = attention_tile_count(args->time, TILE);
    int64_t row = item / tiles;
    int64_t token = item % tiles * TILE;
    int64_t tokens = attention_min(TILE, args->time - token);
    struct attention_layout block = make_block(args, tokens, args->out_stride);
    for (int64_t head = 0; head < args->heads; head++) {
        int64_t bytes = token_offset_bytes(args, row, token, args->out_stride, head);
        call->kernels->load_rows(&block, call->out + bytes, scratch.queries);
        call->kernels->load_rows(&block, call->dout + bytes, scratch.douts);
        call->kernels->row_dots(scratch.queries, scratch.douts, tokens, attention_padded_dim(args),
                                call->delta + (row * args->heads + head) * args->time + token);
    }
}

static void init_query_range(const struct backward_call *call, int64_t row, int64_t head,
                             int64_t token, struct query_range *range) {
    const struct attention_args *args = call->args;
    range->row = row;
    range->head = head;
    range->token = token;
    range->tokens = attention_min(TILE, args->time - token);
    range->first_key = token;
    for (int64_t r = 0; r < range->tokens; r++) {
        int64_t depth = call->positions[row * args->time + token + r];
        range->visible_keys[r] = attention_key_range_of(args, token + r, depth);
        range->first_key = attention_min(range->first_key, range->visible_keys[r].first);
    }
}

/* Loads the queries of a range and the gradients of their outputs. Products compute whole groups of
 * rows, so the rows after the last query are set to 0. */
static void load_queries(const struct backward_call *call, const struct query_range *range,
                         const struct backward_scratch *scratch) {
    const struct attention_args *args = call->args;
    int64_t dim = attention_padded_dim(args);
    struct attention_layout queries = make_block(args, range->tokens, args->q_stride);
    struct attention_layout douts = make_block(args, range->tokens, args->out_stride);
    int64_t q = token_offset_bytes(args, range->row, range->token, args->q_stride, range->head);
    int64_t dout =
        token_offset_bytes(args, range->row, range->token, args->out_stride, range->head);
    call->kernels->load_rows(&queries, call->q + q, scratch->queries);
    call->kernels->load_rows(&douts, call->dout + dout, scratch->douts);
    if (range->token + 2 * TILE <= args->time) {
        int64_t tile = TILE * dtype_bytes(args->dtype);
        attention_prefetch(&queries, call->q + q + tile * args->q_stride);
        attention_prefetch(&douts, call->dout + dout + tile * args->out_stride);
    }
    int64_t rows = attention_round_up(range->tokens, ATTENTION_ROW_GROUP) - range->tokens;
    size_t bytes = (size_t)(rows * dim) * sizeof(float);
    memset(scratch->queries + range->tokens * dim, 0, bytes);
    memset(scratch->douts + range->tokens * dim, 0, bytes);
}

static void load_keys(const struct backward_call *call, const struct key_range *range,
                      const struct backward_scratch *scratch) {
    const struct attention_args *args = call->args;
    struct attention_layout block = make_block(args, range->count, args->kv_stride);
    int64_t bytes =
        token_offset_bytes(args, range->row, range->key, args->kv_stride, range->kv_head);
    call->kernels->load_rows(&block, call->k + bytes, scratch->keys);
    call->kernels->load_columns(&block, call->k + bytes, scratch->keys_transposed);
    call->kernels->load_columns(&block, call->v + bytes, scratch->values_transposed);
}

/* Clear the columns that no row of the strip sees, because sums over rows include them. */
static void zero_invisible_columns(float *strip, int64_t rows, int64_t low, int64_t high) {
    if (low == 0 && high == TILE) {
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        memset(strip + r * TILE, 0, (size_t)low * sizeof(float));
        memset(strip + r * TILE + high, 0, (size_t)(TILE - high) * sizeof(float));
    }
}

/* Compute the probabilities and the gradients of the scores of one strip, and dq if `want_dq`. */
static void process_query_strip(const struct backward_call *call, const struct query_range *range,
                                const struct backward_scratch *scratch, int64_t row,
                                const struct attention_strip_key_range *visible, bool want_dq) {
    const struct attention_args *args = call->args;
    int64_t dim = attention_padded_dim(args);
    int64_t rows = attention_min(ATTENTION_STRIP, range->tokens - row);
    int64_t columns = attention_round_up(visible->high, ATTENTION_LANES) - visible->low;
    float *scores = scratch->scores + row * TILE + visible->low;
    float *score_gradients = scratch->score_gradients + row * TILE + visible->low;
    struct attention_product product = {
        .m = attention_round_up(rows, ATTENTION_ROW_GROUP),
        .n = columns,
        .k = args->head_dim,
        .a = scratch->queries + row * dim,
        .a_row_stride = dim,
        .a_k_stride = 1,
        .b = scratch->keys_transposed + visible->low,
        .b_stride = TILE,
        .c = scores,
        .c_stride = TILE,
    };
    call->kernels->product(&product);
    product.a = scratch->douts + row * dim;
    product.b = scratch->values_transposed + visible->low;
    product.c = score_gradients;
    call->kernels->product(&product);
    int64_t stats = (range->row * args->heads + range->head) * args->time + range->token + row;
    struct attention_strip strip = {
        .rows = rows,
        .columns = columns,
        .stride = TILE,
        .first = visible->first,
        .last = visible->last,
        .is_row_complete = visible->is_row_complete,
        .scale = args->scale,
        .scores = scores,
    };
    call->kernels->score_gradients(&strip, call->lse + stats, call->delta + stats, score_gradients);
    zero_invisible_columns(scratch->scores + row * TILE, rows, visible->low,
                           visible->low + columns);
    zero_invisible_columns(scratch->score_gradients + row * TILE, rows, visible->low,
                           visible->low + columns);
    if (want_dq) {
        product.n = dim;
        product.k = visible->high - visible->low;
        product.a = score_gradients;
        product.a_row_stride = TILE;
        product.b = scratch->keys + visible->low * dim;
        product.b_stride = dim;
        product.c = scratch->dqueries + row * dim;
        product.c_stride = dim;
        product.accumulate = true;
        call->kernels->product(&product);
    }
}

/* Add the terms of the query rows [row, row + rows) to dk and dv of sixteen keys. */
static void process_key_strip(const struct backward_call *call,
                              const struct backward_scratch *scratch, int64_t column, int64_t row,
                              int64_t rows) {
    int64_t dim = attention_padded_dim(call->args);
    struct attention_product product = {
        .m = ATTENTION_STRIP,
        .n = dim,
        .k = rows,
        .a = scratch->scores + row * TILE + column,
        .a_row_stride = 1,
        .a_k_stride = TILE,
        .b = scratch->douts + row * dim,
        .b_stride = dim,
        .c = scratch->dvalues + column * dim,
        .c_stride = dim,
        .accumulate = true,
    };
    call->kernels->product(&product);
    product.a = scratch->score_gradients + row * TILE + column;
    product.b = scratch->queries + row * dim;
    product.c = scratch->dkeys + column * dim;
    call->kernels->product(&product);
}

/* Processes one pair of a query tile and a key tile. The sums of a key include all query rows from
 * the first strip that sees it to the last one; rows that do not see it add 0. */
static void process_tile_pair(const struct backward_call *call, const struct query_range *queries,
                              const struct key_range *keys, const struct backward_scratch *scratch,
                              bool want_dq, bool want_dkv) {
    int64_t begin[TILE / ATTENTION_STRIP];
    int64_t end[TILE / ATTENTION_STRIP] = {0};
    for (int64_t row = 0; row < queries->tokens; row += ATTENTION_STRIP) {
        int64_t rows = attention_min(ATTENTION_STRIP, queries->tokens - row);
        struct attention_strip_key_range visible;
        if (!attention_strip_key_range_of(queries->visible_keys + row, rows, keys->key, keys->count,
                                          &visible)) {
            zero_invisible_columns(scratch->scores + row * TILE, rows, 0, 0);
            zero_invisible_columns(scratch->score_gradients + row * TILE, rows, 0, 0);
            continue;
        }
        process_query_strip(call, queries, scratch, row, &visible, want_dq);
        for (int64_t c = visible.low; c < visible.high; c += ATTENTION_STRIP) {
            int64_t strip = c / ATTENTION_STRIP;
            begin[strip] = end[strip] == 0 ? row : begin[strip];
            end[strip] = row + rows;
        }
    }
    for (int64_t c = 0; c < keys->count && want_dkv; c += ATTENTION_STRIP) {
        int64_t strip = c / ATTENTION_STRIP;
        if (end[strip] != 0) {
            process_key_strip(call, scratch, c, begin[strip], end[strip] - begin[strip]);
        }
    }
}

/* Return the buffer in which head items sum dq: the output itself if it is f32. */
static float *find_dq_sums(const struct backward_call *call, const struct query_range *range,
                           const struct backward_scratch *scratch, struct attention_layout *block) {
    const struct attention_args *args = call->args;
    *block = make_block(args, range->tokens, args->q_stride);
    if (args->dtype == DTYPE_F32) {
        return (float *)(void *)(call->dq + token_offset_bytes(args, range->row, range->token,
                                                               args->q_stride, range->head));
    }
    int64_t dim = attention_padded_dim(args);
    *block = (struct attention_layout){range->tokens, dim, dim, DTYPE_F32};
    int64_t group_head = range->head % heads_per_group(args);
    return scratch->dq_sums + (group_head * args->time + range->token) * dim;
}

/* Process one tile of keys with all tiles of queries that see it. */
static void process_key_tile(const struct backward_call *call, const struct key_range *keys,
                             const struct backward_scratch *scratch) {
    const struct attention_args *args = call->args;
    size_t bytes = (size_t)(TILE * attention_padded_dim(args)) * sizeof(float);
    load_keys(call, keys, scratch);
    memset(scratch->dkeys, 0, bytes);
    memset(scratch->dvalues, 0, bytes);
    for (int64_t i = 0; i < heads_per_group(args); i++) {
        int64_t head = keys->kv_head * heads_per_group(args) + i;
        for (int64_t token = keys->key; token < args->time; token += TILE) {
            struct query_range queries;
            init_query_range(call, keys->row, head, token, &queries);
            if (queries.first_key >= keys->key + keys->count) {
                continue;
            }
            struct attention_layout block;
            float *sums = find_dq_sums(call, &queries, scratch, &block);
            load_queries(call, &queries, scratch);
            if (call->use_head_items) {
                call->kernels->load_rows(&block, sums, scratch->dqueries);
            }
            process_tile_pair(call, &queries, keys, scratch, call->use_head_items, true);
            if (call->use_head_items) {
                call->kernels->store_rows(&block, scratch->dqueries, NULL, sums);
            }
        }
    }
    struct attention_layout block = make_block(args, keys->count, args->kv_stride);
    int64_t start = token_offset_bytes(args, keys->row, keys->key, args->kv_stride, keys->kv_head);
    call->kernels->store_rows(&block, scratch->dkeys, NULL, call->dk + start);
    call->kernels->store_rows(&block, scratch->dvalues, NULL, call->dv + start);
}

static void run_key_tile_item(void *context, int64_t item, int thread) {
    const struct backward_call *call = context;
    const struct attention_args *args = call->args;
    struct backward_scratch scratch = thread_scratch(call, thread);
    int64_t heads = args->rows * args->kv_heads;
    int64_t key = item / heads * TILE;
    struct key_range keys = {
        .row = item % heads / args->kv_heads,
        .kv_head = item % args->kv_heads,
        .key = key,
        .count = attention_min(TILE, args->time - key),
    };
    process_key_tile(call, &keys, &scratch);
}

/* The last tiles of queries see the most keys, so the first items process them. */
static void run_query_tile_item(void *context, int64_t item, int thread) {
    const struct backward_call *call = context;
    const struct attention_args *args = call->args;
    struct backward_scratch scratch = thread_scratch(call, thread);
    int64_t heads = args->rows * args->heads;
    int64_t tile = attention_tile_count(args->time, TILE) - 1 - item / heads;
    int64_t head = item % args->heads;
    struct query_range queries;
    init_query_range(call, item % heads / args->heads, head, tile * TILE, &queries);
    load_queries(call, &queries, &scratch);
    memset(scratch.dqueries, 0, (size_t)(TILE * attention_padded_dim(args)) * sizeof(float));
    int64_t last = queries.token + queries.tokens;
    for (int64_t key = queries.first_key - queries.first_key % TILE; key < last; key += TILE) {
        int64_t count = attention_min(TILE, args->time - key);
        struct key_range keys = {queries.row, head / heads_per_group(args), key, count};
        load_keys(call, &keys, &scratch);
        process_tile_pair(call, &queries, &keys, &scratch, true, false);
    }
    struct attention_layout block = make_block(args, queries.tokens, args->q_stride);
    int64_t start = token_offset_bytes(args, queries.row, queries.token, args->q_stride, head);
    call->kernels->store_rows(&block, scratch.dqueries, NULL, call->dq + start);
}

/* Process one key-value head of one row: dq starts at 0, gets a term from each tile of keys, and
 * for bf16 is rounded at the end. */
static void run_head_item(void *context, int64_t item, int thread) {
    const struct backward_call *call = context;
    const struct attention_args *args = call->args;
    struct backward_scratch scratch = thread_scratch(call, thread);
    struct key_range keys = {.row = item / args->kv_heads, .kv_head = item % args->kv_heads};
    struct query_range range = {.row = keys.row, .tokens = args->time};
    int64_t first_head = keys.kv_head * heads_per_group(args);
    struct attention_layout block;
    for (range.head = first_head; range.head < first_head + heads_per_group(args); range.head++) {
        float *sums = find_dq_sums(call, &range, &scratch, &block);
        for (int64_t t = 0; t < args->time; t++) {
            memset(sums + t * block.stride, 0, (size_t)block.dim * sizeof(float));
        }
    }
    for (keys.key = 0; keys.key < args->time; keys.key += TILE) {
        keys.count = attention_min(TILE, args->time - keys.key);
        process_key_tile(call, &keys, &scratch);
    }
    struct attention_layout rounded = make_block(args, args->time, args->q_stride);
    for (range.head = first_head;
         args->dtype != DTYPE_F32 && range.head < first_head + heads_per_group(args);
         range.head++) {
        call->kernels->store_rows(
            &rounded, find_dq_sums(call, &range, &scratch, &block), NULL,
            call->dq + token_offset_bytes(args, range.row, 0, args->q_stride, range.head));
    }
}

uint64_t attention_backward_workspace_bytes(const struct attention_args *args, int threads) {
    attention_check_args(args);
    int64_t floats = delta_float_count(args) +
                     scratch_float_count(args, can_use_head_items(args, threads)) * threads;
    return (uint64_t)floats * sizeof(float);
}

void attention_backward(const struct compute *compute, const struct attention_args *args,
                        const void *q, const void *k, const void *v, const void *out,
                        const float *lse, const void *dout, const int32_t *positions, void *dq,
                        void *dk, void *dv, void *workspace) {
    attention_check_args(args);
    ASSERT(positions && lse);
    struct backward_call call = {
        .args = args,
        .kernels = &compute->table->attention,
        .q = q,
        .k = k,
        .v = v,
        .out = out,
        .dout = dout,
        .lse = lse,
        .positions = positions,
        .dq = dq,
        .dk = dk,
        .dv = dv,
        .delta = workspace,
        .scratch = (float *)workspace + delta_float_count(args),
        .use_head_items = can_use_head_items(args, compute->pool->thread_count),
    };
    int64_t tiles = attention_tile_count(args->time, TILE);
    pool_run(compute->pool, run_delta_item, &call, args->rows * tiles);
    if (call.use_head_items) {
        pool_run(compute->pool, run_head_item, &call, args->rows * args->kv_heads);
    } else {
        pool_run(compute->pool, run_key_tile_item, &call, args->rows * args->kv_heads * tiles);
        pool_run(compute->pool, run_query_tile_item, &call, args->rows * args->heads * tiles);
    }
}
