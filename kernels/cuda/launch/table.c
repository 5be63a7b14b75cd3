#include "kernels/cuda/launch/table.h"

enum status cuda_kernel_table_init(const struct cuda_driver *driver,
                                   struct cuda_kernel_table *table, struct fault *fault) {
    enum status status = cuda_attention_kernels_init(driver, &table->attention, fault);
    status =
        status == OK ? cuda_elementwise_kernels_init(driver, &table->elementwise, fault) : status;
    status = status == OK ? cuda_norm_kernels_init(driver, &table->norm, fault) : status;
    status = status == OK ? cuda_embedding_kernels_init(driver, &table->embedding, fault) : status;
    status =
        status == OK ? cuda_generation_kernels_init(driver, &table->generation, fault) : status;
    status = status == OK ? cuda_matmul_kernels_init(driver, &table->matmul, fault) : status;
    status = status == OK ? cuda_head_loss_kernels_init(driver, &table->head_loss, fault) : status;
    status = status == OK ? cuda_optimizer_kernels_init(driver, &table->optimizer, fault) : status;
    status = status == OK ? cuda_codec_kernels_init(driver, &table->codec, fault) : status;
    status = status == OK ? cuda_outer_kernels_init(driver, &table->outer, fault) : status;
    status = status == OK ? cuda_wire_sum_kernels_init(driver, &table->wire_sum, fault) : status;
    return status;
}
