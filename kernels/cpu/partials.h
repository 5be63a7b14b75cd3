/* partials: sums over the rows of a matrix, taken in chunks of rows so that threads can share the
 * work and the bits do not depend on their number. */
#ifndef SKEP_KERNELS_CPU_PARTIALS_H
#define SKEP_KERNELS_CPU_PARTIALS_H

#include "kernels/kernels.h"

/* Rows of a chunk, whose sum is stored as f32: few enough for an error near 1e-7 even if it is
 * taken in f32. The sums of the chunks, 1/64 of the data, are then added in fp64. */
enum { PARTIAL_ROWS = 64 };

/* partials_count: the number of chunks of PARTIAL_ROWS rows; the last one may be shorter. */
int64_t partials_count(int64_t rows);

/* partials_bytes: the bytes of one f32 row of `columns` for each chunk. */
uint64_t partials_bytes(int64_t rows, int64_t columns);

/* partials_add: sums[columns] += sum over chunks of partials[count, columns], in chunk order in
 * fp64, rounded once. */
void partials_add(const struct compute *compute, int64_t count, int64_t columns,
                  const float *partials, float *sums);

#endif
