#include "runtime/schedule/workspaces.h"

#include "kernels/cuda/launch/workspace.h"

static uint64_t on_cpu(const struct instruction *instruction, int64_t context, int threads) {
    const union kernel_args *args = &instruction->args;
    switch (instruction->op) {
    case OP_LINEAR:
    case OP_LINEAR_DX:
    case OP_LINEAR_DW:
        return matmul_workspace_bytes(&args->matmul, threads);
    case OP_ATTENTION:
        return attention_forward_workspace_bytes(&args->attention, threads);
    case OP_ATTENTION_BACKWARD:
        return attention_backward_workspace_bytes(&args->attention, threads);
    case OP_ATTENTION_CACHED:
        return attention_cached_workspace_bytes(&args->attention, context, threads);
    case OP_RMSNORM_BACKWARD:
    case OP_LAYERNORM_BACKWARD:
        return norm_backward_workspace_bytes(&args->norm, threads);
    case OP_COLUMN_SUM:
        return column_sum_workspace_bytes(&args->column_sum, threads);
    case OP_HEAD_LOSS:
    case OP_HEAD_LOSS_GRADIENT:
        return head_loss_workspace_bytes(&args->head_loss, threads);
    case OP_GRADIENT_NORM:
        return gradient_norm_workspace_bytes(args->count, threads);
    default:
        return 0;
    }
}

static uint64_t on_cuda(const struct instruction *instruction, int64_t context,
                        const struct target *device) {
    const union kernel_args *args = &instruction->args;
    switch (instruction->op) {
    case OP_LINEAR:
    case OP_LINEAR_DX:
    case OP_LINEAR_DW:
        return cuda_matmul_workspace_bytes(&args->matmul, device);
    case OP_ATTENTION_BACKWARD:
        return cuda_attention_backward_workspace_bytes(&args->attention, device);
    case OP_ATTENTION_CACHED:
        return cuda_attention_cached_workspace_bytes(&args->attention, context, device);
    case OP_RMSNORM_BACKWARD:
    case OP_LAYERNORM_BACKWARD:
        return cuda_norm_backward_workspace_bytes(&args->norm, device);
    case OP_COLUMN_SUM:
        return cuda_column_sum_workspace_bytes(&args->column_sum, device);
    case OP_HEAD_LOSS:
    case OP_HEAD_LOSS_GRADIENT:
        return cuda_head_loss_workspace_bytes(&args->head_loss, device);
    case OP_GRADIENT_NORM:
        return cuda_gradient_norm_workspace_bytes(args->count, device);
    default:
        return 0;
    }
}

uint64_t workspace_bytes(const struct instruction *instruction, const struct schedule *schedule) {
    const struct target *device = schedule_device(schedule);
    int64_t context = schedule->options.context;
    return device != NULL ? on_cuda(instruction, context, device)
                          : on_cpu(instruction, context, schedule->target->threads);
}
