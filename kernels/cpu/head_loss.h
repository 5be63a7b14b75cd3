/* head_loss kernels: the innermost loops of kernels/head_loss.h that have a variant per instruction
 * set. */
#ifndef SKEP_KERNELS_CPU_HEAD_LOSS_H
#define SKEP_KERNELS_CPU_HEAD_LOSS_H

#include "kernels/cpu_level.h"

struct head_loss_kernels {};

/* head_loss_kernels_init: plain C in every slot, then overlays up to `level`. */
void head_loss_kernels_init(struct head_loss_kernels *kernels, enum cpu_level level);

#endif
