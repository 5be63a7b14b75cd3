/* head_loss on CUDA: kernels/head_loss.h, enqueued, in chunks: products by cuda_matmul_run, between
 * them a block for each row of logits. Chunk and workspace: kernels/cuda/launch/workspace.h. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_HEAD_LOSS_H
#define SKEP_KERNELS_CUDA_LAUNCH_HEAD_LOSS_H

#include "kernels/cuda/launch/launch.h"
#include "kernels/head_loss.h"

struct cuda_head_loss_kernels {
    CUfunction rows, total;
};

/* cuda_head_loss_kernels_init: load them onto the current context; errors as cuda_load_family. */
MUST_CHECK enum status cuda_head_loss_kernels_init(const struct cuda_driver *driver,
                                                   struct cuda_head_loss_kernels *kernels,
                                                   struct fault *fault);

/* cuda_head_loss_run: head_loss_run. A label that is neither ignored nor below vocab makes loss_sum
 * NaN. Within a chunk losses are added in an order that its length decides. */
void cuda_head_loss_run(const struct cuda_compute *compute, const struct head_loss_args *args,
                        const void *hidden, const void *weight, const int32_t *labels,
                        struct step_scalars *scalars, void *dhidden, float *dweight,
                        void *workspace);

struct cuda_head_loss_operands {
    const void *hidden, *weight;
    void *dhidden;
    float *dweight;
    void *workspace;
};

/* cuda_head_loss_choose: cuda_products_choose for each product of every chunk; at bind. */
void cuda_head_loss_choose(struct cuda_products *products, const struct head_loss_args *args,
                           const struct cuda_head_loss_operands *operands);

#endif
