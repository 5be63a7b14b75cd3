#include "runtime/program/opcodes.h"

#include <string.h>

enum { WORKSPACE = OPERANDS_MAX };

struct call {
    const struct compute *compute;
    const union kernel_args *args;
    const struct instruction *instruction;
    void *const *at; /* operands in op_table's order, then the workspace */
};

typedef void opcode(const struct call *c);

static void run_embedding(const struct call *c) {
    embedding_forward(c->compute, &c->args->embedding, c->at[0], c->at[1], c->at[2], c->at[3],
                      c->at[4]);
}

static void run_embedding_backward(const struct call *c) {
    embedding_backward(c->compute, &c->args->embedding, c->at[0], c->at[1], c->at[2], c->at[3],
                       c->at[4]);
}

static void run_rmsnorm(const struct call *c) {
    rmsnorm_forward(c->compute, &c->args->norm, c->at[0], c->at[1], c->at[2], c->at[3]);
}

static void run_rmsnorm_backward(const struct call *c) {
    rmsnorm_backward(c->compute, &c->args->norm, c->at[0], c->at[1], c->at[2], c->at[3], c->at[4],
                     c->at[5], c->at[6], c->at[WORKSPACE]);
}

static void run_layernorm(const struct call *c) {
    layernorm_forward(c->compute, &c->args->norm, c->at[0], c->at[1], c->at[2], c->at[3], c->at[4],
                      c->at[5]);
}

static void run_layernorm_backward(const struct call *c) {
    layernorm_backward(c->compute, &c->args->norm, c->at[0], c->at[1], c->at[2], c->at[3], c->at[4],
                       c->at[5], c->at[6], c->at[7], c->at[8], c->at[WORKSPACE]);
}

static void run_linear(const struct call *c) {
    matmul_run(c->compute, &c->args->matmul, c->at[0], c->at[1], c->at[2], c->at[3],
               c->at[WORKSPACE]);
}

static void run_linear_dx(const struct call *c) {
    matmul_run(c->compute, &c->args->matmul, c->at[0], c->at[1], NULL, c->at[2], c->at[WORKSPACE]);
}

static void run_linear_dw(const struct call *c) {
    bool transposed = c->instruction->transposed;
    matmul_run(c->compute, &c->args->matmul, c->at[transposed ? 1 : 0], c->at[transposed ? 0 : 1],
               NULL, c->at[2], c->at[WORKSPACE]);
}

static void run_column_sum(const struct call *c) {
    column_sum_run(c->compute, &c->args->column_sum, c->at[0], c->at[1], c->at[WORKSPACE]);
}

static void run_rope(const struct call *c) {
    rope_run(c->compute, &c->args->rope, c->at[0], c->at[1], c->at[2], c->at[2]);
}

static void run_attention(const struct call *c) {
    attention_forward(c->compute, &c->args->attention, c->at[0], c->at[1], c->at[2], c->at[3],
                      c->at[4], c->at[5], c->at[WORKSPACE]);
}

static void run_attention_backward(const struct call *c) {
    attention_backward(c->compute, &c->args->attention, c->at[0], c->at[1], c->at[2], c->at[3],
                       c->at[4], c->at[5], c->at[6], c->at[7], c->at[8], c->at[9],
                       c->at[WORKSPACE]);
}

static void run_cache_append(const struct call *c) {
    cache_append(&c->args->generation, c->at[1], c->at[0], c->at[2]);
}

static void run_attention_cached(const struct call *c) {
    const struct step_scalars *scalars = c->at[3];
    attention_cached(c->compute, &c->args->attention, scalars->cache_length, c->at[0], c->at[1],
                     c->at[2], c->at[4], c->at[WORKSPACE]);
}

static void run_swiglu(const struct call *c) {
    swiglu_forward(c->compute, &c->args->elementwise, c->at[0], c->at[1], c->at[2]);
}

static void run_swiglu_backward(const struct call *c) {
    swiglu_backward(c->compute, &c->args->elementwise, c->at[0], c->at[1], c->at[2], c->at[3],
                    c->at[4]);
}

static void run_gelu(const struct call *c) {
    gelu_forward(c->compute, &c->args->elementwise, c->at[0], c->at[1]);
}

static void run_gelu_backward(const struct call *c) {
    gelu_backward(c->compute, &c->args->elementwise, c->at[0], c->at[1], c->at[2]);
}

static void run_add(const struct call *c) {
    add_run(c->compute, &c->args->elementwise, c->at[0], c->at[1], c->at[2]);
}

static void run_select_last(const struct call *c) {
    select_last(&c->args->generation, c->at[1], c->at[0], c->at[2]);
}

/* Operands 4 and 5 are absent, so NULL, without the gradient. */
static void run_head_loss(const struct call *c) {
    head_loss_run(c->compute, &c->args->head_loss, c->at[0], c->at[1], c->at[2], c->at[3], c->at[4],
                  c->at[5], c->at[WORKSPACE]);
}

static void run_zero(const struct call *c) {
    zero_run(c->compute, c->at[0], (uint64_t)c->args->count);
}

static void run_gradient_norm(const struct call *c) {
    gradient_norm_run(c->compute, c->args->count, c->at[0], c->at[1], c->at[WORKSPACE]);
}

static void run_clip(const struct call *c) {
    clip_run(c->args->clip_norm, c->at[0]);
}

static void run_adamw(const struct call *c) {
    adamw_run(c->compute, &c->args->adamw.run, c->at[0], c->at[1], c->at[2], c->at[3], c->at[4],
              c->at[5]);
}

static void run_cast(const struct call *c) {
    cast_run(c->compute, c->args->cast.count, c->args->cast.from, c->at[0], c->args->cast.to,
             c->at[1]);
}

static void run_copy(const struct call *c) {
    memcpy(c->at[1], c->at[0], (size_t)c->args->count);
}

static void run_accumulate(const struct call *c) {
    add_run(c->compute, &c->args->elementwise, c->at[1], c->at[0], c->at[1]);
}

static void run_tally_out(const struct call *c) {
    tally_out(c->at[0], c->at[1]);
}

static void run_tally_in(const struct call *c) {
    tally_in(&c->args->tally, c->at[0], c->at[1]);
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
    [OP_LINEAR] = run_linear,
    [OP_LINEAR_DX] = run_linear_dx,
    [OP_LINEAR_DW] = run_linear_dw,
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

void opcode_run(const struct compute *compute, const struct instruction *instruction,
                const union kernel_args *args, void *const *address) {
    struct call call = {
        .compute = compute, .args = args, .instruction = instruction, .at = address};
    ASSERT(OPCODES[instruction->op] != NULL);
    OPCODES[instruction->op](&call);
}
