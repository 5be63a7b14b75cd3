/* head: the output projection and cross-entropy loss, with or without their gradients. */
#include "runtime/ops/operation.h"

#include "kernels/cuda/launch/workspace.h"
#if SKEP_CUDA
#include "kernels/cuda/launch/head_loss.h"
#endif

static union kernel_args make_head_args(const struct op_source *source) {
    const struct tensor *hidden = source->shape;
    int64_t vocab = source->graph->blueprint->vocab;
    int64_t chunk = source->device != NULL
                        ? cuda_head_loss_chunk(hidden->rows, vocab, source->device)
                        : head_loss_chunk(hidden->rows, vocab);
    return (union kernel_args){.head_loss = {.tokens = hidden->rows,
                                             .dim = hidden->columns,
                                             .vocab = vocab,
                                             .chunk = chunk,
                                             .dtype = hidden->dtype,
                                             .gradient = source->op->kind == OP_HEAD_LOSS_GRADIENT,
                                             .accumulate = true}};
}

WORKSPACE_FUNCTION(head_workspace, head_loss, &instruction->args.head_loss)

/* Returns the operations of the matrix products: one computes the logits, and two more the
 * gradients. */
static double head_flops(const struct instruction *instruction) {
    const struct head_loss_args *args = &instruction->args.head_loss;
    double products = args->gradient ? 3 : 1;
    return 2.0 * products * (double)args->tokens * (double)args->dim * (double)args->vocab;
}

/* Returns the memory traffic in bytes. The logits of a chunk are written by the product, read and
 * written by the softmax, and read by the two products of the gradients. */
static double head_traffic_bytes(const struct instruction *instruction, double operand_bytes) {
    const struct head_loss_args *args = &instruction->args.head_loss;
    double passes = args->gradient ? 5 : 2;
    return operand_bytes + passes * (double)args->tokens * (double)args->vocab * sizeof(float);
}

static void append_head_text(const union kernel_args *args, struct text *line) {
    const struct head_loss_args *of = &args->head_loss;
    text_add(line, " [%lld,%lld]x[%lld,%lld] by %lld %s", (long long)of->tokens, (long long)of->dim,
             (long long)of->dim, (long long)of->vocab, (long long)of->chunk, dtype_name(of->dtype));
}

KERNEL_CALLS(head_loss, head_loss_run, &call->args->head_loss, call->addresses[HEAD_LOSS_HIDDEN],
             call->addresses[HEAD_LOSS_WEIGHT], call->addresses[HEAD_LOSS_LABELS],
             call->addresses[HEAD_LOSS_SCALARS], NULL, NULL, call->addresses[OP_WORKSPACE])

KERNEL_CALLS(head_loss_gradient, head_loss_run, &call->args->head_loss,
             call->addresses[HEAD_LOSS_GRADIENT_HIDDEN], call->addresses[HEAD_LOSS_GRADIENT_WEIGHT],
             call->addresses[HEAD_LOSS_GRADIENT_LABELS],
             call->addresses[HEAD_LOSS_GRADIENT_SCALARS],
             call->addresses[HEAD_LOSS_GRADIENT_DHIDDEN],
             call->addresses[HEAD_LOSS_GRADIENT_DWEIGHT], call->addresses[OP_WORKSPACE])

#if SKEP_CUDA
static void choose_loss_algorithms(struct cuda_products *products, const struct op_call *call) {
    struct cuda_head_loss_operands operands = {.hidden = call->addresses[HEAD_LOSS_HIDDEN],
                                               .weight = call->addresses[HEAD_LOSS_WEIGHT],
                                               .workspace = call->addresses[OP_WORKSPACE]};
    cuda_head_loss_choose_products(products, &call->args->head_loss, &operands);
}

static void choose_gradient_algorithms(struct cuda_products *products, const struct op_call *call) {
    struct cuda_head_loss_operands operands = {
        .hidden = call->addresses[HEAD_LOSS_GRADIENT_HIDDEN],
        .weight = call->addresses[HEAD_LOSS_GRADIENT_WEIGHT],
        .dhidden = call->addresses[HEAD_LOSS_GRADIENT_DHIDDEN],
        .dweight = call->addresses[HEAD_LOSS_GRADIENT_DWEIGHT],
        .workspace = call->addresses[OP_WORKSPACE]};
    cuda_head_loss_choose_products(products, &call->args->head_loss, &operands);
}
#endif

OPERATION(head_loss, .shape_operand = HEAD_LOSS_HIDDEN, .args = make_head_args,
          .workspace_bytes = head_workspace, .flops = head_flops, .bytes = head_traffic_bytes,
          .text = append_head_text, .choose_algorithms = ON_CUDA(choose_loss_algorithms));

OPERATION(head_loss_gradient, .shape_operand = HEAD_LOSS_GRADIENT_HIDDEN, .args = make_head_args,
          .workspace_bytes = head_workspace, .flops = head_flops, .bytes = head_traffic_bytes,
          .text = append_head_text, .choose_algorithms = ON_CUDA(choose_gradient_algorithms));
