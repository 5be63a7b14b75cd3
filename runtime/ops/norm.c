/* norm: RMSNorm and LayerNorm over rows, or over the heads of each row. */
#include "runtime/ops/operation.h"

#include "kernels/cuda/launch/workspace.h"
#if SKEP_CUDA
#include "kernels/cuda/launch/norm.h"
#endif

static union kernel_args make_norm_args(const struct op_source *source) {
    int64_t heads = source->op->heads;
    ASSERT(heads >= 1 && source->shape->columns % heads == 0);
    return (union kernel_args){.norm = {.rows = source->shape->rows * heads,
                                        .dim = source->shape->columns / heads,
                                        .epsilon = (float)source->graph->blueprint->norm_epsilon,
                                        .dtype = source->shape->dtype}};
}

WORKSPACE_FUNCTION(backward_workspace, norm_backward, &instruction->args.norm)

static void norm_text(const union kernel_args *args, struct text *line) {
    text_add(line, " [%lld,%lld] eps %.9g %s", (long long)args->norm.rows,
             (long long)args->norm.dim, (double)args->norm.epsilon, dtype_name(args->norm.dtype));
}

KERNEL_CALLS(rmsnorm, rmsnorm_forward, &call->args->norm, call->addresses[RMSNORM_X],
             call->addresses[RMSNORM_WEIGHT], call->addresses[RMSNORM_OUT],
             call->addresses[RMSNORM_RMS_INV])

KERNEL_CALLS(rmsnorm_backward, rmsnorm_backward, &call->args->norm,
             call->addresses[RMSNORM_BACKWARD_DOUT], call->addresses[RMSNORM_BACKWARD_X],
             call->addresses[RMSNORM_BACKWARD_WEIGHT], call->addresses[RMSNORM_BACKWARD_RMS_INV],
             call->addresses[RMSNORM_BACKWARD_DADD], call->addresses[RMSNORM_BACKWARD_DX],
             call->addresses[RMSNORM_BACKWARD_DWEIGHT], call->addresses[OP_WORKSPACE])

KERNEL_CALLS(layernorm, layernorm_forward, &call->args->norm, call->addresses[LAYERNORM_X],
             call->addresses[LAYERNORM_WEIGHT], call->addresses[LAYERNORM_BIAS],
             call->addresses[LAYERNORM_OUT], call->addresses[LAYERNORM_MEAN],
             call->addresses[LAYERNORM_STD_INV])

KERNEL_CALLS(layernorm_backward, layernorm_backward, &call->args->norm,
             call->addresses[LAYERNORM_BACKWARD_DOUT], call->addresses[LAYERNORM_BACKWARD_X],
             call->addresses[LAYERNORM_BACKWARD_WEIGHT], call->addresses[LAYERNORM_BACKWARD_MEAN],
             call->addresses[LAYERNORM_BACKWARD_STD_INV], call->addresses[LAYERNORM_BACKWARD_DADD],
             call->addresses[LAYERNORM_BACKWARD_DX], call->addresses[LAYERNORM_BACKWARD_DWEIGHT],
             call->addresses[LAYERNORM_BACKWARD_DBIAS], call->addresses[OP_WORKSPACE])

OPERATION(rmsnorm, .shape_operand = RMSNORM_X, .args = make_norm_args, .text = norm_text);

OPERATION(rmsnorm_backward, .shape_operand = RMSNORM_BACKWARD_X, .args = make_norm_args,
          .workspace_bytes = backward_workspace, .text = norm_text);

OPERATION(layernorm, .shape_operand = LAYERNORM_X, .args = make_norm_args, .text = norm_text);

OPERATION(layernorm_backward, .shape_operand = LAYERNORM_BACKWARD_X, .args = make_norm_args,
          .workspace_bytes = backward_workspace, .text = norm_text);
