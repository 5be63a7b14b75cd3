/* sparse kernels: the passes of kernels/sparse.h over all values of a block, with a variant for
 * each instruction set. They compare magnitudes as integers, so all variants give the same results:
 * without its sign bit, a larger finite number has larger bits, and infinities and NaN have the
 * largest. */
#ifndef SKEP_KERNELS_LOOPS_SPARSE_H
#define SKEP_KERNELS_LOOPS_SPARSE_H

#include "kernels/cpu_level.h"
#include "kernels/sparse.h"

#include <string.h>

enum {
    SPARSE_MAGNITUDE_MASK = 0x7fffffff,    /* all bits of a float but the sign */
    SPARSE_INFINITY_BITS = 0x7f800000,     /* bits of infinity */
    SPARSE_NORMAL_BITS = 0x00800000,       /* bits of 2^-126, the smallest magnitude that is sent */
    SPARSE_COLUMNS = 64,                   /* columns that bound_magnitudes processes together */
    SPARSE_MASK_COUNT = SPARSE_BLOCK / 64, /* words with one bit for each value of a block */
};

/* Bounds of the magnitudes in a block. */
struct sparse_bounds {
    uint32_t lower_bound; /* at least `columns` elements have this magnitude or more */
    uint32_t largest;     /* largest magnitude of all elements */
};

struct sparse_kernels {
    /* bound_magnitudes: bounds of a whole block of SPARSE_BLOCK values. Element i is in column i %
     * columns, and the smallest of the columns' largest magnitudes is a bound that one pass finds.
     * limits  columns is a multiple of SPARSE_COLUMNS that divides SPARSE_BLOCK */
    struct sparse_bounds (*bound_magnitudes)(const float *values, int columns);
    /* mask_at_least: set bit i % 64 of masks[i / 64] for each of SPARSE_BLOCK values whose
     * magnitude has bits >= threshold, clear the others, and return how many are set.
     * limits  threshold <= 2^31 - 1 */
    int (*mask_at_least)(const float *values, uint32_t threshold,
                         uint64_t masks[SPARSE_MASK_COUNT]);
    /* count_at_least: how many of the `count` magnitudes are >= threshold.
     * limits  magnitudes and threshold <= 2^31 - 1 */
    int (*count_at_least)(const uint32_t *magnitudes, int count, uint32_t threshold);
};

/* sparse_kernels_init: fill *kernels with the plain C functions, then replace them with the
 * faster variants of each level up to `level`. */
void sparse_kernels_init(struct sparse_kernels *kernels, enum cpu_level level);

/* Each of these functions replaces the functions for which its level has a faster variant. */
void sparse_kernels_init_avx2(struct sparse_kernels *kernels);
void sparse_kernels_init_avx512(struct sparse_kernels *kernels);

static inline uint32_t sparse_magnitude(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & SPARSE_MAGNITUDE_MASK;
}

#endif
