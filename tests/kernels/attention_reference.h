/* attention reference: causal attention in fp64 by a plain softmax over every pair, from q, k and v
 * interleaved in one buffer: a token is heads, kv_heads, kv_heads of head_dim, then a gap. */
#ifndef SKEP_TESTS_KERNELS_ATTENTION_REFERENCE_H
#define SKEP_TESTS_KERNELS_ATTENTION_REFERENCE_H

#include "kernels/attention.h"

/* Where a token's keys and its values start. */
int64_t attention_k_offset(const struct attention_args *args);
int64_t attention_v_offset(const struct attention_args *args);

/* qkv [rows, time, q_stride], positions [rows, time]; fills out [rows, time, out_stride] but for
 * its gaps, and lse [rows, heads, time]. */
void attention_reference_forward(const struct attention_args *args, const double *qkv,
                                 const double *positions, double *out, double *lse);

/* Fills dqkv but for its gaps. */
void attention_reference_backward(const struct attention_args *args, const double *qkv,
                                  const double *positions, const double *dout, double *dqkv);

#endif
