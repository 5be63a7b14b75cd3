#include "kernels/cuda/launch/head_loss.h"

#include "kernels/cuda/device/head_loss_params.h"
#include "kernels/cuda/launch/matmul.h"
#include "kernels/cuda/launch/products.h"
#include "kernels/cuda/launch/table.h"
#include "kernels/cuda/launch/workspace.h"
#include "kernels/head_loss_chunk.h"
#include "kernels/items.h"
#include "kernels/loops/element.h"

/* Rows of at most SMALL_VOCAB_MAX logits use fewer threads. */
enum { SMALL_VOCAB_THREADS = 128, SMALL_VOCAB_MAX = 4096 };

CUDA_FAMILY(head_loss, {"head_loss_rows", &kernels->rows, 0},
            {"head_loss_total", &kernels->total, 0})

/* ---- the products of a chunk ---- */

struct chunk_product {
    struct matmul_args args;               /* sizes, strides and types */
    struct cuda_product_operands operands; /* addresses */
    bool is_needed;                        /* false: the caller does not need this gradient */
};

struct chunk {
    int64_t first, tokens;                         /* tokens [first, first + tokens) */
    struct chunk_product logits, dhidden, dweight; /* the products that compute these matrices */
};

static struct chunk make_chunk(const struct head_loss_args *args,
                               const struct cuda_head_loss_operands *operands, int64_t index) {
    struct chunk chunk = {.first = index * args->chunk,
                          .tokens = item_length(args->tokens, args->chunk, index)};
    const void *rows = element_address(operands->hidden, args->dtype, chunk.first * args->dim);
    void *logits = operands->workspace;
    chunk.logits = (struct chunk_product){
        .args = head_loss_logits_product(args, chunk.tokens),
        .operands = {.a = rows, .b = operands->weight, .c = logits},
        .is_needed = true,
    };
    if (operands->dhidden != NULL) {
        void *dhidden =
            element_address_mutable(operands->dhidden, args->dtype, chunk.first * args->dim);
        chunk.dhidden = (struct chunk_product){
            .args = head_loss_dhidden_product(args, chunk.tokens),
            .operands = {.a = logits, .b = operands->weight, .c = dhidden},
            .is_needed = true,
        };
    }
    if (operands->dweight != NULL) {
        chunk.dweight = (struct chunk_product){
            .args = head_loss_dweight_product(args, chunk.tokens, args->accumulate || index > 0),
            .operands = {.a = logits, .b = rows, .c = operands->dweight},
            .is_needed = true,
        };
    }
    return chunk;
}

void cuda_head_loss_choose_products(struct cuda_products *products,
                                    const struct head_loss_args *args,
                                    const struct cuda_head_loss_operands *operands) {
    for (int64_t index = 0; index < items_count(args->tokens, args->chunk); index++) {
        struct chunk chunk = make_chunk(args, operands, index);
        const struct chunk_product *all[] = {&chunk.logits, &chunk.dhidden, &chunk.dweight};
        for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
            if (all[i]->is_needed) {
                cuda_products_choose(products, &all[i]->args, &all[i]->operands);
            }
        }
    }
}

/* ---- running ---- */

static void run_product(const struct cuda_compute *compute, const struct chunk_product *product,
                        void *workspace) {
    if (product->is_needed) {
        const struct cuda_product_operands *operands = &product->operands;
        cuda_matmul_run(compute, &product->args, operands->a, operands->b, NULL, operands->c,
                        workspace);
    }
}

static void run_rows(const struct cuda_compute *compute, const struct head_loss_args *args,
                     int64_t tokens, const struct head_loss_rows_params *params) {
    const struct cuda_head_loss_kernels *kernels = &compute->table->head_loss;
    struct head_loss_total_params total = {
        .losses = params->losses, .scalars = params->scalars, .rows = tokens};
    struct cuda_shape wide = {.grid = {(unsigned)tokens, 1, 1},
                              .threads = args->vocab > SMALL_VOCAB_MAX ? HEAD_LOSS_THREADS_MAX
                                                                       : SMALL_VOCAB_THREADS};
    struct cuda_shape narrow = {.grid = {1, 1, 1}, .threads = HEAD_LOSS_TOTAL_THREADS};
    cuda_launch(compute, kernels->rows, &wide, params);
    cuda_launch(compute, kernels->total, &narrow, &total);
}

void cuda_head_loss_run(const struct cuda_compute *compute, const struct head_loss_args *args,
                        const void *hidden, const void *weight, const int32_t *labels,
                        struct step_scalars *scalars, void *dhidden, float *dweight,
                        void *workspace) {
    ASSERT(args->tokens > 0 && args->chunk > 0 && args->chunk <= args->tokens);
    ASSERT(args->vocab > 0 && args->vocab < INT32_MAX / 2);
    ASSERT(args->dtype == DTYPE_F32 || args->dtype == DTYPE_BF16);
    ASSERT(args->gradient == (dhidden != NULL || dweight != NULL));
    struct cuda_head_loss_operands operands = {.hidden = hidden,
                                               .weight = weight,
                                               .dhidden = dhidden,
                                               .dweight = dweight,
                                               .workspace = workspace};
    char *losses = (char *)workspace + cuda_head_loss_losses_offset(args);
    void *scratch = (char *)workspace + cuda_head_loss_scratch_offset(args);
    struct head_loss_rows_params rows = {.logits = workspace,
                                         .losses = (double *)(void *)losses,
                                         .scalars = scalars,
                                         .stride = head_loss_stride(args),
                                         .vocab = (int32_t)args->vocab,
                                         .gradient = args->gradient,
                                         .bf16 = args->dtype == DTYPE_BF16};
    for (int64_t index = 0; index < items_count(args->tokens, args->chunk); index++) {
        struct chunk chunk = make_chunk(args, &operands, index);
        rows.labels = labels + chunk.first;
        run_product(compute, &chunk.logits, scratch);
        run_rows(compute, args, chunk.tokens, &rows);
        run_product(compute, &chunk.dhidden, scratch);
        run_product(compute, &chunk.dweight, scratch);
    }
}
