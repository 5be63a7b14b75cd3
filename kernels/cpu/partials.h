/* partials: sums over the rows of a matrix, computed in chunks of rows, so that threads can share
 * the work and the bits do not depend on the number of threads. */
#ifndef SKEP_KERNELS_CPU_PARTIALS_H
#define SKEP_KERNELS_CPU_PARTIALS_H

#include "kernels/kernels.h"

/* Number of rows in a chunk. With so few rows, the sum of a chunk has an error near 1e-7 even when
 * it is computed in f32. It is stored as f32; the sums of all chunks are then added in fp64. */
enum { PARTIAL_ROWS = 64 };

/* partials_count: the number of chunks of PARTIAL_ROWS rows; the last one may be shorter. */
int64_t partials_count(int64_t rows);

/* partials_bytes: the size of one f32 row of `columns` elements for each chunk. */
uint64_t partials_bytes(int64_t rows, int64_t columns);

/* partials_add: sums[columns] += sum over chunks of partials[count, columns], in chunk order in
 * fp64, rounded once. */
void partials_add(const struct compute *compute, int64_t count, int64_t columns,
                  const float *partials, float *sums);

#endif
