/* The pseudo-gradient and the outer step. Same bits as on the CPU. */
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/outer_params.h"

BOUNDED_KERNEL(outer_gradient, outer_gradient_params, OUTER_THREADS, 4) {
    int64_t at = (int64_t)blockIdx.x * OUTER_THREADS + (int)threadIdx.x;
    if (at < p.count) {
        p.gradient[at] = sub_exact(p.outer[at], p.inner[at]);
    }
}

/* Every product, sum and difference rounds once, in the order of the CPU's code. */
BOUNDED_KERNEL(outer_step, outer_step_params, OUTER_THREADS, 4) {
    int64_t at = (int64_t)blockIdx.x * OUTER_THREADS + (int)threadIdx.x;
    if (at >= p.count) {
        return;
    }
    float gradient = p.gradients[at];
    float moment = add_exact(mul_exact(p.momentum, p.moments[at]), gradient);
    float step = mul_exact(p.rate, add_exact(gradient, mul_exact(p.momentum, moment)));
    float param = sub_exact(p.params[at], step);
    p.next_moments[at] = moment;
    p.next_params[at] = param;
}
