#include "kernels/head_loss.h"
#include "base/bytes.h"

#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "kernels/head_loss_chunk.h"
#include "kernels/items.h"
#include "kernels/loops/element.h"

/* Maximum size of the logits of one chunk: small enough to stay in a last-level cache between the
 * products, large enough for the products to run at full speed. */
enum { LOGITS_BYTES_MAX = 32 << 20 };
enum { LABEL_IGNORED = -100 }; /* label of a token without loss */
enum { PART_ALIGNMENT = 64 };  /* alignment in bytes of each part of the workspace: a cache line */

int64_t head_loss_chunk(int64_t tokens, int64_t vocab) {
    return head_loss_chunk_within(tokens, vocab, LOGITS_BYTES_MAX);
}

/* ---- the workspace ---- */

static uint64_t product_workspace_bytes(struct matmul_args product, int threads) {
    return matmul_workspace_bytes(&product, threads);
}

/* The workspace size of the products of one chunk of `tokens`. The products run one after the other
 * and share it. */
static uint64_t products_workspace_bytes(const struct head_loss_args *args, int64_t tokens,
                                         int threads) {
    uint64_t bytes = product_workspace_bytes(head_loss_logits_product(args, tokens), threads);
    if (args->gradient) {
        bytes = max_u64(bytes,
                        product_workspace_bytes(head_loss_dhidden_product(args, tokens), threads));
        bytes = max_u64(
            bytes, product_workspace_bytes(head_loss_dweight_product(args, tokens, true), threads));
        bytes = max_u64(bytes, product_workspace_bytes(
                                   head_loss_dweight_product(args, tokens, false), threads));
    }
    return bytes;
}

static uint64_t losses_bytes(const struct head_loss_args *args) {
    uint64_t bytes = (uint64_t)args->chunk * sizeof(double);
    return (bytes + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
}

/* The workspace holds the logits of a chunk, its losses, and the workspace of its products. */
uint64_t head_loss_workspace_bytes(const struct head_loss_args *args, int threads) {
    int64_t last = args->tokens % args->chunk;
    uint64_t products = products_workspace_bytes(args, args->chunk, threads);
    if (last != 0) {
        products = max_u64(products, products_workspace_bytes(args, last, threads));
    }
    return head_loss_logits_bytes(args) + losses_bytes(args) + products;
}

/* ---- running ---- */

struct head_loss_call {
    const struct head_loss_kernels *kernels;
    const struct head_loss_args *args;
    const int32_t *labels; /* token id that each row must predict */
    float *logits;         /* [rows, vocab] */
    double *losses;        /* loss of each row */
    float scale;           /* factor of the gradients */
};

static void run_loss_item(void *context, int64_t row, int thread) {
    (void)thread;
    const struct head_loss_call *call = context;
    const struct head_loss_args *args = call->args;
    float *logits = call->logits + row * head_loss_stride(args);
    int32_t label = call->labels[row];
    if (label != LABEL_IGNORED) {
        ASSERT(label >= 0 && label < args->vocab);
        call->losses[row] = args->gradient
                                ? call->kernels->loss_gradient_row(logits, args->vocab, label,
                                                                   call->scale, args->dtype)
                                : call->kernels->loss_row(logits, args->vocab, label);
        return;
    }
    call->losses[row] = 0;
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
    void *products = parts + head_loss_logits_bytes(args) + losses_bytes(args);
    struct head_loss_call call = {.kernels = &compute->table->head_loss,
                                  .args = args,
                                  .logits = workspace,
                                  .losses = (double *)(parts + head_loss_logits_bytes(args)),
                                  .scale = scalars->loss_scale};
    for (int64_t chunk = 0; chunk < items_count(args->tokens, args->chunk); chunk++) {
        int64_t first = chunk * args->chunk;
        int64_t tokens = item_length(args->tokens, args->chunk, chunk);
        const void *rows = element_address(hidden, args->dtype, first * args->dim);
        run_product(compute, head_loss_logits_product(args, tokens), rows, weight, call.logits,
                    products);
        call.labels = labels + first;
        pool_run(compute->pool, run_loss_item, &call, tokens);
        for (int64_t token = 0; token < tokens; token++) {
            scalars->loss_sum += call.losses[token];
        }
        if (dhidden != NULL) {
            run_product(compute, head_loss_dhidden_product(args, tokens), call.logits, weight,
                        element_address_mutable(dhidden, args->dtype, first * args->dim), products);
        }
        if (dweight != NULL) {
            run_product(compute,
                        head_loss_dweight_product(args, tokens, args->accumulate || first > 0),
                        call.logits, rows, dweight, products);
        }
    }
}
