#include "runtime/schedule/lower.h"

#include "kernels/cuda/launch/workspace.h"

#include <math.h>

static const struct tensor *operand(const struct graph *graph, const struct op *op, int index) {
    ASSERT(op->operands[index] != TENSOR_NONE);
    return &graph->tensors[op->operands[index]];
}

/* out[m, n] = x[m, k] weight; the file's [out, in] is B transposed, Conv1D's [in, out] is plain. */
static struct matmul_args linear_args(const struct graph *graph, const struct op *op) {
    const struct tensor *x = operand(graph, op, 0);
    const struct tensor *weight = operand(graph, op, 1);
    const struct tensor *out = operand(graph, op, 3);
    return (struct matmul_args){.m = x->rows,
                                .n = out->columns,
                                .k = x->columns,
                                .lda = x->stride,
                                .ldb = weight->stride,
                                .ldc = out->stride,
                                .dtype_in = x->dtype,
                                .dtype_out = out->dtype,
                                .transpose_b = !op->transposed,
                                .bias = op->operands[2] != TENSOR_NONE};
}

static struct matmul_args linear_dx_args(const struct graph *graph, const struct op *op) {
    const struct tensor *dout = operand(graph, op, 0);
    const struct tensor *weight = operand(graph, op, 1);
    const struct tensor *dx = operand(graph, op, 2);
    return (struct matmul_args){.m = dout->rows,
                                .n = dx->columns,
                                .k = dout->columns,
                                .lda = dout->stride,
                                .ldb = weight->stride,
                                .ldc = dx->stride,
                                .dtype_in = dout->dtype,
                                .dtype_out = dx->dtype,
                                .transpose_b = op->transposed,
                                .accumulate = op->accumulate};
}

/* The gradient has the weight's layout: dout^T x for [out, in], x^T dout for [in, out]. */
static struct matmul_args linear_dw_args(const struct graph *graph, const struct op *op) {
    const struct tensor *dout = operand(graph, op, 0);
    const struct tensor *x = operand(graph, op, 1);
    const struct tensor *dweight = operand(graph, op, 2);
    const struct tensor *left = op->transposed ? x : dout;
    const struct tensor *right = op->transposed ? dout : x;
    return (struct matmul_args){.m = left->columns,
                                .n = right->columns,
                                .k = x->rows,
                                .lda = left->stride,
                                .ldb = right->stride,
                                .ldc = dweight->stride,
                                .dtype_in = x->dtype,
                                .dtype_out = DTYPE_F32,
                                .transpose_a = true,
                                .accumulate = true};
}

static struct attention_args attention_args_of(const struct graph *graph, const struct op *op,
                                               const struct tensor *q, const struct tensor *kv,
                                               const struct tensor *out) {
    const struct blueprint *blueprint = graph->blueprint;
    return (struct attention_args){.rows = graph->shape.rows,
                                   .time = graph->shape.time,
                                   .heads = op->heads,
                                   .kv_heads = blueprint->kv_heads,
                                   .head_dim = blueprint->head_dim,
                                   .q_stride = q->stride,
                                   .kv_stride = kv->stride,
                                   .out_stride = out->stride,
                                   .window = op->window,
                                   .scale = (float)(1.0 / sqrt((double)blueprint->head_dim)),
                                   .dtype = q->dtype};
}

static struct norm_args norm_args_of(const struct graph *graph, const struct op *op, int x_index) {
    const struct tensor *x = operand(graph, op, x_index);
    return (struct norm_args){.rows = x->rows * op->heads,
                              .dim = x->columns / op->heads,
                              .epsilon = (float)graph->blueprint->norm_epsilon,
                              .dtype = x->dtype};
}

static struct rope_args rope_args_of(const struct graph *graph, const struct op *op) {
    const struct tensor *x = operand(graph, op, 2);
    return (struct rope_args){.tokens = x->rows,
                              .heads = op->heads,
                              .head_dim = x->columns / op->heads,
                              .rotary_dim = x->columns / op->heads,
                              .in_stride = x->stride,
                              .out_stride = x->stride,
                              .inverse = op->inverse,
                              .dtype = x->dtype};
}

static struct embedding_args embedding_args_of(const struct graph *graph,
                                               const struct tensor *rows) {
    return (struct embedding_args){.tokens = rows->rows,
                                   .dim = rows->columns,
                                   .vocab = graph->blueprint->vocab,
                                   .padding = graph->blueprint->tokens.padding,
                                   .dtype = rows->dtype};
}

static struct head_loss_args head_loss_args_of(const struct graph *graph, const struct op *op,
                                               const struct target *device) {
    const struct tensor *hidden = operand(graph, op, 0);
    int64_t vocab = graph->blueprint->vocab;
    return (struct head_loss_args){.tokens = hidden->rows,
                                   .dim = hidden->columns,
                                   .vocab = vocab,
                                   .chunk = device != NULL
                                                ? cuda_head_loss_chunk(hidden->rows, vocab, device)
                                                : head_loss_chunk(hidden->rows, vocab),
                                   .dtype = hidden->dtype,
                                   .gradient = op->kind == OP_HEAD_LOSS_GRADIENT,
                                   .accumulate = true};
}

static struct elementwise_args elementwise_args_of(const struct tensor *tensor) {
    ASSERT(tensor->stride == tensor->columns);
    return (struct elementwise_args){.count = tensor->rows * tensor->columns,
                                     .dtype = tensor->dtype};
}

static struct column_sum_args column_sum_args_of(const struct tensor *x) {
    return (struct column_sum_args){
        .rows = x->rows, .columns = x->columns, .stride = x->stride, .dtype = x->dtype};
}

static struct generation_args generation_args_of(const struct graph *graph,
                                                 const struct tensor *rows) {
    return (struct generation_args){.tokens = rows->rows,
                                    .width = rows->columns,
                                    .stride = rows->stride,
                                    .context = graph->shape.context,
                                    .dtype = rows->dtype};
}

static int64_t bytes_of(const struct tensor *tensor) {
    return tensor->rows * tensor->columns * dtype_bytes(tensor->dtype);
}

union kernel_args lower_args(const struct graph *graph, const struct op *op,
                             const struct target *device) {
    union kernel_args args = {.count = 0};
    switch (op->kind) {
    case OP_EMBEDDING:
        args.embedding = embedding_args_of(graph, operand(graph, op, 4));
        break;
    case OP_EMBEDDING_BACKWARD:
        args.embedding = embedding_args_of(graph, operand(graph, op, 2));
        break;
    case OP_RMSNORM:
    case OP_LAYERNORM:
        args.norm = norm_args_of(graph, op, 0);
        break;
    case OP_RMSNORM_BACKWARD:
    case OP_LAYERNORM_BACKWARD:
        args.norm = norm_args_of(graph, op, 1);
        break;
    case OP_LINEAR:
        args.matmul = linear_args(graph, op);
        break;
    case OP_LINEAR_DX:
        args.matmul = linear_dx_args(graph, op);
        break;
    case OP_LINEAR_DW:
        args.matmul = linear_dw_args(graph, op);
        break;
    case OP_COLUMN_SUM:
        args.column_sum = column_sum_args_of(operand(graph, op, 0));
        break;
    case OP_ROPE:
        args.rope = rope_args_of(graph, op);
        break;
    case OP_ATTENTION:
        args.attention = attention_args_of(graph, op, operand(graph, op, 0), operand(graph, op, 1),
                                           operand(graph, op, 4));
        break;
    case OP_ATTENTION_BACKWARD:
        args.attention = attention_args_of(graph, op, operand(graph, op, 0), operand(graph, op, 1),
                                           operand(graph, op, 3));
        break;
    case OP_ATTENTION_CACHED:
        args.attention = attention_args_of(graph, op, operand(graph, op, 0), operand(graph, op, 1),
                                           operand(graph, op, 4));
        break;
    case OP_CACHE_APPEND:
    case OP_SELECT_LAST:
        args.generation = generation_args_of(graph, operand(graph, op, 0));
        break;
    case OP_SWIGLU:
    case OP_GELU:
    case OP_ADD:
    case OP_SWIGLU_BACKWARD:
    case OP_GELU_BACKWARD:
        args.elementwise = elementwise_args_of(operand(graph, op, 0));
        break;
    case OP_HEAD_LOSS:
    case OP_HEAD_LOSS_GRADIENT:
        args.head_loss = head_loss_args_of(graph, op, device);
        break;
    case OP_COPY:
        args.count = bytes_of(operand(graph, op, 0));
        break;
    case OP_RELEASE:
        break;
    default:
        ASSERT(false && "an op that no graph holds");
    }
    return args;
}
