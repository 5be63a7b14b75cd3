#include "kernels/cuda/launch/matmul.h"

#include "base/check.h"
#include "kernels/cuda/device/matmul_params.h"
#include "kernels/cuda/launch/products.h"
#include "kernels/cuda/launch/table.h"

enum { SMALL_TILE, LARGE_TILE };
enum { ROW_ALIGN = 16, WORKSPACE_ALIGN = 256 }; /* bytes */
/* Threads and dynamic shared memory of a block for each size of tile. */
static const unsigned TILES[] = {MATMUL_TILE_SMALL, MATMUL_TILE_LARGE};
static const unsigned BF16_THREADS[] = {128, 256};
#define BF16_BYTES(tile) (2 * MATMUL_STAGES * MATMUL_DEPTH * 2 * (tile))
#define F32_BYTES(tile)                                                                            \
    (2 * 2 * (4 * MATMUL_F32_THREADS / (tile)) * ((tile) + MATMUL_F32_PADDING) * 4)
static const unsigned BF16_SHARED[] = {BF16_BYTES(MATMUL_TILE_SMALL),
                                       BF16_BYTES(MATMUL_TILE_LARGE)};
static const unsigned F32_SHARED[] = {F32_BYTES(MATMUL_TILE_SMALL), F32_BYTES(MATMUL_TILE_LARGE)};

CUDA_FAMILY(matmul,
            {"matmul_bf16_nn_small", &kernels->bf16[0][0][SMALL_TILE], BF16_SHARED[SMALL_TILE]},
            {"matmul_bf16_nn_large", &kernels->bf16[0][0][LARGE_TILE], BF16_SHARED[LARGE_TILE]},
            {"matmul_bf16_nt_small", &kernels->bf16[0][1][SMALL_TILE], BF16_SHARED[SMALL_TILE]},
            {"matmul_bf16_nt_large", &kernels->bf16[0][1][LARGE_TILE], BF16_SHARED[LARGE_TILE]},
            {"matmul_bf16_tn_small", &kernels->bf16[1][0][SMALL_TILE], BF16_SHARED[SMALL_TILE]},
            {"matmul_bf16_tn_large", &kernels->bf16[1][0][LARGE_TILE], BF16_SHARED[LARGE_TILE]},
            {"matmul_bf16_tt_small", &kernels->bf16[1][1][SMALL_TILE], BF16_SHARED[SMALL_TILE]},
            {"matmul_bf16_tt_large", &kernels->bf16[1][1][LARGE_TILE], BF16_SHARED[LARGE_TILE]},
            {"matmul_f32_small", &kernels->f32[SMALL_TILE], F32_SHARED[SMALL_TILE]},
            {"matmul_f32_large", &kernels->f32[LARGE_TILE], F32_SHARED[LARGE_TILE]})

static int64_t tile_count(int64_t length, unsigned tile) {
    return (length + tile - 1) / tile;
}

/* Large tiles read less per sum; small tiles keep more multiprocessors busy. The choice does not
 * affect the results. */
static int choose_tile_size(const struct cuda_compute *compute, const struct matmul_args *args) {
    int64_t large = tile_count(args->m, TILES[LARGE_TILE]) * tile_count(args->n, TILES[LARGE_TILE]);
    return large >= compute->multiprocessors ? LARGE_TILE : SMALL_TILE;
}

static int are_rows_aligned(const void *base, int64_t stride, enum dtype dtype) {
    return ((uintptr_t)base | (uintptr_t)(stride * dtype_bytes(dtype))) % ROW_ALIGN == 0;
}

static int are_pairs_aligned(const struct matmul_args *args, const void *c) {
    uintptr_t pair = (uintptr_t)(2 * dtype_bytes(args->dtype_out));
    return (uintptr_t)c % pair == 0 && args->ldc % 2 == 0;
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

void cuda_matmul_builtin(const struct cuda_compute *compute, const struct matmul_args *args,
                         const void *a, const void *b, const void *bias, void *c) {
    check_args(args, bias);
    int size = choose_tile_size(compute, args);
    int64_t tile_rows = tile_count(args->m, TILES[size]);
    int64_t tile_columns = tile_count(args->n, TILES[size]);
    ASSERT(tile_columns <= INT32_MAX / MATMUL_GROUP_ROWS && tile_rows <= INT32_MAX / tile_columns);
    struct matmul_params params = {
        .m = args->m,
        .n = args->n,
        .k = args->k,
        .lda = args->lda,
        .ldb = args->ldb,
        .ldc = args->ldc,
        .a = a,
        .b = b,
        .bias = bias,
        .c = c,
        .tile_rows = (int32_t)tile_rows,
        .tile_columns = (int32_t)tile_columns,
        .transpose_a = args->transpose_a,
        .transpose_b = args->transpose_b,
        .a_aligned = are_rows_aligned(a, args->lda, args->dtype_in),
        .b_aligned = are_rows_aligned(b, args->ldb, args->dtype_in),
        .c_paired = are_pairs_aligned(args, c),
        .out_bf16 = args->dtype_out == DTYPE_BF16,
        .accumulate = args->accumulate,
    };
    const struct cuda_matmul_kernels *kernels = &compute->table->matmul;
    bool f32 = args->dtype_in == DTYPE_F32;
    struct cuda_shape shape = {
        .grid = {(unsigned)(tile_rows * tile_columns), 1, 1},
        .threads = f32 ? MATMUL_F32_THREADS : BF16_THREADS[size],
        .shared_bytes = f32 ? F32_SHARED[size] : BF16_SHARED[size],
    };
    cuda_launch(compute,
                f32 ? kernels->f32[size]
                    : kernels->bf16[args->transpose_a][args->transpose_b][size],
                &shape, &params);
}

void cuda_matmul_run(const struct cuda_compute *compute, const struct matmul_args *args,
                     const void *a, const void *b, const void *bias, void *c, void *workspace) {
    struct cuda_product_operands operands = {.a = a, .b = b, .bias = bias, .c = c};
    struct cuda_product *product = NULL;
    if (compute->products != NULL) {
        product = cuda_products_find(compute->products, args, &operands);
    }
    check_args(args, bias);
    ASSERT(product == NULL || (uintptr_t)workspace % WORKSPACE_ALIGN == 0);
    if (product == NULL || !cuda_product_run(compute, product, &operands, workspace)) {
        cuda_matmul_builtin(compute, args, a, b, bias, c);
    }
}
