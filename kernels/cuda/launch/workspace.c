#include "kernels/cuda/launch/workspace.h"

#include "kernels/cuda/device/elementwise_params.h"
#include "kernels/cuda/device/norm_params.h"
#include "kernels/items.h"

uint64_t cuda_column_sum_workspace_bytes(const struct column_sum_args *args,
                                         const struct target *target) {
    (void)target;
    return (uint64_t)(items_count(args->rows, CUDA_COLUMN_SUM_ROWS) * args->columns) *
           sizeof(float);
}

uint64_t cuda_norm_backward_workspace_bytes(const struct norm_args *args,
                                            const struct target *target) {
    (void)target;
    int64_t teams = args->dim <= CUDA_NORM_SHORT_ROW_MAX ? CUDA_NORM_WARPS : 1;
    int64_t chunks = items_count(args->rows, teams * CUDA_NORM_ROWS_PER_TEAM);
    return 2 * (uint64_t)(chunks * args->dim) * sizeof(float);
}
