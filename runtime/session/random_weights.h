/* random_weights: draws the initial weights of a parameter into all pieces of it on this rank. */
#ifndef SKEP_SESSION_RANDOM_WEIGHTS_H
#define SKEP_SESSION_RANDOM_WEIGHTS_H

#include "kernels/random_normals.h"
#include "runtime/checkpoint/piece.h"
#include "runtime/model/model.h"

struct random_weights {
    const struct compute *compute; /* kernels and threads that draw the values */
    uint64_t seed;                 /* seed of the run */
    struct staging staging;        /* staging buffer for values that are copied to device memory */
};

/* random_weights_draw: set every piece of `param` to its initial values (param_init_fill). An
 * element that several pieces contain is drawn once, in f32, and rounded to the type of each.
 * shapes   pieces [piece_count], of any ranges
 * dtypes   f32 or bf16
 * limits   1 <= piece_count <= RANDOM_NORMALS_OUTPUTS_MAX; pieces do not overlap in memory
 * copies   values for device memory fill the staging buffer, and each piece receives its part of it
 *          in one copy; pieces in host memory are written directly
 * errors   those of device memory */
MUST_CHECK enum status random_weights_draw(const struct random_weights *weights,
                                           const struct param *param,
                                           const struct tensor_piece *pieces, int piece_count,
                                           struct fault *fault);

#endif
