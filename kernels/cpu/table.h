/* table: one function pointer per innermost loop, chosen once for the machine at hand. */
#ifndef SKEP_KERNELS_CPU_TABLE_H
#define SKEP_KERNELS_CPU_TABLE_H

#include "kernels/cpu_level.h"
#include "kernels/loops/attention.h"
#include "kernels/loops/codec.h"
#include "kernels/loops/elementwise.h"
#include "kernels/loops/embedding.h"
#include "kernels/loops/head_loss.h"
#include "kernels/loops/matmul.h"
#include "kernels/loops/norm.h"
#include "kernels/loops/optimizer.h"
#include "kernels/loops/outer.h"

/* No slot is ever empty: each family's init fills plain C first, then lays the variants of stronger
 * instruction sets over it, weakest to strongest, up to the level. */
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
};

/* kernel_table_init: fill *table with variants that need no more than `level`.
 * limits  cpu_level_runs(level) */
void kernel_table_init(struct kernel_table *table, enum cpu_level level);

#endif
