/* attention: rotary embedding, causal attention with its gradient, and attention to cached keys. */
#include "runtime/ops/operation.h"

#include "kernels/cuda/launch/workspace.h"
#if SKEP_CUDA
#include "kernels/cuda/launch/attention.h"
#include "kernels/cuda/launch/elementwise.h"
#endif

#include <math.h>

static union kernel_args make_rope_args(const struct op_source *source) {
    const struct tensor *x = source->shape;
    int64_t head_dim = x->columns / source->op->heads;
    return (union kernel_args){.rope = {.tokens = x->rows,
                                        .heads = source->op->heads,
                                        .head_dim = head_dim,
                                        .rotary_dim = head_dim,
                                        .in_stride = x->stride,
                                        .out_stride = x->stride,
                                        .inverse = source->op->inverse,
                                        .dtype = x->dtype}};
}

static void append_rope_text(const union kernel_args *args, struct text *line) {
    const struct rope_args *of = &args->rope;
    text_add(line, " tokens %lld heads %lld dim %lld%s %s", (long long)of->tokens,
             (long long)of->heads, (long long)of->head_dim, of->inverse ? " inverse" : "",
             dtype_name(of->dtype));
}

KERNEL_CALLS(rope, rope_run, &call->args->rope, call->addresses[ROPE_TABLE],
             call->addresses[ROPE_POSITIONS], call->addresses[ROPE_X], call->addresses[ROPE_X])

OPERATION(rope, .shape_operand = ROPE_X, .args = make_rope_args, .text = append_rope_text);

/* ---- attention ---- */

/* Returns the arguments of attention. The kernel needs the row strides of q, keys and out; values
 * have the stride of keys. */
static union kernel_args make_attention_args_with_strides(const struct op_source *source, int q,
                                                          int keys, int out) {
    const struct graph *graph = source->graph;
    const struct blueprint *blueprint = graph->blueprint;
    return (union kernel_args){
        .attention = {.rows = graph->shape.rows,
                      .time = graph->shape.time,
                      .heads = source->op->heads,
                      .kv_heads = blueprint->kv_heads,
                      .head_dim = blueprint->head_dim,
                      .q_stride = op_tensor(source, q)->stride,
                      .kv_stride = op_tensor(source, keys)->stride,
                      .out_stride = op_tensor(source, out)->stride,
                      .window = source->op->window,
                      .scale = (float)(1.0 / sqrt((double)blueprint->head_dim)),
                      .dtype = op_tensor(source, q)->dtype}};
}

static union kernel_args make_forward_args(const struct op_source *source) {
    return make_attention_args_with_strides(source, ATTENTION_Q, ATTENTION_K, ATTENTION_OUT);
}

static union kernel_args make_backward_args(const struct op_source *source) {
    return make_attention_args_with_strides(source, ATTENTION_BACKWARD_Q, ATTENTION_BACKWARD_K,
                                            ATTENTION_BACKWARD_OUT);
}

static union kernel_args make_cached_args(const struct op_source *source) {
    return make_attention_args_with_strides(source, ATTENTION_CACHED_Q, ATTENTION_CACHED_KEY_CACHE,
                                            ATTENTION_CACHED_OUT);
}

/* Returns the capacity of the key-value cache in tokens. The cache has one row for each token of
 * the context. */
static int64_t cache_capacity_tokens(const struct instruction *instruction) {
    const struct attention_args *args = &instruction->args.attention;
    int64_t row = args->kv_stride * dtype_bytes(args->dtype);
    return (int64_t)instruction->operands[ATTENTION_CACHED_KEY_CACHE].bytes / row;
}

static uint64_t forward_workspace(const struct instruction *instruction,
                                  const struct op_hardware *machine) {
    const struct attention_args *args = &instruction->args.attention;
    return machine->device != NULL ? 0 : attention_forward_workspace_bytes(args, machine->threads);
}

WORKSPACE_FUNCTION(backward_workspace, attention_backward, &instruction->args.attention)

WORKSPACE_FUNCTION(cached_workspace, attention_cached, &instruction->args.attention,
                   cache_capacity_tokens(instruction))

/* Returns the number of (query, key) pairs that causal attention computes, over all rows and heads.
 * Packed documents only reduce this number. */
static double query_key_pairs(const struct attention_args *args) {
    double time = (double)args->time;
    double window = args->window > 0 && args->window < args->time ? (double)args->window : time;
    double pairs = window * (window + 1) / 2 + (time - window) * window;
    return pairs * (double)(args->rows * args->heads);
}

/* Returns the operations of two matrix products: scores and output. */
static double forward_flops(const struct instruction *instruction) {
    const struct attention_args *args = &instruction->args.attention;
    return 4.0 * query_key_pairs(args) * (double)args->head_dim;
}

/* Returns the operations of five matrix products, because the probabilities are recomputed from
 * lse. */
static double backward_flops(const struct instruction *instruction) {
    const struct attention_args *args = &instruction->args.attention;
    return 10.0 * query_key_pairs(args) * (double)args->head_dim;
}

static double cached_flops(const struct instruction *instruction) {
    const struct attention_args *args = &instruction->args.attention;
    return 4.0 * (double)(args->time * args->heads * cache_capacity_tokens(instruction)) *
           (double)args->head_dim;
}

static void append_attention_text(const union kernel_args *args, struct text *line) {
    const struct attention_args *of = &args->attention;
    text_add(
        line, " rows %lld time %lld heads %lld/%lld dim %lld window %lld %s stride %lld,%lld,%lld",
        (long long)of->rows, (long long)of->time, (long long)of->heads, (long long)of->kv_heads,
        (long long)of->head_dim, (long long)of->window, dtype_name(of->dtype),
        (long long)of->q_stride, (long long)of->kv_stride, (long long)of->out_stride);
}

static void run_attention(const struct compute *compute, const struct op_call *call) {
    attention_forward(compute, &call->args->attention, call->addresses[ATTENTION_Q],
                      call->addresses[ATTENTION_K], call->addresses[ATTENTION_V],
                      call->addresses[ATTENTION_POSITIONS], call->addresses[ATTENTION_OUT],
                      call->addresses[ATTENTION_LSE], call->addresses[OP_WORKSPACE]);
}

KERNEL_CALLS(attention_backward, attention_backward, &call->args->attention,
             call->addresses[ATTENTION_BACKWARD_Q], call->addresses[ATTENTION_BACKWARD_K],
             call->addresses[ATTENTION_BACKWARD_V], call->addresses[ATTENTION_BACKWARD_OUT],
             call->addresses[ATTENTION_BACKWARD_LSE], call->addresses[ATTENTION_BACKWARD_DOUT],
             call->addresses[ATTENTION_BACKWARD_POSITIONS], call->addresses[ATTENTION_BACKWARD_DQ],
             call->addresses[ATTENTION_BACKWARD_DK], call->addresses[ATTENTION_BACKWARD_DV],
             call->addresses[OP_WORKSPACE])

static void run_attention_cached(const struct compute *compute, const struct op_call *call) {
    const struct step_scalars *scalars = call->addresses[ATTENTION_CACHED_SCALARS];
    attention_cached(
        compute, &call->args->attention, scalars->cache_length, call->addresses[ATTENTION_CACHED_Q],
        call->addresses[ATTENTION_CACHED_KEY_CACHE], call->addresses[ATTENTION_CACHED_VALUE_CACHE],
        call->addresses[ATTENTION_CACHED_OUT], call->addresses[OP_WORKSPACE]);
}

#if SKEP_CUDA
static void enqueue_attention(const struct cuda_compute *compute, const struct op_call *call) {
    cuda_attention_forward(compute, &call->args->attention, call->addresses[ATTENTION_Q],
                           call->addresses[ATTENTION_K], call->addresses[ATTENTION_V],
                           call->addresses[ATTENTION_POSITIONS], call->addresses[ATTENTION_OUT],
                           call->addresses[ATTENTION_LSE]);
}

/* Enqueues attention to cached keys. The device kernel reads the current length of the cache from
 * the scalars. */
static void enqueue_attention_cached(const struct cuda_compute *compute,
                                     const struct op_call *call) {
    cuda_attention_cached(
        compute, &call->args->attention, cache_capacity_tokens(call->instruction),
        call->addresses[ATTENTION_CACHED_SCALARS], call->addresses[ATTENTION_CACHED_Q],
        call->addresses[ATTENTION_CACHED_KEY_CACHE], call->addresses[ATTENTION_CACHED_VALUE_CACHE],
        call->addresses[ATTENTION_CACHED_OUT], call->addresses[OP_WORKSPACE]);
}
#endif

OPERATION(attention, .args = make_forward_args, .workspace_bytes = forward_workspace,
          .flops = forward_flops, .text = append_attention_text);

OPERATION(attention_backward, .args = make_backward_args, .workspace_bytes = backward_workspace,
          .flops = backward_flops, .text = append_attention_text);

OPERATION(attention_cached, .args = make_cached_args, .workspace_bytes = cached_workspace,
          .flops = cached_flops, .text = append_attention_text);
