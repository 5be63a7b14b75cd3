/* random_normals kernels: the innermost loop of kernels/random_normals.h with a variant for each
 * instruction set. All variants give the same bits. */
#ifndef SKEP_KERNELS_LOOPS_RANDOM_NORMALS_H
#define SKEP_KERNELS_LOOPS_RANDOM_NORMALS_H

#include "kernels/cpu_level.h"

#include <stdint.h>

struct random_normals_kernels {
    /* values[i] = deviation * random_normal(key, first + i) */
    void (*draw)(uint64_t key, uint64_t first, int64_t count, float deviation, float *values);
};

/* random_normals_kernels_init: set *kernels to the plain C function, then replace it with the
 * faster variants of each level up to `level`. */
void random_normals_kernels_init(struct random_normals_kernels *kernels, enum cpu_level level);

/* Each of these functions sets the variant of its level. */
void random_normals_kernels_init_avx2(struct random_normals_kernels *kernels);
void random_normals_kernels_init_avx512(struct random_normals_kernels *kernels);

/* The plain C loop. Faster variants call it for the remainder that is shorter than a vector. */
void random_normals_portable(uint64_t key, uint64_t first, int64_t count, float deviation,
                             float *values);

#endif
