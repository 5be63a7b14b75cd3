#ifndef SKEP_KERNELS_ATTENTION_H
#define SKEP_KERNELS_ATTENTION_H

#include "base/dtype.h"
#include "kernels/compute.h"

/* Causal attention over `rows` independent rows of `time` tokens. Token t of a row sees key s when
 * s <= t, t - s < window (window 0: no bound) and s is in t's document: s >= t - positions[t].
 * positions [rows, time] i32 count from 0 at each document's first token. Query head h reads
 * key-value head h / (heads / kv_heads). Strides are elements from one token to the next; heads are
 * contiguous inside a token: q [rows, time, heads, head_dim], k and v [rows, time, kv_heads,
 * head_dim]. */
struct attention_args {
    int64_t rows, time;
    int64_t heads, kv_heads, head_dim;
    int64_t q_stride, kv_stride, out_stride;
    int64_t window;
    float scale;
    enum dtype dtype; /* f32 or bf16; sums and softmax in f32 */
};

uint64_t attention_forward_workspace_bytes(const struct attention_args *args, int threads);
/* lse [rows, heads, time] f32 */
void attention_forward(const struct compute *compute, const struct attention_args *args,
                       const void *q, const void *k, const void *v, const int32_t *positions,
                       void *out, float *lse, void *workspace);

uint64_t attention_backward_workspace_bytes(const struct attention_args *args, int threads);
/* dq has q_stride; dk and dv have kv_stride; all three are overwritten. dout has out_stride. */
void attention_backward(const struct compute *compute, const struct attention_args *args,
                        const void *q, const void *k, const void *v, const void *out,
                        const float *lse, const void *dout, const int32_t *positions, void *dq,
                        void *dk, void *dv, void *workspace);

/* Generation: args->rows = 1, args->time = number of new tokens; the caches [context, kv_heads,
 * head_dim] (dense) already hold the keys and values of the `past` earlier tokens and of the new
 * ones; query i stands at position past + i. */
uint64_t attention_cached_workspace_bytes(const struct attention_args *args, int64_t context,
                                          int threads);
void attention_cached(const struct compute *compute, const struct attention_args *args,
                      int64_t past, const void *q, const void *k_cache, const void *v_cache,
                      void *out, void *workspace);

#endif
