/* matmul kernels: the innermost loops of kernels/matmul.h that have a variant per instruction set.
 */
#ifndef SKEP_KERNELS_CPU_MATMUL_H
#define SKEP_KERNELS_CPU_MATMUL_H

#include "kernels/cpu_level.h"

struct matmul_kernels {};

/* matmul_kernels_init: plain C in every slot, then overlays up to `level`. */
void matmul_kernels_init(struct matmul_kernels *kernels, enum cpu_level level);

#endif
