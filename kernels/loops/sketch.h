/* sketch kernels: the innermost loops of kernels/sketch.h with a variant for each instruction set.
 * All variants are compiled from sketch_lanes.h and give the same bits. */
#ifndef SKEP_KERNELS_LOOPS_SKETCH_H
#define SKEP_KERNELS_LOOPS_SKETCH_H

#include "kernels/cpu_level.h"
#include "kernels/loops/codec.h"
#include "kernels/sketch.h"

enum { SKETCH_PARTIAL_SUMS = 2 * SKETCH_BUCKETS }; /* sums of a loop: two for each bucket */

/* A part of an encoded vector that begins at the start of a group. */
struct sketch_part {
    const uint8_t *bytes; /* the encoded groups */
    int64_t group_count;  /* whole groups of SKETCH_GROUP elements */
    int64_t first_group;  /* index of the first group in the vector, for its signs */
    uint64_t key;         /* selects the random signs */
};

/* Each loop adds the groups of a part to `sums` [SKETCH_PARTIAL_SUMS]: bucket b is 1/8 of
 * sums[2 b] + sums[2 b + 1]. */
struct sketch_kernels {
    void (*int8)(const struct sketch_part *part, double *sums);
    void (*bf16)(const struct sketch_part *part, double *sums);
    void (*fp32)(const struct sketch_part *part, double *sums);
};

/* sketch_kernels_init: fill *kernels with the plain functions, then replace them with the faster
 * variants of each level up to `level`. */
void sketch_kernels_init(struct sketch_kernels *kernels, enum cpu_level level);

void sketch_kernels_init_avx2(struct sketch_kernels *kernels);
void sketch_kernels_init_avx512(struct sketch_kernels *kernels);
void sketch_kernels_init_neon(struct sketch_kernels *kernels);

#endif
