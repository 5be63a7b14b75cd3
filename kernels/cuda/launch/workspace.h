/* workspace: the scratch memory of the CUDA kernels. Plain C that every build has, so that a laptop
 * lays out a GPU's plan: pure functions of shape and profile, never a library's query. 0 where an
 * operation needs none. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_WORKSPACE_H
#define SKEP_KERNELS_CUDA_LAUNCH_WORKSPACE_H

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/head_loss.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "targets/targets.h"

/* cuda_column_sum_workspace_bytes: one f32 row for each 128 rows. */
uint64_t cuda_column_sum_workspace_bytes(const struct column_sum_args *args,
                                         const struct target *target);

/* cuda_attention_backward_workspace_bytes: 16 bytes for each of lse. */
uint64_t cuda_attention_backward_workspace_bytes(const struct attention_args *args,
                                                 const struct target *target);

/* cuda_attention_cached_workspace_bytes: in bf16 an output in f32 for each part of the keys.
 * context  tokens of the caches */
uint64_t cuda_attention_cached_workspace_bytes(const struct attention_args *args, int64_t context,
                                               const struct target *target);

/* cuda_norm_backward_workspace_bytes: an f32 row for weight and bias each per 16 rows, per 128
 * where rows have at most 768 elements. */
uint64_t cuda_norm_backward_workspace_bytes(const struct norm_args *args,
                                            const struct target *target);

/* cuda_matmul_workspace_bytes: the most that an algorithm of cuBLASLt may take: 32 MiB on Hopper
 * and data center Blackwell, 12 MiB on other Blackwells, else 4 MiB. */
uint64_t cuda_matmul_workspace_bytes(const struct matmul_args *args, const struct target *target);

/* cuda_head_loss_chunk: tokens whose logits exist at a time: as many as fit into 2 MiB for each
 * multiprocessor, but at least 32 MiB and at most 512 MiB. */
int64_t cuda_head_loss_chunk(int64_t tokens, int64_t vocab, const struct target *target);

/* cuda_head_loss_workspace_bytes: one chunk's logits, its losses, and its products' workspace. */
uint64_t cuda_head_loss_workspace_bytes(const struct head_loss_args *args,
                                        const struct target *target);
uint64_t cuda_head_loss_losses_at(const struct head_loss_args *args);
uint64_t cuda_head_loss_scratch_at(const struct head_loss_args *args);

/* cuda_gradient_norm_workspace_bytes: one accumulator for each block. */
uint64_t cuda_gradient_norm_workspace_bytes(int64_t count, const struct target *target);
int64_t cuda_norm_blocks(int64_t count);

#endif
