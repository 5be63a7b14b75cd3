#include "kernels/cpu/cpu.h"

void kernel_table_init(struct kernel_table *table, enum cpu_level level) {
    ASSERT(cpu_supports_level(level));
    table->level = level;
    matmul_kernels_init(&table->matmul, level);
    attention_kernels_init(&table->attention, level);
    norm_kernels_init(&table->norm, level);
    elementwise_kernels_init(&table->elementwise, level);
    embedding_kernels_init(&table->embedding, level);
    head_loss_kernels_init(&table->head_loss, level);
    optimizer_kernels_init(&table->optimizer, level);
    codec_kernels_init(&table->codec, level);
    outer_kernels_init(&table->outer, level);
    sketch_kernels_init(&table->sketch, level);
    random_normals_kernels_init(&table->random_normals, level);
}
