/* shm_sum: adds the elements of several ranks in a fixed order. */
#ifndef SKEP_TRANSPORT_COLLECTIVES_SHM_SUM_H
#define SKEP_TRANSPORT_COLLECTIVES_SHM_SUM_H

#include "base/dtype.h"

#include <stddef.h>

enum { SHM_SUM_BLOCK = 4096 }; /* elements of a partial sum, which fits the L1 cache */

/* shm_sum: sum[i] = ((sources[0][i] + sources[1][i]) + sources[2][i]) + ... in fp32.
 * shapes    each source, sum [elements]; scratch [SHM_SUM_BLOCK]
 * dtypes    sources `wire`, f32 or bf16; sum, scratch f32
 * limits    count >= 1; sum may be one of the sources if they are f32, and must not overlap them
 *           otherwise
 * memory    caller owns all; scratch is undefined afterwards
 * errors    none
 * accuracy  the same bits at every instruction set: additions only, in this order */
void shm_sum(enum dtype wire, const void *const *sources, int count, float *scratch, float *sum,
             size_t elements);

#endif
