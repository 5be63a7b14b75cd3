/* generation on CUDA: kernels/generation.h with device addresses. The scalars are in device memory,
 * so a length beyond the cache, a caller's bug, is not detected here. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_GENERATION_H
#define SKEP_KERNELS_CUDA_LAUNCH_GENERATION_H

#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/launch/shapes.h"
#include "kernels/generation.h"

struct cuda_generation_kernels {
    /* kernels of cache_append and select_last */
    CUfunction append[CUDA_DTYPE_COUNT], select[CUDA_DTYPE_COUNT];
};

/* cuda_generation_kernels_init: load the kernels onto the current context; errors as
 * cuda_load_family. */
MUST_CHECK enum status cuda_generation_kernels_init(const struct cuda_driver *driver,
                                                    struct cuda_generation_kernels *kernels,
                                                    struct fault *fault);

void cuda_cache_append(const struct cuda_compute *compute, const struct generation_args *args,
                       const struct step_scalars *scalars, const void *rows, void *cache);

void cuda_select_last(const struct cuda_compute *compute, const struct generation_args *args,
                      const struct step_scalars *scalars, const void *rows, void *out);

#endif
