/* optimizer: the global gradient norm, the clip factor and AdamW. */
#ifndef SKEP_KERNELS_OPTIMIZER_H
#define SKEP_KERNELS_OPTIMIZER_H

#include "base/dtype.h"
#include "kernels/kernels.h"
#include "kernels/scalars.h"

/* gradient_norm_workspace_bytes: the total size of the accumulators, one for each thread. */
uint64_t gradient_norm_workspace_bytes(int64_t count, int threads);

/* gradient_norm_run: add the squares of gradients[count] to scalars->norm, which the CPU zeroes
 * before the first shard of a step. Squares are exact in fp64. The squares of each granule of 64
 * are summed in a fixed order and added to the fixed-point accumulator, whose digits end in [0,
 * 2^32).
 * limits    count % 64 == 0; digits of at most 2^31 accumulators may be added before clip_run
 * memory    caller owns all; workspace of gradient_norm_workspace_bytes(), undefined afterwards
 * errors    none; a granule with a value that is not finite is counted in norm.nonfinite and not
 *           added
 * accuracy  at most 8 roundings of fp64 per granule; the same bits at every CPU level, for any
 *           thread count, and for any distribution of granules over calls and ranks */
void gradient_norm_run(const struct compute *compute, int64_t count, const float *gradients,
                       struct step_scalars *scalars, void *workspace);

/* norm_accumulator_merge: add *other to *into; its digits end in [0, 2^32). */
void norm_accumulator_merge(struct norm_accumulator *into, const struct norm_accumulator *other);

/* clip_run: compute gradient_norm, clip_factor and skip from scalars->norm. The sum is rounded to
 * fp64 once. clip_norm 0: no clipping. With norm.nonfinite set, skip is 1, gradient_norm infinite
 * and clip_factor 0. */
void clip_run(float clip_norm, struct step_scalars *scalars);

/* The rounding of a moment to bf16: to nearest, ties to even; or stochastic, up or down with
 * probabilities that make the expected value exact. With rounding to nearest, v never decreases if
 * 1 - beta2 is below 2^-9, because each decrease is less than half of its last place. */
enum rounding { ROUNDING_NEAREST, ROUNDING_STOCHASTIC };

struct adamw_args {
    int64_t count;            /* number of elements */
    int64_t decayed;          /* number of leading elements with weight decay, at most count */
    float epsilon;            /* added to the root of the second moment */
    enum dtype dtype_moments; /* f32 or bf16 */
    enum dtype dtype_params;  /* type of params if it is a separate copy: f32 or bf16 */
    enum rounding rounding;   /* rounding of bf16 moments */
    /* number of this tensor's noise stream, so that tensors of one step get different random
     * bits */
    uint32_t stream;
    int64_t position; /* index of element 0 in its whole tensor, for stochastic rounding */
};

/* adamw_run: one step of AdamW, as in torch.optim.AdamW: decoupled decay, bias correction, epsilon
 * outside the root. Learning rate, decay rates, weight decay and bias corrections are those in
 * *scalars, so that they may change from step to step. Gradients are first multiplied by
 * scalars->clip_factor. If scalars->skip is set, nothing changes. With a mean share s, the divisor
 * is sqrt((1 - s) v + s m^2) + epsilon, of bias-corrected moments.
 * shapes    gradients, master, m, v, params [count]
 * dtypes    gradients, master f32; m, v dtype_moments; params dtype_params: a rounded copy of
 *           master, or NULL if the model uses master itself; arithmetic in f32
 * rounding  stochastic: 16 random bits are added below a moment's last place and then truncated.
 *           They depend only on scalars->noise, stream and position + i mod 2^32; m takes the lower
 *           half of a hashed word, v the upper. Values that are not finite are rounded to nearest
 * memory    caller owns all
 * errors    none
 * accuracy  after 20 steps relative L2 1e-6 with f32 moments; the same bits at every CPU level
 *           source    Loshchilov and Hutter 2019, arXiv:1711.05101; stochastic rounding: Gupta et
 *           al. 2015, arXiv:1502.02551 */
void adamw_run(const struct compute *compute, const struct adamw_args *args,
               const struct step_scalars *scalars, const float *gradients, float *master, void *m,
               void *v, void *params);

#endif
