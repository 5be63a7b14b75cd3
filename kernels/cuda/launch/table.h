/* table: the loaded kernels of all families. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_TABLE_H
#define SKEP_KERNELS_CUDA_LAUNCH_TABLE_H

#include "kernels/cuda/launch/attention.h"
#include "kernels/cuda/launch/codec.h"
#include "kernels/cuda/launch/elementwise.h"
#include "kernels/cuda/launch/embedding.h"
#include "kernels/cuda/launch/generation.h"
#include "kernels/cuda/launch/head_loss.h"
#include "kernels/cuda/launch/matmul.h"
#include "kernels/cuda/launch/norm.h"
#include "kernels/cuda/launch/optimizer.h"
#include "kernels/cuda/launch/outer.h"
#include "kernels/cuda/launch/wire_sum.h"

struct cuda_kernel_table {
    struct cuda_attention_kernels attention;
    struct cuda_codec_kernels codec;
    struct cuda_elementwise_kernels elementwise;
    struct cuda_embedding_kernels embedding;
    struct cuda_generation_kernels generation;
    struct cuda_head_loss_kernels head_loss;
    struct cuda_matmul_kernels matmul;
    struct cuda_norm_kernels norm;
    struct cuda_optimizer_kernels optimizer;
    struct cuda_outer_kernels outer;
    struct cuda_wire_sum_kernels wire_sum;
};

/* cuda_kernel_table_init: load all families onto the current context, so that nothing is loaded
 * later.
 * errors  as cuda_load_family */
MUST_CHECK enum status cuda_kernel_table_init(const struct cuda_driver *driver,
                                              struct cuda_kernel_table *table, struct fault *fault);

#endif
