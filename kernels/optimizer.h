/* optimizer: the global gradient norm, the clip factor and AdamW. */
#ifndef SKEP_KERNELS_OPTIMIZER_H
#define SKEP_KERNELS_OPTIMIZER_H

#include "base/dtype.h"
#include "kernels/kernels.h"
#include "kernels/scalars.h"

/* gradient_norm_workspace_bytes: one accumulator per thread. */
uint64_t gradient_norm_workspace_bytes(int64_t count, int threads);

/* gradient_norm_run: add the squares of gradients[count] to scalars->norm, which the host zeroes
 * before the first shard of a step. Squares are exact in fp64; each granule of 64 is summed in one
 * fixed order, then enters the fixed-point accumulator, whose digits are left in [0, 2^32).
 * limits    count % 64 == 0; at most 2^31 accumulators may be added digit by digit before clip_run
 * memory    caller owns all; workspace of gradient_norm_workspace_bytes(), undefined afterwards
 * errors    none; a granule with a value that is not finite only counts in norm.nonfinite
 * accuracy  each granule errs by at most 8 roundings of fp64; the same bits at every ISA level, for
 *           any thread count, and however granules are dealt to calls and ranks */
void gradient_norm_run(const struct compute *compute, int64_t count, const float *gradients,
                       struct step_scalars *scalars, void *workspace);

/* norm_accumulator_merge: *into grows by *other; digits are left in [0, 2^32). */
void norm_accumulator_merge(struct norm_accumulator *into, const struct norm_accumulator *other);

/* clip_run: from scalars->norm to gradient_norm, clip_factor and skip. The sum is rounded to fp64
 * once. clip_norm 0: no clipping. With norm.nonfinite set, skip is 1, gradient_norm infinite and
 * clip_factor 0. */
void clip_run(float clip_norm, struct step_scalars *scalars);

/* How a moment becomes bf16: to the nearest, ties to even; or up or down with the probability that
 * makes the mean the value itself. To the nearest, v stands still where 1 - beta2 is below 2^-9 and
 * gradients shrink: what it should lose is less than half of its last place. */
enum rounding { ROUNDING_NEAREST, ROUNDING_STOCHASTIC };

struct adamw_args {
    int64_t count;
    int64_t decayed;     /* the first so many elements decay: 0 to count */
    double beta1, beta2; /* fp64: 1 - beta2 must keep its digits */
    float epsilon;
    float weight_decay;       /* of those that decay */
    enum dtype dtype_moments; /* f32 or bf16 */
    enum dtype dtype_params;  /* of params when it is a separate, rounded copy: f32 or bf16 */
    enum rounding rounding;   /* of bf16 moments */
    uint32_t stream;          /* stochastic: tells tensors apart that share a step's noise */
    int64_t position;         /* stochastic: of element 0 in its tensor, however that is split */
};

/* adamw_run: one step of AdamW as torch.optim.AdamW takes it: decoupled decay, bias correction,
 * epsilon outside the root; gradients are multiplied by scalars->clip_factor first; with
 * scalars->skip set nothing changes.
 * shapes    gradients, master, m, v, params [count]
 * dtypes    gradients, master f32; m, v dtype_moments; params dtype_params: a rounded copy of
 *           master, or NULL when master itself is what computes; arithmetic in f32
 * rounding  stochastic: 16 random bits are added below a moment's last place, then cut off; of
 *           scalars->noise, stream and position + i mod 2^32 alone; m takes the lower half of a
 *           hashed word, v the upper; values that are not finite are as to the nearest
 * memory    caller owns all
 * errors    none
 * accuracy  after 20 steps relative L2 1e-6 with f32 moments; the same bits at every ISA level
 * source    Loshchilov and Hutter 2019, arXiv:1711.05101; stochastic rounding: Gupta et al. 2015,
 *           arXiv:1502.02551 */
void adamw_run(const struct compute *compute, const struct adamw_args *args,
               const struct step_scalars *scalars, const float *gradients, float *master, void *m,
               void *v, void *params);

#endif
