/* elementwise kernels: the innermost loops of kernels/elementwise.h that have a variant per
 * instruction set. */
#ifndef SKEP_KERNELS_CPU_ELEMENTWISE_H
#define SKEP_KERNELS_CPU_ELEMENTWISE_H

#include "kernels/cpu_level.h"

struct elementwise_kernels {};

/* elementwise_kernels_init: plain C in every slot, then overlays up to `level`. */
void elementwise_kernels_init(struct elementwise_kernels *kernels, enum cpu_level level);

#endif
