
#include "kernels/cuda/launch/generation.h"

#include "kernels/cuda/device/generation_params.h"
#include "kernels/cuda/launch/table.h"

CUDA_FAMILY(generation, CUDA_ENTRY_PAIR(cache_append, kernels->append),
            CUDA_ENTRY_PAIR(select_last, kernels->select))

static void launch_rows(const struct cuda_compute *compute, const struct generation_args *args,
                        const CUfunction kernels[CUDA_DTYPE_COUNT], int64_t elements,
                        const struct cuda_generation_params *params) {
    ASSERT(cuda_is_float(args->dtype));
    struct cuda_shape shape = cuda_shape_for_elements(elements, 1, CUDA_GENERATION_THREADS);
    cuda_launch(compute, kernels[args->dtype], &shape, params);
}

void cuda_cache_append(const struct cuda_compute *compute, const struct generation_args *args,
                       const struct step_scalars *scalars, const void *rows, void *cache) {
    const struct cuda_generation_params params = {scalars,      rows,        cache,
                                                  args->tokens, args->width, args->stride};
    launch_rows(compute, args, compute->table->generation.append, args->tokens * args->width,
                &params);
}

void cuda_select_last(const struct cuda_compute *compute, const struct generation_args *args,
                      const struct step_scalars *scalars, const void *rows, void *out) {
    const struct cuda_generation_params params = {scalars,      rows,        out,
                                                  args->tokens, args->width, args->stride};
    launch_rows(compute, args, compute->table->generation.select, args->width, &params);
}
