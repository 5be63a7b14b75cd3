
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/partials.h"
#include "kernels/items.h"

struct forward_work {
    const struct norm_forward_job *job;
    void (*kernel)(const struct norm_forward_job *job, int64_t first, int64_t count);
    int64_t rows_per_item;
};

struct backward_work {
    const struct norm_backward_job *job;
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
    const struct forward_work *work = context;
    int64_t rows = item_length(work->job->args->rows, work->rows_per_item, item);
    work->kernel(work->job, item * work->rows_per_item, rows);
}

static void run_forward(const struct compute *compute, struct forward_work *work) {
    const struct norm_args *args = work->job->args;
    check_args(args);
    work->rows_per_item = item_row_count(args->dim);
    pool_run(compute->pool, run_forward_item, work, items_count(args->rows, work->rows_per_item));
}

void rmsnorm_forward(const struct compute *compute, const struct norm_args *args, const void *x,
                     const void *weight, void *out, float *rms_inv) {
    struct norm_forward_job job = {
        .args = args, .x = x, .weight = weight, .out = out, .inverse = rms_inv};
    struct forward_work work = {.job = &job, .kernel = compute->table->norm.rmsnorm_forward};
    run_forward(compute, &work);
}

void layernorm_forward(const struct compute *compute, const struct norm_args *args, const void *x,
                       const void *weight, const void *bias, void *out, float *mean,
                       float *std_inv) {
    struct norm_forward_job job = {.args = args,
                                   .x = x,
                                   .weight = weight,
                                   .bias = bias,
                                   .out = out,
                                   .mean = mean,
                                   .inverse = std_inv};
    struct forward_work work = {.job = &job, .kernel = compute->table->norm.layernorm_forward};
    run_forward(compute, &work);
}

uint64_t norm_backward_workspace_bytes(const struct norm_args *args, int threads) {
    (void)threads;
    return 2 * partials_bytes(args->rows, args->dim);
}

static void run_backward_item(void *context, int64_t item, int thread) {
    (void)thread;
    const struct backward_work *work = context;
    const struct norm_args *args = work->job->args;
    int64_t first = item * PARTIAL_ROWS;
    int64_t count = item_length(args->rows, PARTIAL_ROWS, item);
    float *dweight = work->dweight != NULL ? work->dweight + item * args->dim : NULL;
    float *dbias = work->dbias != NULL ? work->dbias + item * args->dim : NULL;
    if (work->is_layernorm) {
        work->kernels->layernorm_backward(work->job, first, count, dweight, dbias);
    } else {
        work->kernels->rmsnorm_backward(work->job, first, count, dweight);
    }
}

/* Compute dx, and add the gradients of weight and bias to dweight[dim] and dbias[dim], unless
 * NULL. */
static void run_backward(const struct compute *compute, struct backward_work *work, float *dweight,
                         float *dbias, float *partials) {
    const struct norm_args *args = work->job->args;
    check_args(args);
    ASSERT(work->job->dx != NULL || dweight != NULL || dbias != NULL);
    int64_t chunks = partials_count(args->rows);
    work->kernels = &compute->table->norm;
    work->dweight = dweight != NULL ? partials : NULL;
    work->dbias = dbias != NULL ? partials + chunks * args->dim : NULL;
    pool_run(compute->pool, run_backward_item, work, chunks);
    if (dweight != NULL) {
        partials_add(compute, chunks, args->dim, work->dweight, dweight);
    }
    if (dbias != NULL) {
        partials_add(compute, chunks, args->dim, work->dbias, dbias);
    }
}

void rmsnorm_backward(const struct compute *compute, const struct norm_args *args, const void *dout,
                      const void *x, const void *weight, const float *rms_inv, const void *dadd,
                      void *dx, float *dweight, void *workspace) {
    struct norm_backward_job job = {.args = args,
                                    .dout = dout,
                                    .x = x,
                                    .weight = weight,
                                    .dadd = dadd,
                                    .inverse = rms_inv,
                                    .dx = dx};
    struct backward_work work = {.job = &job, .is_layernorm = false};
    run_backward(compute, &work, dweight, NULL, workspace);
}

void layernorm_backward(const struct compute *compute, const struct norm_args *args,
                        const void *dout, const void *x, const void *weight, const float *mean,
                        const float *std_inv, const void *dadd, void *dx, float *dweight,
                        float *dbias, void *workspace) {
    struct norm_backward_job job = {.args = args,
                                    .dout = dout,
                                    .x = x,
                                    .weight = weight,
                                    .dadd = dadd,
                                    .mean = mean,
                                    .inverse = std_inv,
                                    .dx = dx};
    struct backward_work work = {.job = &job, .is_layernorm = true};
    run_backward(compute, &work, dweight, dbias, workspace);
}
