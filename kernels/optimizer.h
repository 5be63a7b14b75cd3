/* optimizer: the global gradient norm, the clip factor and AdamW. */
#ifndef SKEP_KERNELS_OPTIMIZER_H
#define SKEP_KERNELS_OPTIMIZER_H

#include "base/dtype.h"
#include "kernels/compute.h"
#include "kernels/scalars.h"

/* gradient_norm_run: add the squares of gradients[count] to scalars->norm. Squares are exact in
 * fp64; each granule of 64 is summed in one fixed order, then enters the fixed-point accumulator.
 * limits  count % 64 == 0 */
uint64_t gradient_norm_workspace_bytes(int64_t count, int threads);
void gradient_norm_run(const struct compute *compute, int64_t count, const float *gradients,
                       struct step_scalars *scalars, void *workspace);

/* clip_run: from scalars->norm to gradient_norm, clip_factor and skip. clip_norm 0: no clipping. */
void clip_run(float clip_norm, struct step_scalars *scalars);

struct adamw_args {
    int64_t count;
    double beta1, beta2; /* fp64: 1 - beta2 must keep its digits */
    float epsilon;
    float weight_decay;        /* 0 for undecayed tensors */
    enum dtype dtype_moments;  /* f32 or bf16 */
    enum dtype dtype_params;   /* of params when it is a separate, rounded copy */
};
/* As torch.optim.AdamW: decoupled decay, bias correction, epsilon outside the root; gradients are
 * multiplied by scalars->clip_factor first; with scalars->skip set nothing changes.
 * params: rounded copy of master in dtype_params, or NULL when master itself is what computes. */
void adamw_run(const struct compute *compute, const struct adamw_args *args,
               const struct step_scalars *scalars, const float *gradients, float *master, void *m,
               void *v, void *params);

#endif
