/* workspace: the scratch memory of the CUDA kernels. Plain C that every build has, so that a laptop
 * lays out a GPU's plan: pure functions of shape and profile, never a library's query. 0 where an
 * operation needs none. */
#ifndef SKEP_KERNELS_CUDA_WORKSPACE_H
#define SKEP_KERNELS_CUDA_WORKSPACE_H

#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "targets/target.h"

/* cuda_column_sum_workspace_bytes: one f32 row for each 128 rows. */
uint64_t cuda_column_sum_workspace_bytes(const struct column_sum_args *args,
                                         const struct target *target);

/* cuda_norm_backward_workspace_bytes: an f32 row for weight and bias each per 16 rows, per 128
 * where rows have at most 768 elements. */
uint64_t cuda_norm_backward_workspace_bytes(const struct norm_args *args,
                                            const struct target *target);

#endif
