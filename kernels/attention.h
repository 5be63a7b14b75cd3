/* attention: causal softmax attention by tiles, forward, backward and over a cache of keys. */
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
    int64_t rows, time;
    int64_t heads, kv_heads, head_dim;
    int64_t q_stride, kv_stride, out_stride;
    int64_t window;
    float scale;
    enum dtype dtype; /* f32 or bf16; sums and softmax in f32 */
};

/* Of all the functions below:
 * limits    rows, time >= 1; heads % kv_heads == 0; 1 <= head_dim <= 256; window, positions >= 0;
 *           tensors need the alignment of their elements only; outputs overlap nothing
 * memory    caller owns all; nothing of size time x time is made. The workspace is 64-byte aligned,
 *           undefined afterwards, a pure function of args and threads, the same at every CPU level
 * errors    none (a bad shape is a caller's bug)
 * bits      the same for any thread count; they differ between CPU levels
 * accuracy  L2 of the error, relative: f32 1.5e-6, bf16 3e-3, which is the last rounding; checked
 *           by tests/kernels/test_attention.c */

/* attention_forward: out = softmax(scale q k + mask) v, and the logarithm of each softmax's sum.
 * shapes    out [rows, time, heads, head_dim] by out_stride; lse [rows, heads, time] f32
 * memory    at most 0.5 MiB a thread
 * source    online softmax: Milakov and Gimelshein 2018, arXiv:1805.02867; by tiles: Dao et al.
 *           2022, arXiv:2205.14135 */
uint64_t attention_forward_workspace_bytes(const struct attention_args *args, int threads);
void attention_forward(const struct compute *compute, const struct attention_args *args,
                       const void *q, const void *k, const void *v, const int32_t *positions,
                       void *out, float *lse, void *workspace);

/* attention_backward: the gradients of q, k and v, from forward's inputs, out and lse.
 * shapes    dq by q_stride; dk and dv by kv_stride; dout by out_stride; all three gradients are
 *           overwritten, what lies between their tokens is not
 * memory    4 bytes for each of lse; at most 0.6 MiB a thread, in bf16 1 MiB more
 * source    probabilities made again from lse: Dao 2023, arXiv:2307.08691 */
uint64_t attention_backward_workspace_bytes(const struct attention_args *args, int threads);
void attention_backward(const struct compute *compute, const struct attention_args *args,
                        const void *q, const void *k, const void *v, const void *out,
                        const float *lse, const void *dout, const int32_t *positions, void *dq,
                        void *dk, void *dv, void *workspace);

/* attention_cached: generation. The caches [context, kv_heads, head_dim] (dense: kv_stride is not
 * read) already hold the keys and values of the `past` earlier tokens and of the new ones; query i
 * stands at position past + i of the one document.
 * shapes    args->rows = 1; args->time = number of new tokens; past + time <= context
 * memory    as attention_forward; does not depend on past */
uint64_t attention_cached_workspace_bytes(const struct attention_args *args, int64_t context,
                                          int threads);
void attention_cached(const struct compute *compute, const struct attention_args *args,
                      int64_t past, const void *q, const void *k_cache, const void *v_cache,
                      void *out, void *workspace);

#endif
