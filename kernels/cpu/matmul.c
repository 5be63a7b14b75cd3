#include "kernels/matmul.h"
#include "base/bytes.h"

#include "base/bytes.h"
#include "base/check.h"
#include "kernels/cpu/cpu.h"

#include <stddef.h>

/* A block of A is packed once, read by all threads, and stays in the shared cache. A strip of B is
 * packed by the thread that multiplies it and stays in that core's private cache. For each strip, a
 * thread reads the block of A once, so that B is packed once for each block of rows of A, without
 * waiting for other threads.
 *
 *              columns (strips of 64)
 *           +--------+--------+--------
 *   depth   | strip  |        |            B
 *           +--------+--------+--------
 *  +-----+  +--------+--------+--------
 *  |panel|  | tile   |        |            C
 *  +-----+  +--------+--------+--------
 *  |panel|  | tile   |        |
 * / */
enum {
    A_BLOCK_BYTES = 4 << 20,   /* size of a block of packed A, which fills a part of the L3 cache */
    SUM_BLOCK_BYTES = 4 << 20, /* maximum size of a block of partial sums */
    /* maximum size of a packed row of A or column of B in a block; a strip of 64 such columns is
     * 256 KiB, a quarter of an L2 cache */
    DEPTH_BYTES = 4096,
    /* depths are multiples of this, so that the panels of the last block are whole words */
    DEPTH_ALIGN = 32,
    /* number of depths of a [depth, rows or columns] source that stay in the cache until they are
     * read again */
    CHUNK_DEPTH = 64,
    /* maximum number of panels of A that one packing item packs; they share cache lines of A */
    PACK_TILES_MAX = 8,
    PART_TILES_MIN = 4,   /* minimum number of panels of A that one packed strip of B multiplies */
    WORKSPACE_ALIGN = 64, /* bytes */
    CACHE_LINE_BYTES = 64,
};

/* The sizes of the blocks of one product. They do not depend on the thread count. */
struct block_sizes {
    int64_t rows, depth, columns; /* elements of one block along each dimension */
};

struct matmul_call {
    const struct matmul_args *args;
    const struct matmul_kernel *kernel;
    const char *a, *b; /* operands of the product */
    const void *bias;  /* added to each row of C; NULL: none */
    char *c;           /* result of the product */
    struct block_sizes block_sizes;
    char *a_packed, *strips; /* packed panels of A; packed strips of B, one for each thread */
    float *sums;             /* partial sums between blocks of depth; NULL: C holds them */
    /* first row, number of rows and number of tiles of the current block */
    int64_t row, rows, tiles;
    int64_t column, columns; /* first column and number of columns of the current block */
    /* first step and number of steps of the current block of the depth */
    int64_t depth_start, depth;
    /* the distribution of the current block to threads; it depends on the thread count, but the
     * results do not */
    int threads;        /* number of threads */
    int64_t pack_tiles; /* number of panels of A that one packing item packs */
    int64_t row_parts;  /* number of parts of the rows; one item is one strip x one part */
};

static int64_t min_int64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The block size that divides `size` into blocks of at most `limit` that are as equal as
 * possible. */
static int64_t even_block_size(int64_t size, int64_t limit) {
    return div_ceil(size, div_ceil(size, limit));
}

static bool needs_sum_buffer(const struct matmul_args *args, int64_t depth) {
    return args->dtype_out == DTYPE_BF16 && depth < args->k;
}

static struct block_sizes choose_block_sizes(const struct matmul_args *args, int64_t packed_bytes) {
    struct block_sizes block_sizes;
    block_sizes.depth = round_up(even_block_size(args->k, DEPTH_BYTES / packed_bytes), DEPTH_ALIGN);
    block_sizes.rows = even_block_size(args->m, A_BLOCK_BYTES / (block_sizes.depth * packed_bytes));
    block_sizes.columns = args->n;
    if (needs_sum_buffer(args, block_sizes.depth)) {
        int64_t limit = SUM_BLOCK_BYTES / (int64_t)sizeof(float) / block_sizes.rows;
        block_sizes.columns = min_int64(args->n, limit / MATMUL_STRIP * MATMUL_STRIP);
    }
    return block_sizes;
}

static int64_t a_packed_bytes(const struct matmul_args *args) {
    int64_t whole = args->m * round_up(args->k, DEPTH_ALIGN) * (int64_t)sizeof(float);
    return min_int64(round_up(whole, WORKSPACE_ALIGN), A_BLOCK_BYTES);
}

static int64_t strip_bytes(const struct matmul_args *args) {
    int64_t depth_bytes = round_up(args->k, DEPTH_ALIGN) * (int64_t)sizeof(float);
    return MATMUL_STRIP * min_int64(depth_bytes, DEPTH_BYTES);
}

static int64_t sum_buffer_bytes(const struct matmul_args *args) {
    if (!needs_sum_buffer(args, DEPTH_BYTES / (int64_t)sizeof(float))) {
        return 0;
    }
    int64_t whole = args->m * args->n * (int64_t)sizeof(float);
    return min_int64(round_up(whole, WORKSPACE_ALIGN), SUM_BLOCK_BYTES);
}

uint64_t matmul_workspace_bytes(const struct matmul_args *args, int threads) {
    return (uint64_t)(a_packed_bytes(args) + sum_buffer_bytes(args) + threads * strip_bytes(args));
}

static int64_t tile_first_row(const struct matmul_call *call, int64_t tile) {
    return call->rows * tile / call->tiles;
}

/* The number of bytes that `lanes` packed rows of A or columns of B take in the current block. */
static int64_t packed_offset(const struct matmul_call *call, int64_t lanes) {
    return lanes * round_up(call->depth, call->kernel->group) * call->kernel->packed_bytes;
}

static const char *source_address(const struct matmul_call *call, const char *base, int64_t stride,
                                  bool contiguous, int64_t lane, int64_t depth) {
    int64_t index = contiguous ? depth * stride + lane : lane * stride + depth;
    return base + index * dtype_bytes(call->args->dtype_in);
}

static const char *b_address(const struct matmul_call *call, int64_t column, int64_t depth) {
    return source_address(call, call->b, call->args->ldb, !call->args->transpose_b, column, depth);
}

/* Whether the current block is the last one along the depth, which completes the sums. */
static bool is_last_depth_block(const struct matmul_call *call) {
    return call->depth_start + call->depth == call->args->k;
}

/* A source [depth, lanes] is packed in chunks of a small depth, so that its cache lines and pages
 * are still present for the next panel. A source [lanes, depth] is packed in one chunk, which suits
 * hardware prefetching. */
static int64_t chunk_depth(const struct matmul_call *call, bool lanes_contiguous) {
    return lanes_contiguous ? CHUNK_DEPTH : call->depth;
}

/* Pack one chunk, from `depth` on, of the panel that starts at `out`. */
static void pack_panel_chunk(const struct matmul_call *call, struct matmul_pack *pack,
                             const char *base, int64_t lane, int64_t depth, char *out) {
    pack->depth = min_int64(chunk_depth(call, pack->lanes_contiguous), call->depth - depth);
    pack->source = source_address(call, base, pack->stride, pack->lanes_contiguous, lane,
                                  call->depth_start + depth);
    pack->out = out + depth * pack->width * call->kernel->packed_bytes;
    call->kernel->pack(pack);
}

static void pack_a_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct matmul_call *call = context;
    struct matmul_pack pack = {.stride = call->args->lda,
                               .lanes_contiguous = call->args->transpose_a};
    int64_t first = item * call->pack_tiles;
    int64_t end = min_int64(first + call->pack_tiles, call->tiles);
    int64_t chunk = chunk_depth(call, pack.lanes_contiguous);
    for (int64_t depth = 0; depth < call->depth; depth += chunk) {
        for (int64_t tile = first; tile < end; tile++) {
            int64_t row = tile_first_row(call, tile);
            pack.lanes = pack.width = tile_first_row(call, tile + 1) - row;
            pack_panel_chunk(call, &pack, call->a, call->row + row, depth,
                             call->a_packed + packed_offset(call, row));
        }
    }
}

static void pack_strip(const struct matmul_call *call, int64_t column, int64_t columns,
                       char *strip) {
    int64_t width = call->kernel->columns;
    struct matmul_pack pack = {
        .stride = call->args->ldb, .lanes_contiguous = !call->args->transpose_b, .width = width};
    int64_t chunk = chunk_depth(call, pack.lanes_contiguous);
    for (int64_t depth = 0; depth < call->depth; depth += chunk) {
        for (int64_t at = 0; at < columns; at += width) {
            pack.lanes = min_int64(width, columns - at);
            pack_panel_chunk(call, &pack, call->b, column + at, depth,
                             strip + packed_offset(call, at));
        }
    }
}

/* The work of one item: multiply a strip of B with some panels of A. */
struct strip_work {
    int64_t column, columns; /* columns of this strip */
    int64_t tile, tile_end;  /* tiles [tile, tile_end) of the block of rows */
    int64_t next_column; /* first column of the strip that this thread probably processes next */
    bool in_place;       /* B is read directly, without packing */
    const char *b;       /* first element of the strip of B */
    int64_t b_stride;    /* bytes in `b` from one depth to the next */
    float bias[MATMUL_STRIP];
};

static void load_bias(const struct matmul_call *call, struct strip_work *strip) {
    for (int64_t j = 0; j < strip->columns; j++) {
        if (call->args->dtype_in == DTYPE_F32) {
            strip->bias[j] = ((const float *)call->bias)[strip->column + j];
        } else {
            strip->bias[j] = bf16_to_f32(((const uint16_t *)call->bias)[strip->column + j]);
        }
    }
}

/* Set the buffers from which the tile at (row, column) of C reads earlier sums and to which it
 * writes. */
static void set_tile_buffers(const struct matmul_call *call, struct matmul_tile *tile, int64_t row,
                             int64_t column) {
    const struct matmul_args *args = call->args;
    bool first = call->depth_start == 0;
    float *buffer = NULL;
    if (call->sums != NULL) {
        buffer =
            call->sums + (row - call->row) * call->block_sizes.columns + (column - call->column);
    }
    tile->dtype_out = args->dtype_out;
    tile->out_stride = args->ldc;
    tile->out = call->c + (row * args->ldc + column) * dtype_bytes(args->dtype_out);
    tile->sum = first && !args->accumulate ? NULL : tile->out;
    tile->sum_stride = args->ldc;
    if (buffer != NULL) {
        tile->sum = first ? NULL : buffer;
        tile->sum_stride = call->block_sizes.columns;
    }
    if (buffer != NULL && !is_last_depth_block(call)) {
        tile->dtype_out = DTYPE_F32;
        tile->out = buffer;
        tile->out_stride = call->block_sizes.columns;
    }
}

/* Prefetch the next strip of B while this one is multiplied. Each tile prefetches a few cache
 * lines, along the rows of a source [lanes, depth] or down the rows of a source [depth, lanes]. */
static void set_prefetch(const struct matmul_call *call, const struct strip_work *strip,
                         int64_t tile_number, struct matmul_tile *tile) {
    int64_t bytes = dtype_bytes(call->args->dtype_in);
    int64_t lines = tile->steps / MATMUL_PREFETCH_STEPS;
    tile->prefetch = tile->b;
    tile->prefetch_stride = 0;
    int64_t end = call->column + call->columns;
    if (strip->next_column >= end || strip->next_column == strip->column) {
        return;
    }
    int64_t column = strip->next_column;
    int64_t depth = call->depth_start;
    if (call->args->transpose_b) {
        int64_t row_lines = div_ceil(call->depth * bytes, CACHE_LINE_BYTES);
        column += tile_number * lines / row_lines;
        depth += tile_number * lines % row_lines * CACHE_LINE_BYTES / bytes;
        tile->prefetch_stride = CACHE_LINE_BYTES;
    } else {
        int64_t across = MATMUL_STRIP * bytes / CACHE_LINE_BYTES;
        column += tile_number % across * CACHE_LINE_BYTES / bytes;
        depth += tile_number / across * lines;
        tile->prefetch_stride = call->args->ldb * bytes;
    }
    if (column < min_int64(end, strip->next_column + MATMUL_STRIP) &&
        depth < call->depth_start + call->depth) {
        tile->prefetch = b_address(call, column, depth);
    } else {
        tile->prefetch_stride = 0;
    }
}

/* Whether to read the rows of B directly: packing does not pay if each row is used only once. */
static bool reads_b_in_place(const struct matmul_call *call, int64_t columns) {
    return call->tiles == 1 && !call->args->transpose_b && call->args->dtype_in == DTYPE_F32 &&
           columns % call->kernel->columns == 0;
}

static void strip_init(const struct matmul_call *call, int64_t item, int thread,
                       struct strip_work *strip) {
    const struct matmul_kernel *kernel = call->kernel;
    int64_t part = item % call->row_parts;
    int64_t at = item / call->row_parts * MATMUL_STRIP;
    strip->column = call->column + at;
    strip->columns = min_int64(MATMUL_STRIP, call->columns - at);
    strip->next_column = call->column + (item + call->threads) / call->row_parts * MATMUL_STRIP;
    strip->tile = call->tiles * part / call->row_parts;
    strip->tile_end = call->tiles * (part + 1) / call->row_parts;
    if (call->bias != NULL && is_last_depth_block(call)) {
        load_bias(call, strip);
    }
    strip->in_place = reads_b_in_place(call, strip->columns);
    if (strip->in_place) {
        strip->b = b_address(call, strip->column, call->depth_start);
        strip->b_stride = call->args->ldb * (int64_t)sizeof(float);
    } else {
        char *packed = call->strips + thread * strip_bytes(call->args);
        pack_strip(call, strip->column, strip->columns, packed);
        strip->b = packed;
        strip->b_stride = (int64_t)kernel->columns * kernel->group * kernel->packed_bytes;
    }
}

static void multiply_item(void *context, int64_t item, int thread) {
    const struct matmul_call *call = context;
    const struct matmul_kernel *kernel = call->kernel;
    struct strip_work strip;
    strip_init(call, item, thread, &strip);
    bool biased = call->bias != NULL && is_last_depth_block(call);
    struct matmul_tile tile = {.b_stride = strip.b_stride,
                               .steps = div_ceil(call->depth, kernel->group)};
    int64_t tile_number = 0;
    for (int64_t t = strip.tile; t < strip.tile_end; t++) {
        int64_t row = tile_first_row(call, t);
        tile.rows = (int)(tile_first_row(call, t + 1) - row);
        tile.a = call->a_packed + packed_offset(call, row);
        for (int64_t at = 0; at < strip.columns; at += kernel->columns) {
            tile.columns = (int)min_int64(kernel->columns, strip.columns - at);
            tile.b =
                strip.b + (strip.in_place ? at * (int64_t)sizeof(float) : packed_offset(call, at));
            tile.bias = biased ? strip.bias + at : NULL;
            set_tile_buffers(call, &tile, call->row + row, strip.column + at);
            set_prefetch(call, &strip, tile_number++, &tile);
            kernel->tile(&tile);
        }
    }
}

/* The smallest number of parts that keeps threads busy for at least 15/16 of the time, with parts
 * tall enough for the packing of B to pay. */
static int64_t choose_row_parts(int64_t strips, int64_t tiles, int threads) {
    int64_t row_parts = 1;
    while (tiles / (row_parts + 1) >= PART_TILES_MIN) {
        int64_t items = strips * row_parts;
        int64_t slots = round_up(items, threads);
        if (items * 16 >= slots * 15) {
            break;
        }
        row_parts++;
    }
    return row_parts;
}

static void run_block(const struct compute *compute, struct matmul_call *call) {
    call->threads = compute->pool->thread_count;
    call->pack_tiles = min_int64(div_ceil(call->tiles, 2 * call->threads), PACK_TILES_MAX);
    pool_run(compute->pool, pack_a_item, call, div_ceil(call->tiles, call->pack_tiles));
    int64_t strips = div_ceil(call->columns, MATMUL_STRIP);
    call->row_parts = choose_row_parts(strips, call->tiles, call->threads);
    pool_run(compute->pool, multiply_item, call, strips * call->row_parts);
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
    struct matmul_call call = {.args = args, .a = a, .b = b, .bias = bias, .c = c};
    call.kernel = args->dtype_in == DTYPE_F32 ? &kernels->f32 : &kernels->bf16;
    call.block_sizes = choose_block_sizes(args, call.kernel->packed_bytes);
    call.a_packed = workspace;
    call.strips = call.a_packed + a_packed_bytes(args);
    if (needs_sum_buffer(args, call.block_sizes.depth)) {
        call.sums = (float *)(void *)call.strips;
        call.strips += sum_buffer_bytes(args);
    }
    for (call.row = 0; call.row < args->m; call.row += call.block_sizes.rows) {
        call.rows = min_int64(call.block_sizes.rows, args->m - call.row);
        call.tiles = div_ceil(call.rows, call.kernel->rows);
        for (call.column = 0; call.column < args->n; call.column += call.block_sizes.columns) {
            call.columns = min_int64(call.block_sizes.columns, args->n - call.column);
            for (call.depth_start = 0; call.depth_start < args->k;
                 call.depth_start += call.block_sizes.depth) {
                call.depth = min_int64(call.block_sizes.depth, args->k - call.depth_start);
                run_block(compute, &call);
            }
        }
    }
}
