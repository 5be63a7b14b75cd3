#include "kernels/cuda/workspace.h"

#include "kernels/cuda/elementwise_params.h"
#include "kernels/items.h"

uint64_t cuda_column_sum_workspace_bytes(const struct column_sum_args *args,
                                         const struct target *target) {
    (void)target;
    return (uint64_t)(items_count(args->rows, CUDA_COLUMN_SUM_ROWS) * args->columns) *
           sizeof(float);
}
