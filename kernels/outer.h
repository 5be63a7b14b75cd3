/* outer: the arithmetic between the rounds of a swarm: a member's pseudo-gradient, and the outer
 * step, which all members compute identically.
 *
 *   pseudo-gradient   d = outer - inner                       by a member after its inner steps
 *   mean              g = sum over members of share x d       in roster order, by codec_decode_add
 *   outer step        v' = momentum x v + g                   as in PyTorch's SGD
 *                     p' = p - rate x (g + momentum x v')     with nesterov, without dampening
 *
 * All operations are elementwise in fp32. Every product, sum and difference rounds once, in the
 * order written, and none are fused. All members therefore get the same bits, at every CPU level
 * and for any thread count. */
#ifndef SKEP_KERNELS_OUTER_H
#define SKEP_KERNELS_OUTER_H

#include "kernels/kernels.h"

#include <stdint.h>

/* outer_token_share: a member's weight in the mean: tokens / total in fp64, rounded to fp32. With a
 * total of 0 it is 0, so that a slice without contributions has a mean of zero. The shares of a
 * roster sum to 1, up to one rounding of each.
 * limits  0 <= tokens <= total < 2^53 */
float outer_token_share(int64_t tokens, int64_t total);

/* outer_gradient_run: gradient = outer - inner.
 * shapes    outer, inner, gradient [count], f32
 * limits    gradient may be outer or inner, and does not overlap them otherwise
 * memory    caller owns all
 * errors    none; infinities and NaN of inner reach the gradient, and codec_encode rejects them */
void outer_gradient_run(const struct compute *compute, int64_t count, const float *outer,
                        const float *inner, float *gradient);

struct outer_step_args {
    int64_t count;          /* number of elements */
    float rate;             /* learning rate of the outer step, swarm.outer_lr */
    float momentum;         /* swarm.outer_momentum; 0: plain SGD */
    const float *params;    /* [count]: outer parameters p before the step */
    const float *moments;   /* [count]: momentum v; zeros before the first round */
    const float *gradients; /* [count]: mean gradient g, as decoded from the committed bytes */
    float *next_params;     /* [count] output: parameters p' after the step */
    float *next_moments;    /* [count] output: momentum v' after the step */
};

/* outer_step_run: one outer step, by the formula above.
 * limits    next_params and next_moments are separate buffers (for a vote, which must not overwrite
 *           the state before the commit), or are params and moments themselves (in place);
 *           next_params may also be gradients; otherwise no buffers overlap
 * memory    caller owns all
 * errors    none; finite gradients may still overflow, identically on every member
 * accuracy  differs from fp64 by at most 4 roundings of the largest term
 * source    Sutskever et al. 2013; Douillard et al. 2023, arXiv:2311.08105 */
void outer_step_run(const struct compute *compute, const struct outer_step_args *args);

#endif
