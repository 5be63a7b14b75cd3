/* head_loss: the output projection and the cross-entropy as one operation, by chunks of tokens, so
 * that whole logits never exist. */
#ifndef SKEP_KERNELS_HEAD_LOSS_H
#define SKEP_KERNELS_HEAD_LOSS_H

#include "base/dtype.h"
#include "kernels/kernels.h"
#include "kernels/scalars.h"

struct head_loss_args {
    int64_t tokens, dim, vocab;
    int64_t chunk;    /* tokens whose logits exist at a time; head_loss_chunk() proposes one */
    enum dtype dtype; /* of hidden, weight, dhidden; logits and losses are f32 */
    bool gradient;    /* false: losses only; dhidden and dweight are then NULL. true: one may be */
    bool accumulate;  /* dweight is added to (true) or overwritten (false) */
};

/* head_loss_chunk: as many tokens as keep the logits within 32 MiB: a multiple of 16, at least 16,
 * or all tokens; equal chunks where that costs at most a quarter of the size. */
int64_t head_loss_chunk(int64_t tokens, int64_t vocab);

/* head_loss_workspace_bytes: one chunk's logits and losses, and the workspace of its products. */
uint64_t head_loss_workspace_bytes(const struct head_loss_args *args, int threads);

/* head_loss_run: the loss of logits = hidden weight^T against labels, and its gradients.
 * shapes    hidden, dhidden [tokens, dim]; weight, dweight [vocab, dim]; labels [tokens] i32, below
 *           vocab (the loader has checked) or -100: ignored, no loss and a zero gradient
 * dtypes    hidden, weight, dhidden args->dtype, f32 or bf16; dweight f32; logits and softmax f32;
 *           bf16 rounds the logits' gradient, which lies in the logits' own place, to bf16
 * scalars   loss_sum is added to, in token order in fp64; both gradients carry the factor
 *           loss_scale
 * limits    1 <= chunk <= tokens; no two buffers overlap
 * memory    caller owns all; dhidden is overwritten; a gradient that is NULL is not made (the
 *           weight, or all below the head, is frozen); workspace of head_loss_workspace_bytes(),
 *           64-byte aligned, undefined afterwards
 * errors    none; any logit of a counted token that is not finite makes loss_sum NaN
 * accuracy  relative L2 1e-6 in f32, 4e-3 in bf16; the same bits for any thread count */
void head_loss_run(const struct compute *compute, const struct head_loss_args *args,
                   const void *hidden, const void *weight, const int32_t *labels,
                   struct step_scalars *scalars, void *dhidden, float *dweight, void *workspace);

#endif
