/* norm kernels: the innermost loops of kernels/norm.h that have a variant per instruction set. */
#ifndef SKEP_KERNELS_CPU_NORM_H
#define SKEP_KERNELS_CPU_NORM_H

#include "kernels/cpu_level.h"

struct norm_kernels {};

/* norm_kernels_init: plain C in every slot, then overlays up to `level`. */
void norm_kernels_init(struct norm_kernels *kernels, enum cpu_level level);

#endif
