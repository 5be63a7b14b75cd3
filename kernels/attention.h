/* attention: causal softmax attention, computed in tiles: forward, backward and over a cache of
 * keys. */
#ifndef SKEP_KERNELS_ATTENTION_H
#define SKEP_KERNELS_ATTENTION_H

#include "base/dtype.h"
#include "kernels/kernels.h"

/* Causal attention over `rows` independent rows of `time` tokens. Token t of a row sees key s when
 * s <= t, t - s < window (window 0: no bound) and s is in t's document: s >= t - positions[t].
 * positions [rows, time] i32 count from 0 at each document's first token. Query head h reads
 * key-value head h / (heads / kv_heads). Strides are elements from one token to the next; heads are
 * contiguous inside a token: q [rows, time, heads, head_dim], k and v [rows, time, kv_heads,
 * head_dim]. */
struct attention_args {
    int64_t rows, time; /* independent rows; tokens in each row */
    /* number of query heads; of key-value heads; elements of a head */
    int64_t heads, kv_heads, head_dim;
    int64_t q_stride, kv_stride, out_stride; /* elements from one token to the next */
    int64_t window;   /* maximum number of keys that a query sees; 0: no bound */
    float scale;      /* factor of q . k before the softmax */
    enum dtype dtype; /* type of all tensors: f32 or bf16; sums and softmax use f32 */
};

/* Contract of all functions below:
 * limits    rows, time >= 1; heads % kv_heads == 0; 1 <= head_dim <= 256; window, positions >= 0;
 *           tensors need only the alignment of their elements; outputs overlap no other buffer
 * memory    caller owns all; no buffer grows with time x time. The workspace is 64-byte aligned and
 *           undefined afterwards; its size is a pure function of args and threads, equal at every
 *           CPU level
 * errors    none (a bad shape is a caller's bug)
 * bits      equal for any thread count; different between CPU levels
 * accuracy  relative L2 error: f32 1.5e-6; bf16 3e-3, from the last rounding; checked by
 *           tests/kernels/test_attention.c */

/* attention_forward: out = softmax(scale q k + mask) v, and lse, the logarithm of the sum of each
 * softmax.
 * shapes    out [rows, time, heads, head_dim] with out_stride; lse [rows, heads, time] f32
 * memory    at most 0.5 MiB per thread
 * source    online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867; tiles: Dao et al. 2022,
 *           arXiv:2205.14135 */
uint64_t attention_forward_workspace_bytes(const struct attention_args *args, int threads);
void attention_forward(const struct compute *compute, const struct attention_args *args,
                       const void *q, const void *k, const void *v, const int32_t *positions,
                       void *out, float *lse, void *workspace);

/* attention_backward: the gradients of q, k and v, from forward's inputs, out and lse.
 * shapes    dq with q_stride; dk and dv with kv_stride; dout with out_stride; all three gradients
 *           are overwritten, but not the gaps between their tokens
 * memory    4 bytes per element of lse; at most 0.6 MiB per thread, for bf16 1 MiB more
 * source    probabilities recomputed from lse: Dao 2023, arXiv:2307.08691 */
uint64_t attention_backward_workspace_bytes(const struct attention_args *args, int threads);
void attention_backward(const struct compute *compute, const struct attention_args *args,
                        const void *q, const void *k, const void *v, const void *out,
                        const float *lse, const void *dout, const int32_t *positions, void *dq,
                        void *dk, void *dv, void *workspace);

/* attention_cached: attention for generation. The caches [context, kv_heads, head_dim] (contiguous:
 * kv_stride is ignored) already hold the keys and values of the `past` earlier tokens and of the
 * new ones; query i is at position past + i of a single document.
 * shapes    args->rows = 1; args->time = number of new tokens; past + time <= context
 * memory    as for attention_forward; it does not depend on past */
uint64_t attention_cached_workspace_bytes(const struct attention_args *args, int64_t context,
                                          int threads);
void attention_cached(const struct compute *compute, const struct attention_args *args,
                      int64_t past, const void *q, const void *k_cache, const void *v_cache,
                      void *out, void *workspace);

#endif
