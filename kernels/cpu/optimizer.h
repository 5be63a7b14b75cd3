/* optimizer kernels: the innermost loops of kernels/optimizer.h that have a variant per instruction
 * set. */
#ifndef SKEP_KERNELS_CPU_OPTIMIZER_H
#define SKEP_KERNELS_CPU_OPTIMIZER_H

#include "kernels/cpu_level.h"

struct optimizer_kernels {};

/* optimizer_kernels_init: plain C in every slot, then overlays up to `level`. */
void optimizer_kernels_init(struct optimizer_kernels *kernels, enum cpu_level level);

#endif
