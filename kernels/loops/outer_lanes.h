/* outer lanes: the outer step over vectors; included once for each instruction set, after its lanes
 * header. */
#ifndef SKEP_KERNELS_LOOPS_OUTER_LANES_H
#define SKEP_KERNELS_LOOPS_OUTER_LANES_H

#include "kernels/loops/outer.h"

static void outer_gradient_lanes(const float *outer, const float *inner, int64_t count,
                                 float *gradient) {
    int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        lanes start = lanes_load(DTYPE_F32, outer, i, LANES);
        lanes_store(DTYPE_F32, gradient, i, LANES, start - lanes_load(DTYPE_F32, inner, i, LANES));
    }
    outer_gradient_portable(outer + whole, inner + whole, count - whole, gradient + whole);
}

/* The operations and their order are the same as in kernels/loops/outer.c, and none are fused, so
 * that the bits are the same. */
static void outer_step_lanes(const struct outer_step_args *args, int64_t first, int64_t count) {
    const struct outer_step_args of = *args;
    int64_t end = first + count / LANES * LANES;
    for (int64_t i = first; i < end; i += LANES) {
        lanes gradient = lanes_load(DTYPE_F32, of.gradients, i, LANES);
        lanes moment = of.momentum * lanes_load(DTYPE_F32, of.moments, i, LANES) + gradient;
        lanes step = of.rate * (gradient + of.momentum * moment);
        lanes param = lanes_load(DTYPE_F32, of.params, i, LANES) - step;
        lanes_store(DTYPE_F32, of.next_moments, i, LANES, moment);
        lanes_store(DTYPE_F32, of.next_params, i, LANES, param);
    }
    outer_step_portable(args, end, count % LANES);
}

static void outer_lanes_init(struct outer_kernels *kernels) {
    kernels->gradient = outer_gradient_lanes;
    kernels->step = outer_step_lanes;
}

#endif
