/* embedding on CUDA: kernels/embedding.h with device addresses. The backward pass adds in token
 * order, as on the CPU, and needs no workspace. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_EMBEDDING_H
#define SKEP_KERNELS_CUDA_LAUNCH_EMBEDDING_H

#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/launch/shapes.h"
#include "kernels/embedding.h"

struct cuda_embedding_kernels {
    CUfunction forward[CUDA_DTYPE_COUNT], backward[CUDA_DTYPE_COUNT];
};

/* cuda_embedding_kernels_init: load the kernels onto the current context; errors as
 * cuda_load_family. */
MUST_CHECK enum status cuda_embedding_kernels_init(const struct cuda_driver *driver,
                                                   struct cuda_embedding_kernels *kernels,
                                                   struct fault *fault);

void cuda_embedding_forward(const struct cuda_compute *compute, const struct embedding_args *args,
                            const int32_t *ids, const int32_t *positions, const void *table,
                            const void *position_table, void *out);

void cuda_embedding_backward(const struct cuda_compute *compute, const struct embedding_args *args,
                             const int32_t *ids, const int32_t *positions, const void *dout,
                             float *dtable, float *dposition_table);

#endif
