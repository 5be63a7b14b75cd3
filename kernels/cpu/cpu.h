/* cpu: the kernels of kernels/, implemented on the CPU.
 *
 * Each file divides an operation into blocks for the thread pool, by shape only, and calls the
 * innermost loops through the table below. The bits of a result therefore do not depend on the
 * number of threads. runtime/program fills the table once, at bind. */
#ifndef SKEP_KERNELS_CPU_CPU_H
#define SKEP_KERNELS_CPU_CPU_H

#include "kernels/cpu_level.h"
#include "kernels/loops/loops.h"

/* One function pointer for each loop, chosen for one CPU level. No pointer is NULL: each family's
 * init sets the plain C functions, then replaces them by the variants of each higher level, up to
 * the chosen one. */
struct kernel_table {
    enum cpu_level level;
    struct matmul_kernels matmul;
    struct attention_kernels attention;
    struct norm_kernels norm;
    struct elementwise_kernels elementwise;
    struct embedding_kernels embedding;
    struct head_loss_kernels head_loss;
    struct optimizer_kernels optimizer;
    struct codec_kernels codec;
    struct outer_kernels outer;
    struct sketch_kernels sketch;
    struct random_normals_kernels random_normals;
};

/* kernel_table_init: fill *table with the fastest variants for `level`.
 * limits  cpu_supports_level(level) */
void kernel_table_init(struct kernel_table *table, enum cpu_level level);

#endif
