/* head_loss_chunk: the size of a chunk of tokens, the layout of its logits, and its three
 * matrix products. The CPU and the CUDA implementation share this code. */
#ifndef SKEP_KERNELS_HEAD_LOSS_CHUNK_H
#define SKEP_KERNELS_HEAD_LOSS_CHUNK_H

#include "kernels/head_loss.h"
#include "kernels/matmul.h"

/* head_loss_chunk_within: the number of tokens in a chunk whose logits fit in `bytes` bytes: a
 * multiple of 16 (at least 16), or all tokens. Chunks have equal sizes if that makes them at most a
 * quarter smaller. */
int64_t head_loss_chunk_within(int64_t tokens, int64_t vocab, int64_t bytes);

/* head_loss_stride: elements from one row of f32 logits to the next; every row starts on a multiple
 * of 64 bytes. */
int64_t head_loss_stride(const struct head_loss_args *args);

/* head_loss_logits_bytes: the bytes of the logits of one chunk. */
uint64_t head_loss_logits_bytes(const struct head_loss_args *args);

/* The matrix products of a chunk of `tokens`: logits = hidden weight^T; dhidden = dlogits weight;
 * dweight (+)= dlogits^T hidden. dlogits overwrite the logits row by row, so in bf16 only the first
 * half of a row is used. */
struct matmul_args head_loss_logits_product(const struct head_loss_args *args, int64_t tokens);
struct matmul_args head_loss_dhidden_product(const struct head_loss_args *args, int64_t tokens);
struct matmul_args head_loss_dweight_product(const struct head_loss_args *args, int64_t tokens,
                                             bool accumulate);

#endif
