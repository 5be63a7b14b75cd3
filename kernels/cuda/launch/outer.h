/* outer on CUDA: kernels/outer.h with device addresses. Same bits as on the CPU. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_OUTER_H
#define SKEP_KERNELS_CUDA_LAUNCH_OUTER_H

#include "kernels/cuda/launch/launch.h"
#include "kernels/outer.h"

struct cuda_outer_kernels {
    CUfunction gradient, step; /* kernels of the outer gradient and the outer step */
};

/* cuda_outer_kernels_init: load the kernels onto the current context; errors as
 * cuda_load_family. */
MUST_CHECK enum status cuda_outer_kernels_init(const struct cuda_driver *driver,
                                               struct cuda_outer_kernels *kernels,
                                               struct fault *fault);

void cuda_outer_gradient_run(const struct cuda_compute *compute, int64_t count, const float *outer,
                             const float *inner, float *gradient);

void cuda_outer_step_run(const struct cuda_compute *compute, const struct outer_step_args *args);

#endif
