/* workspace: the scratch memory of the CUDA kernels, as pure functions of shape and profile. They
 * are plain C in every build and call no library, so that a machine without a GPU can plan for one.
 * The result is 0 if an operation needs no workspace. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_WORKSPACE_H
#define SKEP_KERNELS_CUDA_LAUNCH_WORKSPACE_H

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/head_loss.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "targets/targets.h"

/* cuda_column_sum_workspace_bytes: the size of one f32 row for every 128 rows of the matrix. */
uint64_t cuda_column_sum_workspace_bytes(const struct column_sum_args *args,
                                         const struct target *target);

/* cuda_attention_backward_workspace_bytes: 16 bytes for each element of lse. */
uint64_t cuda_attention_backward_workspace_bytes(const struct attention_args *args,
                                                 const struct target *target);

/* cuda_attention_cached_workspace_bytes: for bf16, an f32 output for each part of the keys.
 * `context` is the capacity of the caches in tokens. */
uint64_t cuda_attention_cached_workspace_bytes(const struct attention_args *args, int64_t context,
                                               const struct target *target);

/* cuda_norm_backward_workspace_bytes: one f32 row for the weight and one for the bias, for every 16
 * rows, or for every 128 rows of at most 768 elements. */
uint64_t cuda_norm_backward_workspace_bytes(const struct norm_args *args,
                                            const struct target *target);

/* cuda_matmul_workspace_bytes: the maximum that an algorithm of cuBLASLt may use: 32 MiB on Hopper
 * and data center Blackwell, 12 MiB on other Blackwells, else 4 MiB. */
uint64_t cuda_matmul_workspace_bytes(const struct matmul_args *args, const struct target *target);

/* cuda_head_loss_chunk: the number of tokens whose logits exist at the same time. Their logits fit
 * in 2 MiB for each multiprocessor, but in at least 32 MiB and at most 512 MiB. */
int64_t cuda_head_loss_chunk(int64_t tokens, int64_t vocab, const struct target *target);

/* cuda_head_loss_workspace_bytes: space for one chunk's logits, its losses, and the workspace of
 * its products. */
uint64_t cuda_head_loss_workspace_bytes(const struct head_loss_args *args,
                                        const struct target *target);
uint64_t cuda_head_loss_losses_offset(const struct head_loss_args *args);
uint64_t cuda_head_loss_scratch_offset(const struct head_loss_args *args);

/* cuda_gradient_norm_workspace_bytes: the total size of the accumulators, one for each block. */
uint64_t cuda_gradient_norm_workspace_bytes(int64_t count, const struct target *target);
int64_t cuda_gradient_norm_blocks(int64_t count);

#endif
