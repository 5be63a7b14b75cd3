#include "kernels/matmul.h"

#include "base/check.h"
#include "kernels/cpu/cpu.h"

#include <stddef.h>

/* A block of A is packed once, read by all threads, and stays in the shared cache. A strip of B is
 * packed by the thread that multiplies it and stays in that core's private cache. For each strip, a
 * thread runs through the block of A once, so that B is packed once for each block of rows of A,
 * without waiting for other threads.
 *
 *              columns (strips of 64)
 *           +--------+--------+--------
 *   depth   | strip  |        |            B
 *           +--------+--------+--------
 *  +-----+  +--------+--------+--------
 *  |panel|  | tile   |        |            C
 *  +-----+  +--------+--------+--------
 *  |panel|  | tile   |        |
 */
enum {
    A_BLOCK_BYTES = 4 << 20, /* of packed A: the part of the third-level cache that it may fill */
    SUM_BLOCK_BYTES = 4 << 20,
    DEPTH_BYTES = 4096, /* of one lane: a strip is 256 KiB, a quarter of a second-level cache */
    DEPTH_ALIGN = 32,   /* so that the panels of the last block consist of whole words */
    /* rows of a [depth, lanes] source that stay in the cache until they are read again */
    CHUNK_DEPTH = 64,
    /* panels of A in one item of packing; they share cache lines of their source */
    PACK_TILES_MAX = 8,
    PART_TILES_MIN = 4, /* panels of A that a packed strip of B is used for, at least */
    WORKSPACE_ALIGN = 64,
    LINE_BYTES = 64,
};

/* The blocks of one product. They do not depend on the thread count. */
struct blocks {
    int64_t rows, depth, columns;
};

struct job {
    const struct matmul_args *args;
    const struct matmul_kernel *kernel;
    const char *a, *b;
    const void *bias;
    char *c;
    struct blocks blocks;
    char *a_packed, *strips;
    float *sums; /* NULL: C holds the sums between blocks of depth */
    /* the current block */
    int64_t row, rows, tiles;
    int64_t column, columns;
    int64_t depth_at, depth;
    /* its distribution to threads: depends on the thread count, but never changes a bit */
    int threads;
    int64_t pack_tiles; /* panels of A in one item of packing */
    int64_t parts;      /* into which the rows are divided; items = strips x parts */
};

static int64_t ceil_div(int64_t value, int64_t divisor) {
    return (value + divisor - 1) / divisor;
}

static int64_t round_up(int64_t value, int64_t multiple) {
    return ceil_div(value, multiple) * multiple;
}

static int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The size of blocks of at most `limit`, as equal as possible. */
static int64_t even_block(int64_t size, int64_t limit) {
    return ceil_div(size, ceil_div(size, limit));
}

static bool sums_apart(const struct matmul_args *args, int64_t depth) {
    return args->dtype_out == DTYPE_BF16 && depth < args->k;
}

static struct blocks cut_blocks(const struct matmul_args *args, int64_t packed_bytes) {
    struct blocks blocks;
    blocks.depth = round_up(even_block(args->k, DEPTH_BYTES / packed_bytes), DEPTH_ALIGN);
    blocks.rows = even_block(args->m, A_BLOCK_BYTES / (blocks.depth * packed_bytes));
    blocks.columns = args->n;
    if (sums_apart(args, blocks.depth)) {
        int64_t limit = SUM_BLOCK_BYTES / (int64_t)sizeof(float) / blocks.rows;
        blocks.columns = min_of(args->n, limit / MATMUL_STRIP * MATMUL_STRIP);
    }
    return blocks;
}

static int64_t a_packed_bytes(const struct matmul_args *args) {
    int64_t whole = args->m * round_up(args->k, DEPTH_ALIGN) * (int64_t)sizeof(float);
    return min_of(round_up(whole, WORKSPACE_ALIGN), A_BLOCK_BYTES);
}

static int64_t strip_bytes(const struct matmul_args *args) {
    int64_t depth_bytes = round_up(args->k, DEPTH_ALIGN) * (int64_t)sizeof(float);
    return MATMUL_STRIP * min_of(depth_bytes, DEPTH_BYTES);
}

static int64_t sum_bytes(const struct matmul_args *args) {
    if (!sums_apart(args, DEPTH_BYTES / (int64_t)sizeof(float))) {
        return 0;
    }
    int64_t whole = args->m * args->n * (int64_t)sizeof(float);
    return min_of(round_up(whole, WORKSPACE_ALIGN), SUM_BLOCK_BYTES);
}

uint64_t matmul_workspace_bytes(const struct matmul_args *args, int threads) {
    return (uint64_t)(a_packed_bytes(args) + sum_bytes(args) + threads * strip_bytes(args));
}

static int64_t tile_start(const struct job *job, int64_t tile) {
    return job->rows * tile / job->tiles;
}

/* Bytes of packed panels for `lanes` lanes of the current block. */
static int64_t packed_offset(const struct job *job, int64_t lanes) {
    return lanes * round_up(job->depth, job->kernel->group) * job->kernel->packed_bytes;
}

static const char *source_at(const struct job *job, const char *base, int64_t stride, bool adjoin,
                             int64_t lane, int64_t depth) {
    int64_t index = adjoin ? depth * stride + lane : lane * stride + depth;
    return base + index * dtype_bytes(job->args->dtype_in);
}

static const char *b_at(const struct job *job, int64_t column, int64_t depth) {
    return source_at(job, job->b, job->args->ldb, !job->args->transpose_b, column, depth);
}

/* Whether the current block ends the sums. */
static bool is_last(const struct job *job) {
    return job->depth_at + job->depth == job->args->k;
}

/* A source [depth, lanes] is packed in short pieces of depth, so that its cache lines and pages are
 * still present for the next panel. A source [lanes, depth] is packed in one piece, which suits
 * hardware prefetching. */
static int64_t chunk_depth(const struct job *job, bool lanes_adjoin) {
    return lanes_adjoin ? CHUNK_DEPTH : job->depth;
}

/* Pack a range of depth of the panel that starts at `out`. */
static void pack_piece(const struct job *job, struct matmul_pack *pack, const char *base,
                       int64_t lane, int64_t depth, char *out) {
    pack->depth = min_of(chunk_depth(job, pack->lanes_adjoin), job->depth - depth);
    pack->source =
        source_at(job, base, pack->stride, pack->lanes_adjoin, lane, job->depth_at + depth);
    pack->out = out + depth * pack->width * job->kernel->packed_bytes;
    job->kernel->pack(pack);
}

static void pack_a_task(void *context, int64_t item, int thread) {
    (void)thread;
    const struct job *job = context;
    struct matmul_pack pack = {.stride = job->args->lda, .lanes_adjoin = job->args->transpose_a};
    int64_t first = item * job->pack_tiles;
    int64_t end = min_of(first + job->pack_tiles, job->tiles);
    int64_t chunk = chunk_depth(job, pack.lanes_adjoin);
    for (int64_t depth = 0; depth < job->depth; depth += chunk) {
        for (int64_t tile = first; tile < end; tile++) {
            int64_t row = tile_start(job, tile);
            pack.lanes = pack.width = tile_start(job, tile + 1) - row;
            pack_piece(job, &pack, job->a, job->row + row, depth,
                       job->a_packed + packed_offset(job, row));
        }
    }
}

static void pack_strip(const struct job *job, int64_t column, int64_t columns, char *strip) {
    int64_t width = job->kernel->columns;
    struct matmul_pack pack = {
        .stride = job->args->ldb, .lanes_adjoin = !job->args->transpose_b, .width = width};
    int64_t chunk = chunk_depth(job, pack.lanes_adjoin);
    for (int64_t depth = 0; depth < job->depth; depth += chunk) {
        for (int64_t at = 0; at < columns; at += width) {
            pack.lanes = min_of(width, columns - at);
            pack_piece(job, &pack, job->b, column + at, depth, strip + packed_offset(job, at));
        }
    }
}

/* The work of one item: a strip of B times some panels of A. */
struct strip {
    int64_t column, columns;
    int64_t tile, tile_end;
    int64_t next_column; /* first column of the strip that this thread probably processes next */
    bool in_place;       /* B is read directly, without packing */
    const char *b;
    int64_t b_stride;
    float bias[MATMUL_STRIP];
};

static void load_bias(const struct job *job, struct strip *strip) {
    for (int64_t j = 0; j < strip->columns; j++) {
        if (job->args->dtype_in == DTYPE_F32) {
            strip->bias[j] = ((const float *)job->bias)[strip->column + j];
        } else {
            strip->bias[j] = bf16_to_f32(((const uint16_t *)job->bias)[strip->column + j]);
        }
    }
}

/* Set the buffers from which the tile at (row, column) of C reads earlier sums and to which it
 * writes. */
static void place_tile(const struct job *job, struct matmul_tile *tile, int64_t row,
                       int64_t column) {
    const struct matmul_args *args = job->args;
    bool first = job->depth_at == 0;
    float *apart = NULL;
    if (job->sums != NULL) {
        apart = job->sums + (row - job->row) * job->blocks.columns + (column - job->column);
    }
    tile->dtype_out = args->dtype_out;
    tile->out_stride = args->ldc;
    tile->out = job->c + (row * args->ldc + column) * dtype_bytes(args->dtype_out);
    tile->sum = first && !args->accumulate ? NULL : tile->out;
    tile->sum_stride = args->ldc;
    if (apart != NULL) {
        tile->sum = first ? NULL : apart;
        tile->sum_stride = job->blocks.columns;
    }
    if (apart != NULL && !is_last(job)) {
        tile->dtype_out = DTYPE_F32;
        tile->out = apart;
        tile->out_stride = job->blocks.columns;
    }
}

/* Prefetch the next strip of B while this one is multiplied. Each call of a tile fetches a few
 * cache lines, along the rows of [lanes, depth] or down the rows of [depth, lanes]. */
static void aim_ahead(const struct job *job, const struct strip *strip, int64_t call,
                      struct matmul_tile *tile) {
    int64_t bytes = dtype_bytes(job->args->dtype_in);
    int64_t lines = tile->steps / MATMUL_AHEAD_STEPS;
    tile->ahead = tile->b;
    tile->ahead_stride = 0;
    int64_t end = job->column + job->columns;
    if (strip->next_column >= end || strip->next_column == strip->column) {
        return;
    }
    int64_t column = strip->next_column;
    int64_t depth = job->depth_at;
    if (job->args->transpose_b) {
        int64_t row_lines = ceil_div(job->depth * bytes, LINE_BYTES);
        column += call * lines / row_lines;
        depth += call * lines % row_lines * LINE_BYTES / bytes;
        tile->ahead_stride = LINE_BYTES;
    } else {
        int64_t across = MATMUL_STRIP * bytes / LINE_BYTES;
        column += call % across * LINE_BYTES / bytes;
        depth += call / across * lines;
        tile->ahead_stride = job->args->ldb * bytes;
    }
    if (column < min_of(end, strip->next_column + MATMUL_STRIP) &&
        depth < job->depth_at + job->depth) {
        tile->ahead = b_at(job, column, depth);
    } else {
        tile->ahead_stride = 0;
    }
}

/* Read the rows of B directly if each is used only once, because packing would not pay. */
static bool reads_in_place(const struct job *job, int64_t columns) {
    return job->tiles == 1 && !job->args->transpose_b && job->args->dtype_in == DTYPE_F32 &&
           columns % job->kernel->columns == 0;
}

static void strip_init(const struct job *job, int64_t item, int thread, struct strip *strip) {
    const struct matmul_kernel *kernel = job->kernel;
    int64_t part = item % job->parts;
    int64_t at = item / job->parts * MATMUL_STRIP;
    strip->column = job->column + at;
    strip->columns = min_of(MATMUL_STRIP, job->columns - at);
    strip->next_column = job->column + (item + job->threads) / job->parts * MATMUL_STRIP;
    strip->tile = job->tiles * part / job->parts;
    strip->tile_end = job->tiles * (part + 1) / job->parts;
    if (job->bias != NULL && is_last(job)) {
        load_bias(job, strip);
    }
    strip->in_place = reads_in_place(job, strip->columns);
    if (strip->in_place) {
        strip->b = b_at(job, strip->column, job->depth_at);
        strip->b_stride = job->args->ldb * (int64_t)sizeof(float);
    } else {
        char *packed = job->strips + thread * strip_bytes(job->args);
        pack_strip(job, strip->column, strip->columns, packed);
        strip->b = packed;
        strip->b_stride = (int64_t)kernel->columns * kernel->group * kernel->packed_bytes;
    }
}

static void multiply_task(void *context, int64_t item, int thread) {
    const struct job *job = context;
    const struct matmul_kernel *kernel = job->kernel;
    struct strip strip;
    strip_init(job, item, thread, &strip);
    bool biased = job->bias != NULL && is_last(job);
    struct matmul_tile tile = {.b_stride = strip.b_stride,
                               .steps = ceil_div(job->depth, kernel->group)};
    int64_t call = 0;
    for (int64_t t = strip.tile; t < strip.tile_end; t++) {
        int64_t row = tile_start(job, t);
        tile.rows = (int)(tile_start(job, t + 1) - row);
        tile.a = job->a_packed + packed_offset(job, row);
        for (int64_t at = 0; at < strip.columns; at += kernel->columns) {
            tile.columns = (int)min_of(kernel->columns, strip.columns - at);
            tile.b =
                strip.b + (strip.in_place ? at * (int64_t)sizeof(float) : packed_offset(job, at));
            tile.bias = biased ? strip.bias + at : NULL;
            place_tile(job, &tile, job->row + row, strip.column + at);
            aim_ahead(job, &strip, call++, &tile);
            kernel->tile(&tile);
        }
    }
}

/* The smallest number of parts that keeps threads busy for at least 15/16 of the time, with parts
 * tall enough for the packing of B to pay. */
static int64_t count_parts(int64_t strips, int64_t tiles, int threads) {
    int64_t parts = 1;
    while (tiles / (parts + 1) >= PART_TILES_MIN) {
        int64_t items = strips * parts;
        int64_t slots = round_up(items, threads);
        if (items * 16 >= slots * 15) {
            break;
        }
        parts++;
    }
    return parts;
}

static void run_block(const struct compute *compute, struct job *job) {
    job->threads = compute->pool->thread_count;
    job->pack_tiles = min_of(ceil_div(job->tiles, 2 * job->threads), PACK_TILES_MAX);
    pool_run(compute->pool, pack_a_task, job, ceil_div(job->tiles, job->pack_tiles));
    int64_t strips = ceil_div(job->columns, MATMUL_STRIP);
    job->parts = count_parts(strips, job->tiles, job->threads);
    pool_run(compute->pool, multiply_task, job, strips * job->parts);
}

static void check_args(const struct matmul_args *args, const void *bias) {
    ASSERT(args->m >= 1 && args->n >= 1 && args->k >= 1);
    ASSERT(args->lda >= (args->transpose_a ? args->m : args->k));
    ASSERT(args->ldb >= (args->transpose_b ? args->k : args->n));
    ASSERT(args->ldc >= args->n);
    ASSERT(args->dtype_in == DTYPE_F32 || args->dtype_in == DTYPE_BF16);
    ASSERT(args->dtype_out == DTYPE_F32 || args->dtype_out == DTYPE_BF16);
    ASSERT(!args->accumulate || (args->dtype_out == DTYPE_F32 && !args->bias));
    ASSERT(args->bias == (bias != NULL));
}

void matmul_run(const struct compute *compute, const struct matmul_args *args, const void *a,
                const void *b, const void *bias, void *c, void *workspace) {
    check_args(args, bias);
    ASSERT((uintptr_t)workspace % WORKSPACE_ALIGN == 0);
    const struct matmul_kernels *kernels = &compute->table->matmul;
    struct job job = {.args = args, .a = a, .b = b, .bias = bias, .c = c};
    job.kernel = args->dtype_in == DTYPE_F32 ? &kernels->f32 : &kernels->bf16;
    job.blocks = cut_blocks(args, job.kernel->packed_bytes);
    job.a_packed = workspace;
    job.strips = job.a_packed + a_packed_bytes(args);
    if (sums_apart(args, job.blocks.depth)) {
        job.sums = (float *)(void *)job.strips;
        job.strips += sum_bytes(args);
    }
    for (job.row = 0; job.row < args->m; job.row += job.blocks.rows) {
        job.rows = min_of(job.blocks.rows, args->m - job.row);
        job.tiles = ceil_div(job.rows, job.kernel->rows);
        for (job.column = 0; job.column < args->n; job.column += job.blocks.columns) {
            job.columns = min_of(job.blocks.columns, args->n - job.column);
            for (job.depth_at = 0; job.depth_at < args->k; job.depth_at += job.blocks.depth) {
                job.depth = min_of(job.blocks.depth, args->k - job.depth_at);
                run_block(compute, &job);
            }
        }
    }
}
