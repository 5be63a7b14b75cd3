/* head_loss on CUDA: kernels/head_loss.h with device addresses. For each chunk, cuda_matmul_run
 * computes the products, and between them one block processes each row of logits. Size of chunks
 * and workspace: kernels/cuda/launch/workspace.h. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_HEAD_LOSS_H
#define SKEP_KERNELS_CUDA_LAUNCH_HEAD_LOSS_H

#include "kernels/cuda/launch/launch.h"
#include "kernels/head_loss.h"

struct cuda_head_loss_kernels {
    CUfunction rows, total; /* kernels for the losses of the rows of logits, and for their sum */
};

/* cuda_head_loss_kernels_init: load the kernels onto the current context; errors as
 * cuda_load_family. */
MUST_CHECK enum status cuda_head_loss_kernels_init(const struct cuda_driver *driver,
                                                   struct cuda_head_loss_kernels *kernels,
                                                   struct fault *fault);

/* cuda_head_loss_run: head_loss_run on the device. A label that is neither -100 nor below vocab
 * makes loss_sum NaN. Within a chunk, losses are added in an order that depends only on its
 * length. */
void cuda_head_loss_run(const struct cuda_compute *compute, const struct head_loss_args *args,
                        const void *hidden, const void *weight, const int32_t *labels,
                        struct step_scalars *scalars, void *dhidden, float *dweight,
                        void *workspace);

struct cuda_head_loss_operands {
    const void *hidden, *weight; /* inputs: final hidden states and head weight */
    void *dhidden;               /* output: gradient of hidden; NULL: not computed */
    float *dweight;              /* output: gradient of weight; NULL: not computed */
    void *workspace;             /* scratch memory */
};

/* cuda_head_loss_choose_products: call cuda_products_choose for each product of every chunk. The
 * caller does this at bind. */
void cuda_head_loss_choose_products(struct cuda_products *products,
                                    const struct head_loss_args *args,
                                    const struct cuda_head_loss_operands *operands);

#endif
