/* head_loss chunk: how the head's loss is cut into chunks of tokens, how a chunk's logits lie, and
 * its three products: the same for the CPU and for a device. */
#ifndef SKEP_KERNELS_HEAD_LOSS_CHUNK_H
#define SKEP_KERNELS_HEAD_LOSS_CHUNK_H

#include "kernels/head_loss.h"
#include "kernels/matmul.h"

/* head_loss_chunk_within: as many tokens as keep the logits within `bytes`: a multiple of 16, at
 * least 16, or all tokens; equal chunks where that costs at most a quarter of the size. */
int64_t head_loss_chunk_within(int64_t tokens, int64_t vocab, int64_t bytes);

/* head_loss_stride: elements from one row of f32 logits to the next: rows start on 64 bytes. */
int64_t head_loss_stride(const struct head_loss_args *args);

/* head_loss_logits_bytes: of one chunk. */
uint64_t head_loss_logits_bytes(const struct head_loss_args *args);

/* The products of a chunk of `tokens`: logits = hidden weight^T; dhidden = dlogits weight; dweight
 * (+)= dlogits^T hidden. dlogits overwrite the logits row by row, so in bf16 only the first half of
 * a row is used. */
struct matmul_args head_loss_logits(const struct head_loss_args *args, int64_t tokens);
struct matmul_args head_loss_dhidden(const struct head_loss_args *args, int64_t tokens);
struct matmul_args head_loss_dweight(const struct head_loss_args *args, int64_t tokens,
                                     bool accumulate);

#endif
