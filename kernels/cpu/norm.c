
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/partials.h"
#include "kernels/items.h"

struct forward_call {
    const struct norm_forward_buffers *buffers;
    void (*kernel)(const struct norm_forward_buffers *buffers, int64_t first, int64_t count);
    int64_t rows_per_item;
};

struct backward_call {
    const struct norm_backward_buffers *buffers;
    const struct norm_kernels *kernels;
    bool is_layernorm;      /* false: rmsnorm */
    float *dweight, *dbias; /* partial sums [chunks, dim]; NULL: not computed */
};

static void check_args(const struct norm_args *args) {
    ASSERT(args->rows >= 0 && args->dim > 0);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
}

static void run_forward_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct forward_call *call = context;
    int64_t rows = item_length(call->buffers->args->rows, call->rows_per_item, item);
    call->kernel(call->buffers, item * call->rows_per_item, rows);
}

static void run_forward(const struct compute *compute, struct forward_call *call) {
    const struct norm_args *args = call->buffers->args;
    check_args(args);
    call->rows_per_item = item_row_count(args->dim);
    pool_run(compute->pool, run_forward_item, call, items_count(args->rows, call->rows_per_item));
}

void rmsnorm_forward(const struct compute *compute, const struct norm_args *args, const void *x,
                     const void *weight, void *out, float *rms_inv) {
    struct norm_forward_buffers buffers = {
        .args = args, .x = x, .weight = weight, .out = out, .inverse = rms_inv};
    struct forward_call call = {.buffers = &buffers,
                                .kernel = compute->table->norm.rmsnorm_forward};
    run_forward(compute, &call);
}

void layernorm_forward(const struct compute *compute, const struct norm_args *args, const void *x,
                       const void *weight, const void *bias, void *out, float *mean,
                       float *std_inv) {
    struct norm_forward_buffers buffers = {.args = args,
                                           .x = x,
                                           .weight = weight,
                                           .bias = bias,
                                           .out = out,
                                           .mean = mean,
                                           .inverse = std_inv};
    struct forward_call call = {.buffers = &buffers,
                                .kernel = compute->table->norm.layernorm_forward};
    run_forward(compute, &call);
}

uint64_t norm_backward_workspace_bytes(const struct norm_args *args, int threads) {
    (void)threads;
    return 2 * partials_bytes(args->rows, args->dim);
}

static void run_backward_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct backward_call *call = context;
    const struct norm_args *args = call->buffers->args;
    int64_t first = item * PARTIAL_ROWS;
    int64_t count = item_length(args->rows, PARTIAL_ROWS, item);
    float *dweight = call->dweight != NULL ? call->dweight + item * args->dim : NULL;
    float *dbias = call->dbias != NULL ? call->dbias + item * args->dim : NULL;
    if (call->is_layernorm) {
        call->kernels->layernorm_backward(call->buffers, first, count, dweight, dbias);
    } else {
        call->kernels->rmsnorm_backward(call->buffers, first, count, dweight);
    }
}

/* Compute dx, and add the gradients of weight and bias to dweight[dim] and dbias[dim], unless
 * NULL. */
static void run_backward(const struct compute *compute, struct backward_call *call, float *dweight,
                         float *dbias, float *partials) {
    const struct norm_args *args = call->buffers->args;
    check_args(args);
    ASSERT(call->buffers->dx != NULL || dweight != NULL || dbias != NULL);
    int64_t chunks = partials_count(args->rows);
    call->kernels = &compute->table->norm;
    call->dweight = dweight != NULL ? partials : NULL;
    call->dbias = dbias != NULL ? partials + chunks * args->dim : NULL;
    pool_run(compute->pool, run_backward_item, call, chunks);
    if (dweight != NULL) {
        partials_add(compute, chunks, args->dim, call->dweight, dweight);
    }
    if (dbias != NULL) {
        partials_add(compute, chunks, args->dim, call->dbias, dbias);
    }
}

void rmsnorm_backward(const struct compute *compute, const struct norm_args *args, const void *dout,
                      const void *x, const void *weight, const float *rms_inv, const void *dadd,
                      void *dx, float *dweight, void *workspace) {
    struct norm_backward_buffers buffers = {.args = args,
                                            .dout = dout,
                                            .x = x,
                                            .weight = weight,
                                            .dadd = dadd,
                                            .inverse = rms_inv,
                                            .dx = dx};
    struct backward_call call = {.buffers = &buffers, .is_layernorm = false};
    run_backward(compute, &call, dweight, NULL, workspace);
}

void layernorm_backward(const struct compute *compute, const struct norm_args *args,
                        const void *dout, const void *x, const void *weight, const float *mean,
                        const float *std_inv, const void *dadd, void *dx, float *dweight,
                        float *dbias, void *workspace) {
    struct norm_backward_buffers buffers = {.args = args,
                                            .dout = dout,
                                            .x = x,
                                            .weight = weight,
                                            .dadd = dadd,
                                            .mean = mean,
                                            .inverse = std_inv,
                                            .dx = dx};
    struct backward_call call = {.buffers = &buffers, .is_layernorm = true};
    run_backward(compute, &call, dweight, dbias, workspace);
}
