
#include "kernels/cpu/cpu.h"
#include "kernels/items.h"
#include "kernels/loops/element.h"

/* Backward divides the work by columns, never by tokens, so that one thread adds all gradients of a
 * row's columns in token order. 64 columns are the fewest that fill whole cache lines in bf16. */
enum { BACKWARD_ITEM_COLUMNS = 64 }; /* columns of the table that one item sums */

struct forward_work {
    const struct elementwise_kernels *kernels;
    const struct embedding_args *args;
    const int32_t *ids, *positions;     /* [tokens] token ids, and positions in their documents */
    const void *table, *position_table; /* tables with a row for each token id and each position */
    void *out;                          /* [tokens, dim] output */
    int64_t tokens_per_item;
};

struct backward_work {
    const struct embedding_kernels *kernels;
    const struct embedding_args *args;
    const int32_t *ids, *positions;
    const void *dout;                /* gradient of the output */
    float *dtable, *dposition_table; /* gradients of the two tables */
};

static void check_args(const struct embedding_args *args) {
    ASSERT(args->tokens >= 0 && args->dim > 0 && args->vocab > 0);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
}

static void embed_token(const struct forward_work *work, int64_t token) {
    const struct embedding_args *args = work->args;
    const void *row = element_address(work->table, args->dtype, work->ids[token] * args->dim);
    void *out = element_address_mutable(work->out, args->dtype, token * args->dim);
    if (work->position_table == NULL) {
        memcpy(out, row, (size_t)(args->dim * dtype_bytes(args->dtype)));
        return;
    }
    const void *position =
        element_address(work->position_table, args->dtype, work->positions[token] * args->dim);
    struct elementwise_job job = {.dtype = args->dtype, .in = {row, position}, .out = {out}};
    work->kernels->add(&job, 0, args->dim);
}

static void run_forward_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct forward_work *work = context;
    int64_t first = item * work->tokens_per_item;
    int64_t end = first + item_length(work->args->tokens, work->tokens_per_item, item);
    for (int64_t token = first; token < end; token++) {
        embed_token(work, token);
    }
}

void embedding_forward(const struct compute *compute, const struct embedding_args *args,
                       const int32_t *ids, const int32_t *positions, const void *table,
                       const void *position_table, void *out) {
    check_args(args);
    struct forward_work work = {.kernels = &compute->table->elementwise,
                                .args = args,
                                .ids = ids,
                                .positions = positions,
                                .table = table,
                                .position_table = position_table,
                                .out = out,
                                .tokens_per_item = item_row_count(args->dim)};
    pool_run(compute->pool, run_forward_item, &work,
             items_count(args->tokens, work.tokens_per_item));
}

static void run_backward_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct backward_work *work = context;
    const struct embedding_args *args = work->args;
    int64_t first = item * BACKWARD_ITEM_COLUMNS;
    int64_t width = item_length(args->dim, BACKWARD_ITEM_COLUMNS, item);
    for (int64_t token = 0; token < args->tokens; token++) {
        const void *dout = element_address(work->dout, args->dtype, token * args->dim + first);
        if (work->dtable != NULL && work->ids[token] != args->padding) {
            float *sums = work->dtable + work->ids[token] * args->dim + first;
            work->kernels->accumulate_row(args->dtype, dout, sums, width);
        }
        if (work->dposition_table != NULL) {
            float *sums = work->dposition_table + work->positions[token] * args->dim + first;
            work->kernels->accumulate_row(args->dtype, dout, sums, width);
        }
    }
}

void embedding_backward(const struct compute *compute, const struct embedding_args *args,
                        const int32_t *ids, const int32_t *positions, const void *dout,
                        float *dtable, float *dposition_table) {
    check_args(args);
    struct backward_work work = {.kernels = &compute->table->embedding,
                                 .args = args,
                                 .ids = ids,
                                 .positions = positions,
                                 .dout = dout,
                                 .dtable = dtable,
                                 .dposition_table = dposition_table};
    pool_run(compute->pool, run_backward_item, &work,
             items_count(args->dim, BACKWARD_ITEM_COLUMNS));
}
