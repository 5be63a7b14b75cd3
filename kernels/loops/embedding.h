/* embedding kernels: the innermost loops of kernels/embedding.h with a variant for each instruction
 * set. */
#ifndef SKEP_KERNELS_LOOPS_EMBEDDING_H
#define SKEP_KERNELS_LOOPS_EMBEDDING_H

#include "kernels/cpu_level.h"
#include "kernels/embedding.h"

struct embedding_kernels {
    /* sums[count] += x[count] */
    void (*accumulate_row)(enum dtype dtype, const void *x, float *sums, int64_t count);
};

/* embedding_kernels_init: fill *kernels with the plain C functions, then replace them with the
 * faster variants of each level up to `level`. */
void embedding_kernels_init(struct embedding_kernels *kernels, enum cpu_level level);

/* Each of these functions replaces the functions for which its level has a faster variant. */
void embedding_kernels_init_avx2(struct embedding_kernels *kernels);
void embedding_kernels_init_avx512(struct embedding_kernels *kernels);

#endif
