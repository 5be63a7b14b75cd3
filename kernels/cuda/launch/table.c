#include "kernels/cuda/launch/table.h"

enum status cuda_kernel_table_init(const struct cuda_driver *driver,
                                   struct cuda_kernel_table *table, struct fault *fault) {
    TRY(cuda_attention_kernels_init(driver, &table->attention, fault));
    TRY(cuda_elementwise_kernels_init(driver, &table->elementwise, fault));
    TRY(cuda_norm_kernels_init(driver, &table->norm, fault));
    TRY(cuda_embedding_kernels_init(driver, &table->embedding, fault));
    TRY(cuda_generation_kernels_init(driver, &table->generation, fault));
    TRY(cuda_matmul_kernels_init(driver, &table->matmul, fault));
    TRY(cuda_head_loss_kernels_init(driver, &table->head_loss, fault));
    TRY(cuda_optimizer_kernels_init(driver, &table->optimizer, fault));
    TRY(cuda_codec_kernels_init(driver, &table->codec, fault));
    TRY(cuda_outer_kernels_init(driver, &table->outer, fault));
    return cuda_wire_sum_kernels_init(driver, &table->wire_sum, fault);
}
