#include "kernels/elementwise.h"

#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/partials.h"
#include "kernels/items.h"

#include <string.h>

enum { ZERO_ITEM_BYTES = 256 * 1024 }; /* bytes that one item of zero_run clears */

typedef void element_kernel(const struct elementwise_job *job, int64_t first, int64_t count);

struct element_work {
    const struct elementwise_job *job;
    element_kernel *kernel;
    int64_t count; /* number of elements */
};

static void run_element_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct element_work *work = context;
    int64_t first = item * ITEM_ELEMENTS;
    work->kernel(work->job, first, item_length(work->count, ITEM_ELEMENTS, item));
}

static void run_elements(const struct compute *compute, const struct elementwise_args *args,
                         element_kernel *kernel, const struct elementwise_job *job) {
    ASSERT(args->count >= 0);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
    struct element_work work = {.job = job, .kernel = kernel, .count = args->count};
    pool_run(compute->pool, run_element_item, &work, items_count(args->count, ITEM_ELEMENTS));
}

void add_run(const struct compute *compute, const struct elementwise_args *args, const void *a,
             const void *b, void *out) {
    struct elementwise_job job = {.dtype = args->dtype, .in = {a, b}, .out = {out}};
    run_elements(compute, args, compute->table->elementwise.add, &job);
}

void swiglu_forward(const struct compute *compute, const struct elementwise_args *args,
                    const void *gate, const void *up, void *out) {
    struct elementwise_job job = {.dtype = args->dtype, .in = {gate, up}, .out = {out}};
    run_elements(compute, args, compute->table->elementwise.swiglu_forward, &job);
}

void swiglu_backward(const struct compute *compute, const struct elementwise_args *args,
                     const void *dout, const void *gate, const void *up, void *dgate, void *dup) {
    struct elementwise_job job = {
        .dtype = args->dtype, .in = {dout, gate, up}, .out = {dgate, dup}};
    run_elements(compute, args, compute->table->elementwise.swiglu_backward, &job);
}

void gelu_forward(const struct compute *compute, const struct elementwise_args *args, const void *x,
                  void *out) {
    struct elementwise_job job = {.dtype = args->dtype, .in = {x}, .out = {out}};
    run_elements(compute, args, compute->table->elementwise.gelu_forward, &job);
}

void gelu_backward(const struct compute *compute, const struct elementwise_args *args,
                   const void *dout, const void *x, void *dx) {
    struct elementwise_job job = {.dtype = args->dtype, .in = {dout, x}, .out = {dx}};
    run_elements(compute, args, compute->table->elementwise.gelu_backward, &job);
}

/* ---- zero and cast ---- */

struct zero_work {
    char *bytes; /* memory to clear */
    int64_t count;
};

static void zero_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct zero_work *work = context;
    int64_t first = item * ZERO_ITEM_BYTES;
    memset(work->bytes + first, 0, (size_t)item_length(work->count, ZERO_ITEM_BYTES, item));
}

void zero_run(const struct compute *compute, void *bytes, uint64_t count) {
    struct zero_work work = {.bytes = bytes, .count = (int64_t)count};
    pool_run(compute->pool, zero_item, &work, items_count(work.count, ZERO_ITEM_BYTES));
}

struct cast_work {
    const struct elementwise_kernels *kernels;
    int64_t count;
    enum dtype from, to; /* types of `in` and `out` */
    const char *in;      /* values to convert */
    char *out;           /* converted values */
};

static void cast_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct cast_work *work = context;
    int64_t first = item * ITEM_ELEMENTS;
    int64_t count = item_length(work->count, ITEM_ELEMENTS, item);
    const void *in = work->in + first * dtype_bytes(work->from);
    void *out = work->out + first * dtype_bytes(work->to);
    if (work->from == work->to) {
        memcpy(out, in, (size_t)(count * dtype_bytes(work->from)));
    } else if (work->from == DTYPE_F32 && work->to == DTYPE_BF16) {
        work->kernels->narrow(in, out, count);
    } else if (work->from == DTYPE_BF16 && work->to == DTYPE_F32) {
        work->kernels->widen(in, out, count);
    } else {
        work->kernels->cast(work->from, in, work->to, out, count);
    }
}

void cast_run(const struct compute *compute, int64_t count, enum dtype from, const void *in,
              enum dtype to, void *out) {
    ASSERT(count >= 0 && from < DTYPE_I32 && to < DTYPE_I32);
    if (in == out) {
        ASSERT(from == to);
        return;
    }
    struct cast_work work = {.kernels = &compute->table->elementwise,
                             .count = count,
                             .from = from,
                             .to = to,
                             .in = in,
                             .out = out};
    pool_run(compute->pool, cast_item, &work, items_count(count, ITEM_ELEMENTS));
}

/* ---- column sums ---- */

struct column_sum_work {
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
    const struct column_sum_work *work = context;
    const struct column_sum_args *args = work->args;
    int64_t first = item * PARTIAL_ROWS;
    work->kernels->column_sum(args, work->x + first * args->stride * dtype_bytes(args->dtype),
                              item_length(args->rows, PARTIAL_ROWS, item),
                              work->partials + item * args->columns);
}

void column_sum_run(const struct compute *compute, const struct column_sum_args *args,
                    const void *x, float *sums, void *workspace) {
    ASSERT(args->rows >= 0 && args->columns > 0 && args->stride >= args->columns);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
    struct column_sum_work work = {
        .kernels = &compute->table->elementwise, .args = args, .x = x, .partials = workspace};
    int64_t chunks = partials_count(args->rows);
    pool_run(compute->pool, sum_columns_item, &work, chunks);
    partials_add(compute, chunks, args->columns, work.partials, sums);
}

/* ---- rope ---- */

struct rope_work {
    const struct rope_job *job;
    void (*kernel)(const struct rope_job *job, int64_t first, int64_t count);
    int64_t tokens_per_item;
};

static void rotate_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct rope_work *work = context;
    int64_t tokens = item_length(work->job->args->tokens, work->tokens_per_item, item);
    work->kernel(work->job, item * work->tokens_per_item, tokens);
}

void rope_run(const struct compute *compute, const struct rope_args *args, const float *table,
              const int32_t *positions, const void *in, void *out) {
    ASSERT(args->tokens >= 0 && args->heads > 0);
    ASSERT(args->rotary_dim % 2 == 0 && args->rotary_dim <= args->head_dim);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
    struct rope_job job = {
        .args = args, .table = table, .positions = positions, .in = in, .out = out};
    struct rope_work work = {.job = &job,
                             .kernel = compute->table->elementwise.rope,
                             .tokens_per_item = item_row_count(args->heads * args->head_dim)};
    pool_run(compute->pool, rotate_item, &work, items_count(args->tokens, work.tokens_per_item));
}
