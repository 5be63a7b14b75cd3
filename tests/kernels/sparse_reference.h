/* sparse reference: the layout of kernels/sparse.h written a second time for its tests: all
 * elements of a block are sorted, levels are computed in fp64, and bits are written one by one. */
#ifndef SKEP_TESTS_KERNELS_SPARSE_REFERENCE_H
#define SKEP_TESTS_KERNELS_SPARSE_REFERENCE_H

#include "kernels/sparse.h"

/* sparse_reference_encode: encode `values` [count] to `bytes` and return their number; `decoded`
 * [count] receives what they decode to. */
uint64_t sparse_reference_encode(struct sparse_shape shape, int64_t count, const float *values,
                                 uint8_t *bytes, double *decoded);

#endif
