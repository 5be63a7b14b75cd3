/* optimizer lanes: AdamW over vectors; included once for each instruction set, after its lanes
 * header. */
#ifndef SKEP_KERNELS_CPU_OPTIMIZER_LANES_H
#define SKEP_KERNELS_CPU_OPTIMIZER_LANES_H

#include "kernels/cpu/optimizer.h"

/* The order of operations of kernels/cpu/optimizer.c, to the bit: nothing is fused. */
ALWAYS_INLINE void adamw_step(const struct adamw_job *job, enum dtype moments, int64_t i,
                              int64_t count) {
    lanes gradient = lanes_load(DTYPE_F32, job->gradients, i, count) * job->clip;
    lanes m = lanes_load(moments, job->m, i, count);
    lanes v = lanes_load(moments, job->v, i, count);
    m = m + job->blend_m * (gradient - m);
    v = job->beta2 * v + job->blend_v * gradient * gradient;
    lanes divisor = lanes_root(v) * job->root_scale + job->epsilon;
    lanes weight = lanes_load(DTYPE_F32, job->master, i, count);
    weight = job->keep * weight - job->step * (m / divisor);
    lanes_store(moments, job->m, i, count, m);
    lanes_store(moments, job->v, i, count, v);
    lanes_store(DTYPE_F32, job->master, i, count, weight);
    if (job->params != NULL) {
        lanes_store(job->dtype_params, job->params, i, count, weight);
    }
}

ALWAYS_INLINE void adamw_span(const struct adamw_job *job, enum dtype moments, int64_t first,
                              int64_t end) {
    int64_t i = first;
    for (; i + LANES <= end; i += LANES) {
        adamw_step(job, moments, i, LANES);
    }
    if (i < end) {
        adamw_step(job, moments, i, end - i);
    }
}

static void adamw_lanes(const struct adamw_job *job, int64_t first, int64_t count) {
    if (job->dtype_moments == DTYPE_BF16) {
        adamw_span(job, DTYPE_BF16, first, first + count);
    } else {
        adamw_span(job, DTYPE_F32, first, first + count);
    }
}

#endif
