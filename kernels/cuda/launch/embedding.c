
#include "kernels/cuda/launch/embedding.h"

#include "kernels/cuda/device/embedding_params.h"
#include "kernels/cuda/launch/table.h"

enum { GRID_Y_MAX = 65535 }; /* CUDA's limit of blocks in dimension y */

CUDA_FAMILY(embedding, CUDA_ENTRY_PAIR(embedding_forward, kernels->forward),
            CUDA_ENTRY_PAIR(embedding_backward, kernels->backward))

static void check_args(const struct embedding_args *args) {
    ASSERT(args->tokens >= 0 && args->tokens <= INT32_MAX && args->dim > 0 && args->vocab > 0);
    ASSERT(cuda_is_float(args->dtype));
}

static bool is_aligned(const struct embedding_args *args, const void *rows) {
    return cuda_is_aligned(rows) && args->dim % cuda_elements_per_access(args->dtype) == 0;
}

void cuda_embedding_forward(const struct cuda_compute *compute, const struct embedding_args *args,
                            const int32_t *ids, const int32_t *positions, const void *table,
                            const void *position_table, void *out) {
    check_args(args);
    const struct cuda_embedding_params params = {.ids = ids,
                                                 .positions = positions,
                                                 .table = table,
                                                 .position_table = position_table,
                                                 .out = out,
                                                 .dim = args->dim,
                                                 .aligned = is_aligned(args, table) &&
                                                            is_aligned(args, position_table) &&
                                                            is_aligned(args, out)};
    struct cuda_shape shape = {.grid = {(unsigned)args->tokens, 1, 1},
                               .threads = CUDA_EMBEDDING_THREADS};
    cuda_launch(compute, compute->table->embedding.forward[args->dtype], &shape, &params);
}

static void run_backward(const struct cuda_compute *compute, const struct embedding_args *args,
                         const struct cuda_embedding_backward_params *params) {
    int64_t slices =
        items_count(args->dim, CUDA_EMBEDDING_BACKWARD_THREADS * CUDA_EMBEDDING_COLUMNS_PER_THREAD);
    ASSERT(slices <= GRID_Y_MAX);
    struct cuda_shape shape = {.grid = {(unsigned)args->tokens, (unsigned)slices, 1},
                               .threads = CUDA_EMBEDDING_BACKWARD_THREADS};
    cuda_launch(compute, compute->table->embedding.backward[args->dtype], &shape, params);
}

void cuda_embedding_backward(const struct cuda_compute *compute, const struct embedding_args *args,
                             const int32_t *ids, const int32_t *positions, const void *dout,
                             float *dtable, float *dposition_table) {
    check_args(args);
    struct cuda_embedding_backward_params params = {.ids = ids,
                                                    .dout = dout,
                                                    .dtable = dtable,
                                                    .tokens = args->tokens,
                                                    .dim = args->dim,
                                                    .padding = args->padding};
    bool rows_aligned = cuda_is_aligned(dout) && args->dim % CUDA_EMBEDDING_COLUMNS_PER_THREAD == 0;
    if (dtable != NULL) {
        params.aligned = rows_aligned && cuda_is_aligned(dtable);
        run_backward(compute, args, &params);
    }
    if (dposition_table != NULL) {
        params.aligned = rows_aligned && cuda_is_aligned(dposition_table);
        params.ids = positions;
        params.dtable = dposition_table;
        params.padding = -1;
        run_backward(compute, args, &params);
    }
}
