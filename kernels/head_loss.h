/* head_loss: the output projection and the cross-entropy as one operation, by chunks of tokens, so
 * that whole logits never exist. */
#ifndef SKEP_KERNELS_HEAD_LOSS_H
#define SKEP_KERNELS_HEAD_LOSS_H

#include "base/dtype.h"
#include "kernels/compute.h"
#include "kernels/scalars.h"

struct head_loss_args {
    int64_t tokens, dim, vocab;
    int64_t chunk;    /* tokens whose logits exist at a time; head_loss_chunk() proposes one */
    enum dtype dtype; /* of hidden, weight, dhidden; logits and losses are f32 */
    bool gradient;    /* false: losses only; dhidden and dweight are then NULL */
    bool accumulate;  /* dweight is added to (true) or overwritten (false) */
};

int64_t head_loss_chunk(int64_t tokens, int64_t vocab);
uint64_t head_loss_workspace_bytes(const struct head_loss_args *args, int threads);
/* logits = hidden weight^T; weight [vocab, dim]; labels [tokens], -100 ignored.
 * scalars->loss_sum is added to (in token order, fp64); dhidden is overwritten,
 * dweight [vocab, dim] f32; both carry the factor scalars->loss_scale. */
void head_loss_run(const struct compute *compute, const struct head_loss_args *args,
                   const void *hidden, const void *weight, const int32_t *labels,
                   struct step_scalars *scalars, void *dhidden, float *dweight, void *workspace);

#endif
