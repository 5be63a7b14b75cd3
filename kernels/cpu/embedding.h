/* embedding kernels: the innermost loops of kernels/embedding.h that have a variant per instruction
 * set. */
#ifndef SKEP_KERNELS_CPU_EMBEDDING_H
#define SKEP_KERNELS_CPU_EMBEDDING_H

#include "kernels/cpu_level.h"

struct embedding_kernels {};

/* embedding_kernels_init: plain C in every slot, then overlays up to `level`. */
void embedding_kernels_init(struct embedding_kernels *kernels, enum cpu_level level);

#endif
