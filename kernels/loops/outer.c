#include "kernels/loops/outer.h"

void outer_gradient_portable(const float *outer, const float *inner, int64_t count,
                             float *gradient) {
    for (int64_t i = 0; i < count; i++) {
        gradient[i] = outer[i] - inner[i];
    }
}

/* Every product, sum and difference rounds once, in this order, at every CPU level. */
void outer_step_portable(const struct outer_step_args *args, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        float gradient = args->gradients[i];
        float moment = args->momentum * args->moments[i] + gradient;
        float step = args->rate * (gradient + args->momentum * moment);
        float param = args->params[i] - step;
        args->next_moments[i] = moment;
        args->next_params[i] = param;
    }
}

void outer_kernels_init(struct outer_kernels *kernels, enum cpu_level level) {
    *kernels =
        (struct outer_kernels){.gradient = outer_gradient_portable, .step = outer_step_portable};
    OVERLAY_X86(outer, kernels, level);
    OVERLAY_NEON(outer, kernels, level);
}
