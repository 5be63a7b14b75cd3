
#include "kernels/cuda/launch/outer.h"

#include "kernels/cuda/device/outer_params.h"
#include "kernels/cuda/launch/table.h"

static const int64_t COUNT_MAX = (int64_t)1 << 38; /* 2^30 blocks */

CUDA_FAMILY(outer, {"outer_gradient", &kernels->gradient, 0}, {"outer_step", &kernels->step, 0})

static struct cuda_shape make_shape(int64_t count) {
    ASSERT(count >= 0 && count <= COUNT_MAX);
    return (struct cuda_shape){.grid = {(unsigned)items_count(count, OUTER_THREADS), 1, 1},
                               .threads = OUTER_THREADS};
}

void cuda_outer_gradient_run(const struct cuda_compute *compute, int64_t count, const float *outer,
                             const float *inner, float *gradient) {
    struct outer_gradient_params params = {
        .outer = outer, .inner = inner, .gradient = gradient, .count = count};
    struct cuda_shape shape = make_shape(count);
    cuda_launch(compute, compute->table->outer.gradient, &shape, &params);
}

void cuda_outer_step_run(const struct cuda_compute *compute, const struct outer_step_args *args) {
    struct outer_step_params params = {.params = args->params,
                                       .moments = args->moments,
                                       .gradients = args->gradients,
                                       .next_params = args->next_params,
                                       .next_moments = args->next_moments,
                                       .count = args->count,
                                       .rate = args->rate,
                                       .momentum = args->momentum};
    struct cuda_shape shape = make_shape(args->count);
    cuda_launch(compute, compute->table->outer.step, &shape, &params);
}
