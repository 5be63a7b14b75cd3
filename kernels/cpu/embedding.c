
#include "kernels/cpu/cpu.h"
#include "kernels/items.h"
#include "kernels/loops/element.h"

/* Backward divides the work by columns, never by tokens, so that one thread adds all gradients of a
 * row's columns in token order. 64 columns are the fewest that fill whole cache lines in bf16. */
enum { BACKWARD_ITEM_COLUMNS = 64 }; /* columns of the table that one item sums */

struct forward_call {
    const struct elementwise_kernels *kernels;
    const struct embedding_args *args;
    const int32_t *ids, *positions;     /* [tokens] token ids, and positions in their documents */
    const void *table, *position_table; /* tables with a row for each token id and each position */
    void *out;                          /* [tokens, dim] output */
    int64_t tokens_per_item;
};

struct backward_call {
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

static void embed_token(const struct forward_call *call, int64_t token) {
    const struct embedding_args *args = call->args;
    const void *row = element_address(call->table, args->dtype, call->ids[token] * args->dim);
    void *out = element_address_mutable(call->out, args->dtype, token * args->dim);
    if (call->position_table == NULL) {
        memcpy(out, row, (size_t)(args->dim * dtype_bytes(args->dtype)));
        return;
    }
    const void *position =
        element_address(call->position_table, args->dtype, call->positions[token] * args->dim);
    struct elementwise_buffers buffers = {
        .dtype = args->dtype, .in = {row, position}, .out = {out}};
    call->kernels->add(&buffers, 0, args->dim);
}

static void run_forward_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct forward_call *call = context;
    int64_t first = item * call->tokens_per_item;
    int64_t end = first + item_length(call->args->tokens, call->tokens_per_item, item);
    for (int64_t token = first; token < end; token++) {
        embed_token(call, token);
    }
}

void embedding_forward(const struct compute *compute, const struct embedding_args *args,
                       const int32_t *ids, const int32_t *positions, const void *table,
                       const void *position_table, void *out) {
    check_args(args);
    struct forward_call call = {.kernels = &compute->table->elementwise,
                                .args = args,
                                .ids = ids,
                                .positions = positions,
                                .table = table,
                                .position_table = position_table,
                                .out = out,
                                .tokens_per_item = item_row_count(args->dim)};
    pool_run(compute->pool, run_forward_item, &call,
             items_count(args->tokens, call.tokens_per_item));
}

static void run_backward_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct backward_call *call = context;
    const struct embedding_args *args = call->args;
    int64_t first = item * BACKWARD_ITEM_COLUMNS;
    int64_t width = item_length(args->dim, BACKWARD_ITEM_COLUMNS, item);
    for (int64_t token = 0; token < args->tokens; token++) {
        const void *dout = element_address(call->dout, args->dtype, token * args->dim + first);
        if (call->dtable != NULL && call->ids[token] != args->padding) {
            float *sums = call->dtable + call->ids[token] * args->dim + first;
            call->kernels->accumulate_row(args->dtype, dout, sums, width);
        }
        if (call->dposition_table != NULL) {
            float *sums = call->dposition_table + call->positions[token] * args->dim + first;
            call->kernels->accumulate_row(args->dtype, dout, sums, width);
        }
    }
}

void embedding_backward(const struct compute *compute, const struct embedding_args *args,
                        const int32_t *ids, const int32_t *positions, const void *dout,
                        float *dtable, float *dposition_table) {
    check_args(args);
    struct backward_call call = {.kernels = &compute->table->embedding,
                                 .args = args,
                                 .ids = ids,
                                 .positions = positions,
                                 .dout = dout,
                                 .dtable = dtable,
                                 .dposition_table = dposition_table};
    pool_run(compute->pool, run_backward_item, &call,
             items_count(args->dim, BACKWARD_ITEM_COLUMNS));
}
