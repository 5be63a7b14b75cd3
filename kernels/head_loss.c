#include "kernels/head_loss.h"

#include "base/check.h"
#include "kernels/cpu/element.h"
#include "kernels/items.h"
#include "kernels/matmul.h"
#include "kernels/table.h"

/* Logits of one chunk: small enough to stay in a last-level cache between the products, large
 * enough that the products run at full rate. */
enum { LOGITS_BYTES = 32 << 20, CHUNK_STEP = 16, LABEL_IGNORED = -100 };
/* Rows of logits and parts of the workspace start on cache lines. */
enum { ROW_ELEMENTS = 16, PART_BYTES = 64 };

static int64_t rounded_up(int64_t value, int64_t step) {
    return (value + step - 1) / step * step;
}

int64_t head_loss_chunk(int64_t tokens, int64_t vocab) {
    int64_t row_bytes = rounded_up(vocab, ROW_ELEMENTS) * (int64_t)sizeof(float);
    int64_t most = LOGITS_BYTES / row_bytes / CHUNK_STEP * CHUNK_STEP;
    most = most < CHUNK_STEP ? CHUNK_STEP : most;
    if (tokens <= most) {
        return tokens;
    }
    /* Equal chunks if that costs at most a quarter of the size. */
    for (int64_t chunk = most; chunk > most - most / 4; chunk -= CHUNK_STEP) {
        if (tokens % chunk == 0) {
            return chunk;
        }
    }
    int64_t even = items_count(tokens, items_count(tokens, most));
    return rounded_up(even, CHUNK_STEP);
}

/* ---- the three products of a chunk ---- */

static int64_t logits_stride(const struct head_loss_args *args) {
    return rounded_up(args->vocab, ROW_ELEMENTS);
}

/* dlogits overwrite the logits row by row, so in bf16 only the first half of a row is used. */
static int64_t dlogits_stride(const struct head_loss_args *args) {
    return args->dtype == DTYPE_BF16 ? 2 * logits_stride(args) : logits_stride(args);
}

static struct matmul_args logits_product(const struct head_loss_args *args, int64_t tokens) {
    return (struct matmul_args){.m = tokens,
                                .n = args->vocab,
                                .k = args->dim,
                                .lda = args->dim,
                                .ldb = args->dim,
                                .ldc = logits_stride(args),
                                .dtype_in = args->dtype,
                                .dtype_out = DTYPE_F32,
                                .transpose_b = true};
}

static struct matmul_args dhidden_product(const struct head_loss_args *args, int64_t tokens) {
    return (struct matmul_args){.m = tokens,
                                .n = args->dim,
                                .k = args->vocab,
                                .lda = dlogits_stride(args),
                                .ldb = args->dim,
                                .ldc = args->dim,
                                .dtype_in = args->dtype,
                                .dtype_out = args->dtype};
}

static struct matmul_args dweight_product(const struct head_loss_args *args, int64_t tokens,
                                          bool accumulate) {
    return (struct matmul_args){.m = args->vocab,
                                .n = args->dim,
                                .k = tokens,
                                .lda = dlogits_stride(args),
                                .ldb = args->dim,
                                .ldc = args->dim,
                                .dtype_in = args->dtype,
                                .dtype_out = DTYPE_F32,
                                .transpose_a = true,
                                .accumulate = accumulate};
}

static uint64_t product_bytes(struct matmul_args product, int threads) {
    return matmul_workspace_bytes(&product, threads);
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Of the products of one chunk of `tokens`; they run one after the other. */
static uint64_t products_bytes(const struct head_loss_args *args, int64_t tokens, int threads) {
    uint64_t bytes = product_bytes(logits_product(args, tokens), threads);
    if (args->gradient) {
        bytes = larger(bytes, product_bytes(dhidden_product(args, tokens), threads));
        bytes = larger(bytes, product_bytes(dweight_product(args, tokens, true), threads));
        bytes = larger(bytes, product_bytes(dweight_product(args, tokens, false), threads));
    }
    return bytes;
}

static uint64_t logits_bytes(const struct head_loss_args *args) {
    return (uint64_t)(args->chunk * logits_stride(args)) * sizeof(float);
}

static uint64_t losses_bytes(const struct head_loss_args *args) {
    return (uint64_t)rounded_up(args->chunk * (int64_t)sizeof(double), PART_BYTES);
}

/* Layout: logits of a chunk, its losses, the workspace of its products. */
uint64_t head_loss_workspace_bytes(const struct head_loss_args *args, int threads) {
    int64_t last = args->tokens % args->chunk;
    uint64_t products = products_bytes(args, args->chunk, threads);
    if (last != 0) {
        products = larger(products, products_bytes(args, last, threads));
    }
    return logits_bytes(args) + losses_bytes(args) + products;
}

/* ---- running ---- */

struct head_loss_work {
    const struct head_loss_kernels *kernels;
    const struct head_loss_args *args;
    const int32_t *labels;
    float *logits;
    double *losses;
    float scale;
};

static void loss_item(void *context, int64_t row, int thread) {
    (void)thread;
    const struct head_loss_work *work = context;
    const struct head_loss_args *args = work->args;
    float *logits = work->logits + row * logits_stride(args);
    int32_t label = work->labels[row];
    if (label != LABEL_IGNORED) {
        ASSERT(label >= 0 && label < args->vocab);
        work->losses[row] = args->gradient
                                ? work->kernels->loss_gradient_row(logits, args->vocab, label,
                                                                   work->scale, args->dtype)
                                : work->kernels->loss_row(logits, args->vocab, label);
        return;
    }
    work->losses[row] = 0;
    if (args->gradient) {
        memset(logits, 0, (size_t)(args->vocab * dtype_bytes(args->dtype)));
    }
}

static void run_product(const struct compute *compute, struct matmul_args product, const void *a,
                        const void *b, void *c, void *workspace) {
    matmul_run(compute, &product, a, b, NULL, c, workspace);
}

void head_loss_run(const struct compute *compute, const struct head_loss_args *args,
                   const void *hidden, const void *weight, const int32_t *labels,
                   struct step_scalars *scalars, void *dhidden, float *dweight, void *workspace) {
    ASSERT(args->tokens > 0 && args->chunk > 0 && args->chunk <= args->tokens);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
    ASSERT(args->gradient == (dhidden != NULL || dweight != NULL));
    char *parts = workspace;
    void *products = parts + logits_bytes(args) + losses_bytes(args);
    struct head_loss_work work = {.kernels = &compute->table->head_loss,
                                  .args = args,
                                  .logits = workspace,
                                  .losses = (double *)(parts + logits_bytes(args)),
                                  .scale = scalars->loss_scale};
    for (int64_t chunk = 0; chunk < items_count(args->tokens, args->chunk); chunk++) {
        int64_t first = chunk * args->chunk;
        int64_t tokens = items_length(args->tokens, args->chunk, chunk);
        const void *rows = element_at(hidden, args->dtype, first * args->dim);
        run_product(compute, logits_product(args, tokens), rows, weight, work.logits, products);
        work.labels = labels + first;
        pool_run(compute->pool, loss_item, &work, tokens);
        for (int64_t token = 0; token < tokens; token++) {
            scalars->loss_sum += work.losses[token];
        }
        if (dhidden != NULL) {
            run_product(compute, dhidden_product(args, tokens), work.logits, weight,
                        element_slot(dhidden, args->dtype, first * args->dim), products);
        }
        if (dweight != NULL) {
            run_product(compute, dweight_product(args, tokens, args->accumulate || first > 0),
                        work.logits, rows, dweight, products);
        }
    }
}
