/* head_loss: the output projection and the cross-entropy as one operation in chunks of tokens, so
 * that the logits of all tokens never exist together. */
#ifndef SKEP_KERNELS_HEAD_LOSS_H
#define SKEP_KERNELS_HEAD_LOSS_H

#include "base/dtype.h"
#include "kernels/kernels.h"
#include "kernels/scalars.h"

struct head_loss_args {
    int64_t tokens, dim, vocab; /* hidden is [tokens, dim]; weight is [vocab, dim] */
    int64_t chunk; /* number of tokens whose logits exist at the same time; see head_loss_chunk() */
    enum dtype dtype; /* type of hidden, weight and dhidden; logits and losses are f32 */
    /* true: compute gradients, and at most one of dhidden and dweight may be NULL; false: compute
     * losses only, and both must be NULL */
    bool gradient;
    bool accumulate; /* true: add to dweight; false: overwrite it */
};

/* head_loss_chunk: the number of tokens in a chunk whose logits fit in 32 MiB: a multiple of 16 (at
 * least 16), or all tokens. Chunks have equal sizes if that makes them at most a quarter
 * smaller. */
int64_t head_loss_chunk(int64_t tokens, int64_t vocab);

/* head_loss_workspace_bytes: space for one chunk's logits and losses, and the workspace of its
 * products. */
uint64_t head_loss_workspace_bytes(const struct head_loss_args *args, int threads);

/* head_loss_run: the loss of logits = hidden weight^T against labels, and its gradients.
 * shapes    hidden, dhidden [tokens, dim]; weight, dweight [vocab, dim]; labels [tokens] i32, below
 *           vocab (the data loader checks that), or -100 for a token without loss and gradient
 * dtypes    hidden, weight, dhidden args->dtype, f32 or bf16; dweight f32; logits and softmax f32;
 *           with bf16 the gradient of the logits, which overwrites them, is rounded to bf16
 * scalars   losses are added to loss_sum in token order in fp64; both gradients are multiplied by
 *           loss_scale
 * limits    1 <= chunk <= tokens; no two buffers overlap
 * memory    caller owns all; dhidden is overwritten; a gradient that is NULL is not computed (the
 *           weight, or all layers before the head, are frozen); workspace of
 *           head_loss_workspace_bytes(), 64-byte aligned, undefined afterwards
 * errors    none; a logit that is not finite makes loss_sum NaN, unless its token is ignored
 * accuracy  relative L2 1e-6 in f32, 4e-3 in bf16; the same bits for any thread count */
void head_loss_run(const struct compute *compute, const struct head_loss_args *args,
                   const void *hidden, const void *weight, const int32_t *labels,
                   struct step_scalars *scalars, void *dhidden, float *dweight, void *workspace);

#endif
