
#include "kernels/cuda/launch/attention.h"

#include "kernels/cuda/launch/attention_tiling.h"
#include "kernels/cuda/launch/table.h"

enum {
    VECTOR_BYTES = 16,                                     /* bytes that one vector access moves */
    F32_THREADS = ATTENTION_F32_SIDE * ATTENTION_F32_SIDE, /* threads of an f32 block */
    PREPARE_ROWS =
        ATTENTION_PREPARE_THREADS / ATTENTION_PREPARE_LANES, /* rows that one block prepares */
    COMBINE_ROWS = ATTENTION_COMBINE_THREADS / 32,           /* rows that one block combines */
    ENTRIES_MAX = 48,             /* maximum number of kernels in an entry list */
    GRID_Y_MAX = 65535,           /* CUDA's limit of blocks in dimension y */
    SHARED_BYTES_MAX = 99 * 1024, /* shared memory of a block that every architecture supports */
};

static const float LOG2_E = 1.44269504f;

/* ---- tiles ---- */

/* One kernel of a table in attention_params.h, with its tile. */
struct tile_kernel {
    const char *name;               /* name of the kernel's symbol */
    int dim, rows;                  /* head dim and rows of the tile that the kernel processes */
    unsigned threads, shared_bytes; /* threads and shared memory of a block */
};

#define TILE(name, shared, dim, row_tiles, warps, others)                                          \
    {name #dim, dim, ATTENTION_BLOCK_ROWS(row_tiles, warps), (warps)*32,                           \
     ATTENTION_##shared##_SHARED(dim, row_tiles, warps, others)},
#define FORWARD_TILE(...)        TILE("attention_forward_", FORWARD, __VA_ARGS__)
#define DECODE_TILE(...)         TILE("attention_decode_", FORWARD, __VA_ARGS__)
#define QUERY_GRADIENT_TILE(...) TILE("attention_query_gradient_", QUERY_GRADIENT, __VA_ARGS__)
#define KEY_GRADIENT_TILE(...)   TILE("attention_key_gradient_", KEY_GRADIENT, __VA_ARGS__)
#define DK_TILE(...)             TILE("attention_key_gradient_dk_", KEY_GRADIENT, __VA_ARGS__)
#define DV_TILE(...)             TILE("attention_key_gradient_dv_", KEY_GRADIENT, __VA_ARGS__)
#define F32_TILE(name, tiles, dim, rows)                                                           \
    {name #dim, dim, rows, F32_THREADS, ATTENTION_F32_SHARED(dim, rows, tiles)},
#define F32_FORWARD_TILE(...) F32_TILE("attention_f32_forward_", 2, __VA_ARGS__)
#define F32_QUERY_TILE(...)   F32_TILE("attention_f32_query_gradient_", 4, __VA_ARGS__)
#define F32_KEY_TILE(...)     F32_TILE("attention_f32_key_gradient_", 4, __VA_ARGS__)

static const struct tile_kernel FORWARD[] = {ATTENTION_FORWARD_TILES(FORWARD_TILE)};
static const struct tile_kernel DECODE[] = {ATTENTION_DECODE_TILES(DECODE_TILE)};
static const struct tile_kernel QUERY_GRADIENT[] = {
    ATTENTION_QUERY_GRADIENT_TILES(QUERY_GRADIENT_TILE)};
static const struct tile_kernel KEY_GRADIENT[] = {ATTENTION_KEY_GRADIENT_TILES(KEY_GRADIENT_TILE)};
static const struct tile_kernel DK[] = {ATTENTION_KEY_GRADIENT_PASSES(DK_TILE)};
static const struct tile_kernel DV[] = {ATTENTION_KEY_GRADIENT_PASSES(DV_TILE)};
static const struct tile_kernel F32_FORWARD[] = {ATTENTION_F32_TILES(F32_FORWARD_TILE)};
static const struct tile_kernel F32_QUERY_GRADIENT[] = {ATTENTION_F32_TILES(F32_QUERY_TILE)};
static const struct tile_kernel F32_KEY_GRADIENT[] = {ATTENTION_F32_TILES(F32_KEY_TILE)};

/* The index of the smallest tile that holds a head. Tables are sorted by dim, and the dim of the
 * last entry is HEAD_DIM_MAX. */
static int tile_index(const struct tile_kernel *tiles, int64_t head_dim) {
    int index = 0;
    while (tiles[index].dim < head_dim) {
        index++;
    }
    return index;
}

/* ---- loading ---- */

extern const char cuda_attention_forward_fatbin[];
extern const char cuda_attention_backward_fatbin[];
extern const char cuda_attention_f32_fatbin[];

struct entry_list {
    struct cuda_entry entries[ENTRIES_MAX];
    int count; /* number of entries */
};

static void add_entry(struct entry_list *list, const char *name, CUfunction *function,
                      unsigned shared_bytes) {
    ASSERT(list->count < ENTRIES_MAX && shared_bytes <= SHARED_BYTES_MAX);
    list->entries[list->count++] = (struct cuda_entry){name, function, shared_bytes};
}

static void add_tile_entries(struct entry_list *entries, const struct tile_kernel *tiles, int count,
                             CUfunction *functions) {
    for (int i = 0; i < count; i++) {
        add_entry(entries, tiles[i].name, &functions[i], tiles[i].shared_bytes);
    }
}

static enum status load_forward_kernels(const struct cuda_driver *driver,
                                        struct cuda_attention_kernels *kernels,
                                        struct fault *fault) {
    struct entry_list entries = {.count = 0};
    add_tile_entries(&entries, FORWARD, ARRAY_COUNT(FORWARD), kernels->forward);
    add_tile_entries(&entries, DECODE, ARRAY_COUNT(DECODE), kernels->decode);
    add_entry(&entries, "attention_combine", &kernels->combine, 0);
    return cuda_load_family(driver, "attention_forward", cuda_attention_forward_fatbin,
                            entries.entries, entries.count, fault);
}

static enum status load_backward_kernels(const struct cuda_driver *driver,
                                         struct cuda_attention_kernels *kernels,
                                         struct fault *fault) {
    struct entry_list entries = {.count = 0};
    add_entry(&entries, "attention_prepare_f32", &kernels->prepare[DTYPE_F32], 0);
    add_entry(&entries, "attention_prepare_bf16", &kernels->prepare[DTYPE_BF16], 0);
    add_tile_entries(&entries, QUERY_GRADIENT, ARRAY_COUNT(QUERY_GRADIENT),
                     kernels->query_gradient);
    add_tile_entries(&entries, KEY_GRADIENT, ARRAY_COUNT(KEY_GRADIENT), kernels->key_gradient);
    add_tile_entries(&entries, DK, ARRAY_COUNT(DK), kernels->dk);
    add_tile_entries(&entries, DV, ARRAY_COUNT(DV), kernels->dv);
    return cuda_load_family(driver, "attention_backward", cuda_attention_backward_fatbin,
                            entries.entries, entries.count, fault);
}

static enum status load_f32_kernels(const struct cuda_driver *driver,
                                    struct cuda_attention_kernels *kernels, struct fault *fault) {
    struct entry_list entries = {.count = 0};
    add_tile_entries(&entries, F32_FORWARD, ARRAY_COUNT(F32_FORWARD), kernels->f32_forward);
    add_tile_entries(&entries, F32_QUERY_GRADIENT, ARRAY_COUNT(F32_QUERY_GRADIENT),
                     kernels->f32_query_gradient);
    add_tile_entries(&entries, F32_KEY_GRADIENT, ARRAY_COUNT(F32_KEY_GRADIENT),
                     kernels->f32_key_gradient);
    return cuda_load_family(driver, "attention_f32", cuda_attention_f32_fatbin, entries.entries,
                            entries.count, fault);
}

enum status cuda_attention_kernels_init(const struct cuda_driver *driver,
                                        struct cuda_attention_kernels *kernels,
                                        struct fault *fault) {
    TRY(load_forward_kernels(driver, kernels, fault));
    TRY(load_backward_kernels(driver, kernels, fault));
    return load_f32_kernels(driver, kernels, fault);
}

/* ---- shapes ---- */

static void check_args(const struct attention_args *args) {
    ASSERT(args->rows >= 1 && args->time >= 1 && args->time <= POSITIONS_MAX);
    ASSERT(args->kv_heads >= 1 && args->heads % args->kv_heads == 0);
    ASSERT(args->rows * args->heads <= INT32_MAX);
    ASSERT(args->head_dim >= 1 && args->head_dim <= HEAD_DIM_MAX);
    ASSERT(args->window >= 0);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
}

static bool is_aligned(const void *address) {
    return (uintptr_t)address % VECTOR_BYTES == 0;
}

static struct cuda_attention_shape make_shape(const struct attention_args *args) {
    int64_t vector = VECTOR_BYTES / dtype_bytes(args->dtype);
    return (struct cuda_attention_shape){
        .q_stride = args->q_stride,
        .kv_stride = args->kv_stride,
        .out_stride = args->out_stride,
        .time = (int32_t)args->time,
        .heads = (int32_t)args->heads,
        .kv_heads = (int32_t)args->kv_heads,
        .head_dim = (int32_t)args->head_dim,
        .window = args->window == 0 || args->window > INT32_MAX ? INT32_MAX : (int32_t)args->window,
        .vector = args->head_dim % vector == 0 && args->q_stride % vector == 0 &&
                  args->kv_stride % vector == 0 && args->out_stride % vector == 0,
        .scale = args->scale,
    };
}

static unsigned ceil_div(int64_t count, int64_t size) {
    return (unsigned)((count + size - 1) / size);
}

static void launch_tile(const struct cuda_compute *compute, const struct tile_kernel *tile,
                        CUfunction function, const unsigned grid[3], const void *params) {
    ASSERT(grid[1] <= GRID_Y_MAX && grid[2] <= GRID_Y_MAX);
    const struct cuda_shape shape = {
        .grid = {grid[0], grid[1], grid[2]},
        .threads = tile->threads,
        .shared_bytes = tile->shared_bytes,
    };
    cuda_launch(compute, function, &shape, params);
}

/* ---- forward ---- */

/* The f32 kernels compute e^x. The bf16 kernels compute 2^x, so their scale is multiplied by
 * log2(e). */
static void run_forward(const struct cuda_compute *compute, const struct attention_args *args,
                        struct cuda_attention_forward_params *params) {
    const struct cuda_attention_kernels *kernels = &compute->table->attention;
    bool wide = args->dtype == DTYPE_BF16;
    int index = tile_index(wide ? FORWARD : F32_FORWARD, args->head_dim);
    const struct tile_kernel *tile = wide ? &FORWARD[index] : &F32_FORWARD[index];
    params->shape.scale *= wide ? LOG2_E : 1.0f;
    launch_tile(compute, tile, wide ? kernels->forward[index] : kernels->f32_forward[index],
                (const unsigned[3]){(unsigned)(args->rows * args->heads),
                                    ceil_div(args->time, tile->rows), (unsigned)params->key_parts},
                params);
}

void cuda_attention_forward(const struct cuda_compute *compute, const struct attention_args *args,
                            const void *q, const void *k, const void *v, const int32_t *positions,
                            void *out, float *lse) {
    check_args(args);
    ASSERT(positions && lse);
    struct cuda_attention_forward_params params = {
        .shape = make_shape(args),
        .q = q,
        .k = k,
        .v = v,
        .positions = positions,
        .out = out,
        .lse = lse,
        .stacked_heads = 1,
        .key_parts = 1,
    };
    params.shape.vector &= is_aligned(q) && is_aligned(k) && is_aligned(v) && is_aligned(out);
    run_forward(compute, args, &params);
}

static void run_decode(const struct cuda_compute *compute, const struct attention_args *args,
                       const struct cuda_attention_tiling *tiling,
                       struct cuda_attention_forward_params *params) {
    int index = tile_index(DECODE, args->head_dim);
    params->shape.scale *= LOG2_E;
    launch_tile(compute, &DECODE[index], compute->table->attention.decode[index],
                (const unsigned[3]){(unsigned)(args->heads / tiling->stacked_heads),
                                    (unsigned)tiling->tiles, (unsigned)tiling->key_parts},
                params);
}

static void run_combine(const struct cuda_compute *compute, const struct attention_args *args,
                        const struct cuda_attention_forward_params *forward) {
    struct cuda_attention_combine_params params = {
        .shape = forward->shape,
        .part_outs = forward->part_outs,
        .part_sums = forward->part_sums,
        .out = forward->out,
        .stacked_heads = forward->stacked_heads,
        .key_parts = forward->key_parts,
    };
    const struct cuda_shape shape = {
        .grid = {ceil_div(args->time * args->heads, COMBINE_ROWS), 1, 1},
        .threads = ATTENTION_COMBINE_THREADS,
    };
    cuda_launch(compute, compute->table->attention.combine, &shape, &params);
}

void cuda_attention_cached(const struct cuda_compute *compute, const struct attention_args *args,
                           int64_t context, const struct step_scalars *scalars, const void *q,
                           const void *k_cache, const void *v_cache, void *out, void *workspace) {
    struct attention_args dense = *args;
    dense.kv_stride = args->kv_heads * args->head_dim;
    check_args(&dense);
    ASSERT(args->rows == 1 && args->time <= context && context <= POSITIONS_MAX);
    struct cuda_attention_tiling tiling = {.stacked_heads = 1, .key_parts = 1};
    if (args->dtype == DTYPE_BF16) {
        tiling = cuda_attention_choose_tiling(args, context);
    }
    int64_t part_rows = tiling.key_parts * args->heads * args->time;
    struct cuda_attention_forward_params params = {
        .shape = make_shape(&dense),
        .q = q,
        .k = k_cache,
        .v = v_cache,
        .scalars = scalars,
        .out = out,
        .part_outs = workspace,
        .part_sums = tiling.key_parts > 1 ? (float *)workspace + part_rows * args->head_dim : NULL,
        .stacked_heads = tiling.stacked_heads,
        .key_parts = tiling.key_parts,
    };
    params.shape.vector &=
        is_aligned(q) && is_aligned(k_cache) && is_aligned(v_cache) && is_aligned(out);
    if (tiling.decode) {
        run_decode(compute, args, &tiling, &params);
    } else {
        run_forward(compute, args, &params);
    }
    if (tiling.key_parts > 1) {
        run_combine(compute, args, &params);
    }
}

/* ---- backward ---- */

static void run_prepare(const struct cuda_compute *compute, const struct attention_args *args,
                        struct cuda_attention_prepare_params *params) {
    params->shape = make_shape(args);
    params->shape.vector &= is_aligned(params->out) && is_aligned(params->dout);
    params->count = args->rows * args->time * args->heads;
    params->lse_factor = args->dtype == DTYPE_BF16 ? LOG2_E : 1.0f;
    const struct cuda_shape shape = {
        .grid = {ceil_div(params->count, PREPARE_ROWS), 1, 1},
        .threads = ATTENTION_PREPARE_THREADS,
    };
    cuda_launch(compute, compute->table->attention.prepare[args->dtype], &shape, params);
}

static void run_query_gradient(const struct cuda_compute *compute,
                               const struct attention_args *args,
                               const struct cuda_attention_backward_params *params) {
    const struct cuda_attention_kernels *kernels = &compute->table->attention;
    bool wide = args->dtype == DTYPE_BF16;
    const struct tile_kernel *tiles = wide ? QUERY_GRADIENT : F32_QUERY_GRADIENT;
    int index = tile_index(tiles, args->head_dim);
    launch_tile(compute, &tiles[index],
                wide ? kernels->query_gradient[index] : kernels->f32_query_gradient[index],
                (const unsigned[3]){(unsigned)(args->rows * args->heads),
                                    ceil_div(args->time, tiles[index].rows), 1},
                params);
}

static void run_key_gradient(const struct cuda_compute *compute, const struct attention_args *args,
                             const struct tile_kernel *tile, CUfunction function,
                             const struct cuda_attention_backward_params *params) {
    launch_tile(compute, tile, function,
                (const unsigned[3]){(unsigned)(args->rows * args->kv_heads),
                                    ceil_div(args->time, tile->rows), 1},
                params);
}

static void run_key_gradients(const struct cuda_compute *compute, const struct attention_args *args,
                              const struct cuda_attention_backward_params *params) {
    const struct cuda_attention_kernels *kernels = &compute->table->attention;
    if (args->dtype == DTYPE_F32) {
        int index = tile_index(F32_KEY_GRADIENT, args->head_dim);
        run_key_gradient(compute, args, &F32_KEY_GRADIENT[index], kernels->f32_key_gradient[index],
                         params);
    } else if (args->head_dim <= KEY_GRADIENT[ARRAY_COUNT(KEY_GRADIENT) - 1].dim) {
        int index = tile_index(KEY_GRADIENT, args->head_dim);
        run_key_gradient(compute, args, &KEY_GRADIENT[index], kernels->key_gradient[index], params);
    } else {
        int index = tile_index(DK, args->head_dim);
        run_key_gradient(compute, args, &DK[index], kernels->dk[index], params);
        run_key_gradient(compute, args, &DV[index], kernels->dv[index], params);
    }
}

void cuda_attention_backward(const struct cuda_compute *compute, const struct attention_args *args,
                             const void *q, const void *k, const void *v, const void *out,
                             const float *lse, const void *dout, const int32_t *positions, void *dq,
                             void *dk, void *dv, void *workspace) {
    check_args(args);
    ASSERT(positions && lse);
    struct cuda_attention_backward_params params = {
        .shape = make_shape(args),
        .q = q,
        .k = k,
        .v = v,
        .dout = dout,
        .queries = workspace,
        .positions = positions,
        .dq = dq,
        .dk = dk,
        .dv = dv,
    };
    params.shape.vector &= is_aligned(q) && is_aligned(k) && is_aligned(v) && is_aligned(dout) &&
                           is_aligned(dq) && is_aligned(dk) && is_aligned(dv);
    struct cuda_attention_prepare_params prepare = {
        .out = out, .dout = dout, .lse = lse, .positions = positions, .queries = workspace};
    run_prepare(compute, args, &prepare);
    run_key_gradients(compute, args, &params);
    run_query_gradient(compute, args, &params);
}
