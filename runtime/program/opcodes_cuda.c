#include "runtime/program/opcodes_cuda.h"

#include "kernels/cuda/launch/attention.h"
#include "kernels/cuda/launch/elementwise.h"
#include "kernels/cuda/launch/embedding.h"
#include "kernels/cuda/launch/generation.h"
#include "kernels/cuda/launch/head_loss.h"
#include "kernels/cuda/launch/matmul.h"
#include "kernels/cuda/launch/norm.h"
#include "kernels/cuda/launch/optimizer.h"

enum { WORKSPACE = OPERANDS_MAX };

struct call {
    const struct cuda_compute *compute;
    const union kernel_args *args;
    const struct instruction *instruction;
    void *const *at; /* operands in op_table's order, then the workspace */
};

typedef void opcode(const struct call *c);

static void run_embedding(const struct call *c) {
    cuda_embedding_forward(c->compute, &c->args->embedding, c->at[0], c->at[1], c->at[2], c->at[3],
                           c->at[4]);
}

static void run_embedding_backward(const struct call *c) {
    cuda_embedding_backward(c->compute, &c->args->embedding, c->at[0], c->at[1], c->at[2], c->at[3],
                            c->at[4]);
}

static void run_rmsnorm(const struct call *c) {
    cuda_rmsnorm_forward(c->compute, &c->args->norm, c->at[0], c->at[1], c->at[2], c->at[3]);
}

static void run_rmsnorm_backward(const struct call *c) {
    cuda_rmsnorm_backward(c->compute, &c->args->norm, c->at[0], c->at[1], c->at[2], c->at[3],
                          c->at[4], c->at[5], c->at[6], c->at[WORKSPACE]);
}

static void run_layernorm(const struct call *c) {
    cuda_layernorm_forward(c->compute, &c->args->norm, c->at[0], c->at[1], c->at[2], c->at[3],
                           c->at[4], c->at[5]);
}

static void run_layernorm_backward(const struct call *c) {
    cuda_layernorm_backward(c->compute, &c->args->norm, c->at[0], c->at[1], c->at[2], c->at[3],
                            c->at[4], c->at[5], c->at[6], c->at[7], c->at[8], c->at[WORKSPACE]);
}

/* ---- products ---- */

/* dout and x change places where the weight is stored [in, out]. */
static struct cuda_product_operands product_operands(const struct instruction *instruction,
                                                     void *const *at) {
    switch (instruction->op) {
    case OP_LINEAR:
        return (struct cuda_product_operands){.a = at[0], .b = at[1], .bias = at[2], .c = at[3]};
    case OP_LINEAR_DX:
        return (struct cuda_product_operands){.a = at[0], .b = at[1], .c = at[2]};
    default:
        ASSERT(instruction->op == OP_LINEAR_DW);
        return (struct cuda_product_operands){.a = at[instruction->transposed ? 1 : 0],
                                              .b = at[instruction->transposed ? 0 : 1],
                                              .c = at[2]};
    }
}

static void run_product(const struct call *c) {
    struct cuda_product_operands of = product_operands(c->instruction, c->at);
    cuda_matmul_run(c->compute, &c->args->matmul, of.a, of.b, of.bias, of.c, c->at[WORKSPACE]);
}

/* Operands 4 and 5 are absent, so NULL, without the gradient. */
static void run_head_loss(const struct call *c) {
    cuda_head_loss_run(c->compute, &c->args->head_loss, c->at[0], c->at[1], c->at[2], c->at[3],
                       c->at[4], c->at[5], c->at[WORKSPACE]);
}

bool opcode_choose(struct cuda_products *products, const struct instruction *instruction,
                   const union kernel_args *args, void *const *address) {
    switch (instruction->op) {
    case OP_LINEAR:
    case OP_LINEAR_DX:
    case OP_LINEAR_DW: {
        struct cuda_product_operands of = product_operands(instruction, address);
        cuda_products_choose(products, &args->matmul, &of);
        return true;
    }
    case OP_HEAD_LOSS:
    case OP_HEAD_LOSS_GRADIENT: {
        struct cuda_head_loss_operands of = {.hidden = address[0],
                                             .weight = address[1],
                                             .dhidden = address[4],
                                             .dweight = address[5],
                                             .workspace = address[WORKSPACE]};
        cuda_head_loss_choose(products, &args->head_loss, &of);
        return true;
    }
    default:
        return false;
    }
}

/* ---- attention ---- */

static void run_rope(const struct call *c) {
    cuda_rope_run(c->compute, &c->args->rope, c->at[0], c->at[1], c->at[2], c->at[2]);
}

static void run_attention(const struct call *c) {
    cuda_attention_forward(c->compute, &c->args->attention, c->at[0], c->at[1], c->at[2], c->at[3],
                           c->at[4], c->at[5]);
}

static void run_attention_backward(const struct call *c) {
    cuda_attention_backward(c->compute, &c->args->attention, c->at[0], c->at[1], c->at[2], c->at[3],
                            c->at[4], c->at[5], c->at[6], c->at[7], c->at[8], c->at[9],
                            c->at[WORKSPACE]);
}

static void run_cache_append(const struct call *c) {
    cuda_cache_append(c->compute, &c->args->generation, c->at[1], c->at[0], c->at[2]);
}

/* A cache is a row for each token of the context. */
static int64_t context_of(const struct call *c) {
    const struct attention_args *args = &c->args->attention;
    int64_t row = args->kv_stride * dtype_bytes(args->dtype);
    return (int64_t)c->instruction->operands[1].bytes / row;
}

static void run_attention_cached(const struct call *c) {
    cuda_attention_cached(c->compute, &c->args->attention, context_of(c), c->at[3], c->at[0],
                          c->at[1], c->at[2], c->at[4], c->at[WORKSPACE]);
}

static void run_select_last(const struct call *c) {
    cuda_select_last(c->compute, &c->args->generation, c->at[1], c->at[0], c->at[2]);
}

/* ---- elementwise ---- */

static void run_column_sum(const struct call *c) {
    cuda_column_sum_run(c->compute, &c->args->column_sum, c->at[0], c->at[1], c->at[WORKSPACE]);
}

static void run_swiglu(const struct call *c) {
    cuda_swiglu_forward(c->compute, &c->args->elementwise, c->at[0], c->at[1], c->at[2]);
}

static void run_swiglu_backward(const struct call *c) {
    cuda_swiglu_backward(c->compute, &c->args->elementwise, c->at[0], c->at[1], c->at[2], c->at[3],
                         c->at[4]);
}

static void run_gelu(const struct call *c) {
    cuda_gelu_forward(c->compute, &c->args->elementwise, c->at[0], c->at[1]);
}

static void run_gelu_backward(const struct call *c) {
    cuda_gelu_backward(c->compute, &c->args->elementwise, c->at[0], c->at[1], c->at[2]);
}

static void run_add(const struct call *c) {
    cuda_add_run(c->compute, &c->args->elementwise, c->at[0], c->at[1], c->at[2]);
}

static void run_accumulate(const struct call *c) {
    cuda_add_run(c->compute, &c->args->elementwise, c->at[1], c->at[0], c->at[1]);
}

static void run_zero(const struct call *c) {
    cuda_zero_run(c->compute, c->at[0], (uint64_t)c->args->count);
}

static void run_cast(const struct call *c) {
    cuda_cast_run(c->compute, c->args->cast.count, c->args->cast.from, c->at[0], c->args->cast.to,
                  c->at[1]);
}

/* Device or pinned memory at either end: the driver sees by the addresses. */
static void run_copy(const struct call *c) {
    cuda_note(c->compute,
              c->compute->driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)c->at[1],
                                                (CUdeviceptr)(uintptr_t)c->at[0],
                                                (size_t)c->args->count, c->compute->stream),
              "copy");
}

/* ---- the step ---- */

static void run_gradient_norm(const struct call *c) {
    cuda_gradient_norm_run(c->compute, c->args->count, c->at[0], c->at[1], c->at[WORKSPACE]);
}

static void run_clip(const struct call *c) {
    cuda_clip_run(c->compute, c->args->clip_norm, c->at[0]);
}

static void run_adamw(const struct call *c) {
    cuda_adamw_run(c->compute, &c->args->adamw.run, c->at[0], c->at[1], c->at[2], c->at[3],
                   c->at[4], c->at[5]);
}

static void run_tally_out(const struct call *c) {
    cuda_tally_out(c->compute, c->at[0], c->at[1]);
}

static void run_tally_in(const struct call *c) {
    cuda_tally_in(c->compute, &c->args->tally, c->at[0], c->at[1]);
}

/* The host's own work is done by whoever runs the segment; a release only names an extent. */
static void run_nothing(const struct call *c) {
    (void)c;
}

static opcode *const OPCODES[OP_KIND_COUNT] = {
    [OP_EMBEDDING] = run_embedding,
    [OP_EMBEDDING_BACKWARD] = run_embedding_backward,
    [OP_RMSNORM] = run_rmsnorm,
    [OP_RMSNORM_BACKWARD] = run_rmsnorm_backward,
    [OP_LAYERNORM] = run_layernorm,
    [OP_LAYERNORM_BACKWARD] = run_layernorm_backward,
    [OP_LINEAR] = run_product,
    [OP_LINEAR_DX] = run_product,
    [OP_LINEAR_DW] = run_product,
    [OP_COLUMN_SUM] = run_column_sum,
    [OP_ROPE] = run_rope,
    [OP_ATTENTION] = run_attention,
    [OP_ATTENTION_BACKWARD] = run_attention_backward,
    [OP_CACHE_APPEND] = run_cache_append,
    [OP_ATTENTION_CACHED] = run_attention_cached,
    [OP_SWIGLU] = run_swiglu,
    [OP_SWIGLU_BACKWARD] = run_swiglu_backward,
    [OP_GELU] = run_gelu,
    [OP_GELU_BACKWARD] = run_gelu_backward,
    [OP_ADD] = run_add,
    [OP_SELECT_LAST] = run_select_last,
    [OP_HEAD_LOSS] = run_head_loss,
    [OP_HEAD_LOSS_GRADIENT] = run_head_loss,
    [OP_ZERO] = run_zero,
    [OP_GRADIENT_NORM] = run_gradient_norm,
    [OP_CLIP] = run_clip,
    [OP_ADAMW] = run_adamw,
    [OP_CAST] = run_cast,
    [OP_COPY] = run_copy,
    [OP_HOST] = run_nothing,
    [OP_ACCUMULATE] = run_accumulate,
    [OP_TALLY_OUT] = run_tally_out,
    [OP_TALLY_IN] = run_tally_in,
    [OP_RELEASE] = run_nothing,
};

void opcode_enqueue(const struct cuda_compute *compute, const struct instruction *instruction,
                    const union kernel_args *args, void *const *address) {
    struct call call = {
        .compute = compute, .args = args, .instruction = instruction, .at = address};
    ASSERT(OPCODES[instruction->op] != NULL);
    OPCODES[instruction->op](&call);
}
