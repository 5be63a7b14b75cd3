/* linear: matrix products with a weight, the gradients of input and weight, and the gradient of
 * a bias. */
#include "runtime/ops/operation.h"

#include "kernels/cuda/launch/workspace.h"
#if SKEP_CUDA
#include "kernels/cuda/launch/elementwise.h"
#include "kernels/cuda/launch/matmul.h"
#include "kernels/cuda/launch/products.h"
#endif

/* Returns the arguments of out[m, n] = x[m, k] B[k, n], where B is the weight. The kernel
 * transposes a weight that is stored as [out, in], and not one stored as [in, out] (Conv1D). */
static union kernel_args make_forward_args(const struct op_source *source) {
    const struct tensor *x = op_tensor(source, LINEAR_X);
    const struct tensor *weight = op_tensor(source, LINEAR_WEIGHT);
    const struct tensor *out = op_tensor(source, LINEAR_OUT);
    return (union kernel_args){
        .matmul = {.m = x->rows,
                   .n = out->columns,
                   .k = x->columns,
                   .lda = x->stride,
                   .ldb = weight->stride,
                   .ldc = out->stride,
                   .dtype_in = x->dtype,
                   .dtype_out = out->dtype,
                   .transpose_b = !source->op->transposed,
                   .bias = source->op->operands[LINEAR_BIAS] != TENSOR_NONE}};
}

static union kernel_args make_dx_args(const struct op_source *source) {
    const struct tensor *dout = op_tensor(source, LINEAR_DX_DOUT);
    const struct tensor *weight = op_tensor(source, LINEAR_DX_WEIGHT);
    const struct tensor *dx = op_tensor(source, LINEAR_DX_DX);
    return (union kernel_args){.matmul = {.m = dout->rows,
                                          .n = dx->columns,
                                          .k = dout->columns,
                                          .lda = dout->stride,
                                          .ldb = weight->stride,
                                          .ldc = dx->stride,
                                          .dtype_in = dout->dtype,
                                          .dtype_out = dx->dtype,
                                          .transpose_b = source->op->transposed,
                                          .accumulate = source->op->accumulate}};
}

/* Returns the left operand of the product for the weight's gradient, which has the layout of the
 * weight: dout^T x for [out, in], x^T dout for [in, out]. */
static int dw_left_operand(bool transposed) {
    return transposed ? LINEAR_DW_X : LINEAR_DW_DOUT;
}

static int dw_right_operand(bool transposed) {
    return transposed ? LINEAR_DW_DOUT : LINEAR_DW_X;
}

static union kernel_args make_dw_args(const struct op_source *source) {
    const struct tensor *left = op_tensor(source, dw_left_operand(source->op->transposed));
    const struct tensor *right = op_tensor(source, dw_right_operand(source->op->transposed));
    return (union kernel_args){.matmul = {.m = left->columns,
                                          .n = right->columns,
                                          .k = left->rows,
                                          .lda = left->stride,
                                          .ldb = right->stride,
                                          .ldc = op_tensor(source, LINEAR_DW_DWEIGHT)->stride,
                                          .dtype_in = left->dtype,
                                          .dtype_out = DTYPE_F32,
                                          .transpose_a = true,
                                          .accumulate = true}};
}

WORKSPACE_FUNCTION(linear_workspace, matmul, &instruction->args.matmul)

static double linear_flops(const struct instruction *instruction) {
    const struct matmul_args *args = &instruction->args.matmul;
    return 2.0 * (double)args->m * (double)args->n * (double)args->k;
}

static void append_linear_text(const union kernel_args *args, struct text *line) {
    const struct matmul_args *of = &args->matmul;
    text_add(line, " [%lld,%lld]x[%lld,%lld]%s%s%s%s %s>%s ld %lld,%lld,%lld", (long long)of->m,
             (long long)of->k, (long long)of->k, (long long)of->n, of->transpose_a ? " at" : "",
             of->transpose_b ? " bt" : "", of->bias ? " bias" : "", of->accumulate ? " add" : "",
             dtype_name(of->dtype_in), dtype_name(of->dtype_out), (long long)of->lda,
             (long long)of->ldb, (long long)of->ldc);
}

/* ---- calls ---- */

struct matmul_operands {
    const void *a, *b, *bias; /* factors of the product, and its bias; bias NULL: none */
    void *c;                  /* result */
};

static struct matmul_operands get_matmul_operands(const struct op_call *call) {
    bool transposed = call->instruction->transposed;
    switch (call->instruction->op) {
    case OP_LINEAR:
        return (struct matmul_operands){.a = call->addresses[LINEAR_X],
                                        .b = call->addresses[LINEAR_WEIGHT],
                                        .bias = call->addresses[LINEAR_BIAS],
                                        .c = call->addresses[LINEAR_OUT]};
    case OP_LINEAR_DX:
        return (struct matmul_operands){.a = call->addresses[LINEAR_DX_DOUT],
                                        .b = call->addresses[LINEAR_DX_WEIGHT],
                                        .c = call->addresses[LINEAR_DX_DX]};
    default:
        ASSERT(call->instruction->op == OP_LINEAR_DW);
        return (struct matmul_operands){.a = call->addresses[dw_left_operand(transposed)],
                                        .b = call->addresses[dw_right_operand(transposed)],
                                        .c = call->addresses[LINEAR_DW_DWEIGHT]};
    }
}

static void run_linear(const struct compute *compute, const struct op_call *call) {
    struct matmul_operands matmul_operands = get_matmul_operands(call);
    matmul_run(compute, &call->args->matmul, matmul_operands.a, matmul_operands.b,
               matmul_operands.bias, matmul_operands.c, call->addresses[OP_WORKSPACE]);
}

#if SKEP_CUDA
static void enqueue_linear(const struct cuda_compute *compute, const struct op_call *call) {
    struct matmul_operands matmul_operands = get_matmul_operands(call);
    cuda_matmul_run(compute, &call->args->matmul, matmul_operands.a, matmul_operands.b,
                    matmul_operands.bias, matmul_operands.c, call->addresses[OP_WORKSPACE]);
}

static void choose_linear_algorithm(struct cuda_products *products, const struct op_call *call) {
    struct matmul_operands matmul_operands = get_matmul_operands(call);
    struct cuda_product_operands operands = {.a = matmul_operands.a,
                                             .b = matmul_operands.b,
                                             .bias = matmul_operands.bias,
                                             .c = matmul_operands.c};
    cuda_products_choose(products, &call->args->matmul, &operands);
}
#endif

#define LINEAR_OPERATION(name, arguments)                                                          \
    const struct operation name##_operation = {.args = arguments,                                  \
                                               .workspace_bytes = linear_workspace,                \
                                               .flops = linear_flops,                              \
                                               .text = append_linear_text,                         \
                                               .run = run_linear,                                  \
                                               .enqueue = ON_CUDA(enqueue_linear),                 \
                                               .choose_algorithms =                                \
                                                   ON_CUDA(choose_linear_algorithm)}

LINEAR_OPERATION(linear, make_forward_args);
LINEAR_OPERATION(linear_dx, make_dx_args);
LINEAR_OPERATION(linear_dw, make_dw_args);

/* ---- the gradient of a bias ---- */

static union kernel_args make_column_sum_args(const struct op_source *source) {
    const struct tensor *dout = source->shape;
    return (union kernel_args){.column_sum = {.rows = dout->rows,
                                              .columns = dout->columns,
                                              .stride = dout->stride,
                                              .dtype = dout->dtype}};
}

WORKSPACE_FUNCTION(column_sum_workspace, column_sum, &instruction->args.column_sum)

static void column_sum_text(const union kernel_args *args, struct text *line) {
    const struct column_sum_args *of = &args->column_sum;
    text_add(line, " [%lld,%lld] %s", (long long)of->rows, (long long)of->columns,
             dtype_name(of->dtype));
}

KERNEL_CALLS(column_sum, column_sum_run, &call->args->column_sum, call->addresses[COLUMN_SUM_DOUT],
             call->addresses[COLUMN_SUM_DBIAS], call->addresses[OP_WORKSPACE])

OPERATION(column_sum, .shape_operand = COLUMN_SUM_DOUT, .args = make_column_sum_args,
          .workspace_bytes = column_sum_workspace, .text = column_sum_text);
