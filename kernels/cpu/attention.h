/* attention kernels: the innermost loops of kernels/attention.h that have a variant per instruction
 * set. */
#ifndef SKEP_KERNELS_CPU_ATTENTION_H
#define SKEP_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu_level.h"

struct attention_kernels {};

/* attention_kernels_init: plain C in every slot, then overlays up to `level`. */
void attention_kernels_init(struct attention_kernels *kernels, enum cpu_level level);

#endif
