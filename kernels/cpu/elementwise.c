#include "kernels/elementwise.h"

#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/partials.h"
#include "kernels/items.h"

#include <string.h>

enum { ZERO_ITEM_BYTES = 256 * 1024 }; /* bytes that one item of zero_run clears */

typedef void element_kernel(const struct elementwise_buffers *buffers, int64_t first,
                            int64_t count);

struct element_call {
    const struct elementwise_buffers *buffers;
    element_kernel *kernel;
    int64_t count; /* number of elements */
};

static void run_element_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct element_call *call = context;
    int64_t first = item * ITEM_ELEMENTS;
    call->kernel(call->buffers, first, item_length(call->count, ITEM_ELEMENTS, item));
}

static void run_elements(const struct compute *compute, const struct elementwise_args *args,
                         element_kernel *kernel, const struct elementwise_buffers *buffers) {
    ASSERT(args->count >= 0);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
    struct element_call call = {.buffers = buffers, .kernel = kernel, .count = args->count};
    pool_run(compute->pool, run_element_item, &call, items_count(args->count, ITEM_ELEMENTS));
}

void add_run(const struct compute *compute, const struct elementwise_args *args, const void *a,
             const void *b, void *out) {
    struct elementwise_buffers buffers = {.dtype = args->dtype, .in = {a, b}, .out = {out}};
    run_elements(compute, args, compute->table->elementwise.add, &buffers);
}

void swiglu_forward(const struct compute *compute, const struct elementwise_args *args,
                    const void *gate, const void *up, void *out) {
    struct elementwise_buffers buffers = {.dtype = args->dtype, .in = {gate, up}, .out = {out}};
    run_elements(compute, args, compute->table->elementwise.swiglu_forward, &buffers);
}

void swiglu_backward(const struct compute *compute, const struct elementwise_args *args,
                     const void *dout, const void *gate, const void *up, void *dgate, void *dup) {
    struct elementwise_buffers buffers = {
        .dtype = args->dtype, .in = {dout, gate, up}, .out = {dgate, dup}};
    run_elements(compute, args, compute->table->elementwise.swiglu_backward, &buffers);
}

void gelu_forward(const struct compute *compute, const struct elementwise_args *args, const void *x,
                  void *out) {
    struct elementwise_buffers buffers = {.dtype = args->dtype, .in = {x}, .out = {out}};
    run_elements(compute, args, compute->table->elementwise.gelu_forward, &buffers);
}

void gelu_backward(const struct compute *compute, const struct elementwise_args *args,
                   const void *dout, const void *x, void *dx) {
    struct elementwise_buffers buffers = {.dtype = args->dtype, .in = {dout, x}, .out = {dx}};
    run_elements(compute, args, compute->table->elementwise.gelu_backward, &buffers);
}

/* ---- zero and cast ---- */

struct zero_call {
    char *bytes; /* memory to clear */
    int64_t count;
};

static void zero_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct zero_call *call = context;
    int64_t first = item * ZERO_ITEM_BYTES;
    memset(call->bytes + first, 0, (size_t)item_length(call->count, ZERO_ITEM_BYTES, item));
}

void zero_run(const struct compute *compute, void *bytes, uint64_t count) {
    struct zero_call call = {.bytes = bytes, .count = (int64_t)count};
    pool_run(compute->pool, zero_item, &call, items_count(call.count, ZERO_ITEM_BYTES));
}

struct cast_call {
    const struct elementwise_kernels *kernels;
    int64_t count;
    enum dtype from, to; /* types of `in` and `out` */
    const char *in;      /* values to convert */
    char *out;           /* converted values */
};

static void cast_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct cast_call *call = context;
    int64_t first = item * ITEM_ELEMENTS;
    int64_t count = item_length(call->count, ITEM_ELEMENTS, item);
    const void *in = call->in + first * dtype_bytes(call->from);
    void *out = call->out + first * dtype_bytes(call->to);
    if (call->from == call->to) {
        memcpy(out, in, (size_t)(count * dtype_bytes(call->from)));
    } else if (call->from == DTYPE_F32 && call->to == DTYPE_BF16) {
        call->kernels->narrow(in, out, count);
    } else if (call->from == DTYPE_BF16 && call->to == DTYPE_F32) {
        call->kernels->widen(in, out, count);
    } else {
        call->kernels->cast(call->from, in, call->to, out, count);
    }
}

void cast_run(const struct compute *compute, int64_t count, enum dtype from, const void *in,
              enum dtype to, void *out) {
    ASSERT(count >= 0 && from < DTYPE_I32 && to < DTYPE_I32);
    if (in == out) {
        ASSERT(from == to);
        return;
    }
    struct cast_call call = {.kernels = &compute->table->elementwise,
                             .count = count,
                             .from = from,
                             .to = to,
                             .in = in,
                             .out = out};
    pool_run(compute->pool, cast_item, &call, items_count(count, ITEM_ELEMENTS));
}

/* ---- column sums ---- */

struct column_sum_call {
    const struct elementwise_kernels *kernels;
    const struct column_sum_args *args;
    const char *x;   /* input matrix */
    float *partials; /* partial sums, one row for each chunk of rows */
};

uint64_t column_sum_workspace_bytes(const struct column_sum_args *args, int threads) {
    (void)threads;
    return partials_bytes(args->rows, args->columns);
}

static void sum_columns_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct column_sum_call *call = context;
    const struct column_sum_args *args = call->args;
    int64_t first = item * PARTIAL_ROWS;
    call->kernels->column_sum(args, call->x + first * args->stride * dtype_bytes(args->dtype),
                              item_length(args->rows, PARTIAL_ROWS, item),
                              call->partials + item * args->columns);
}

void column_sum_run(const struct compute *compute, const struct column_sum_args *args,
                    const void *x, float *sums, void *workspace) {
    ASSERT(args->rows >= 0 && args->columns > 0 && args->stride >= args->columns);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
    struct column_sum_call call = {
        .kernels = &compute->table->elementwise, .args = args, .x = x, .partials = workspace};
    int64_t chunks = partials_count(args->rows);
    pool_run(compute->pool, sum_columns_item, &call, chunks);
    partials_add(compute, chunks, args->columns, call.partials, sums);
}

/* ---- rope ---- */

struct rope_call {
    const struct rope_buffers *buffers;
    void (*kernel)(const struct rope_buffers *buffers, int64_t first, int64_t count);
    int64_t tokens_per_item;
};

static void rotate_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct rope_call *call = context;
    int64_t tokens = item_length(call->buffers->args->tokens, call->tokens_per_item, item);
    call->kernel(call->buffers, item * call->tokens_per_item, tokens);
}

void rope_run(const struct compute *compute, const struct rope_args *args, const float *table,
              const int32_t *positions, const void *in, void *out) {
    ASSERT(args->tokens >= 0 && args->heads > 0);
    ASSERT(args->rotary_dim % 2 == 0 && args->rotary_dim <= args->head_dim);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
    struct rope_buffers buffers = {
        .args = args, .table = table, .positions = positions, .in = in, .out = out};
    struct rope_call call = {.buffers = &buffers,
                             .kernel = compute->table->elementwise.rope,
                             .tokens_per_item = item_row_count(args->heads * args->head_dim)};
    pool_run(compute->pool, rotate_item, &call, items_count(args->tokens, call.tokens_per_item));
}
