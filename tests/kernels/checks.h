/* checks: what an operation has written, against what it must be. Shared by the runs on processors
 * and on devices. */
#ifndef SKEP_TESTS_KERNELS_CHECKS_H
#define SKEP_TESTS_KERNELS_CHECKS_H

#include "tests/kernels/harness.h"

/* check_values: outputs agree with what is expected, within the operation's row of the tolerance
 * table; `place` ("avx2, 2 threads") is named where they do not. */
void check_values(const struct operation *operation, const char *place);

/* check_bits: outputs are those of the first run, to the bit. */
void check_bits(const struct operation *operation, const char *place,
                void *const first[HARNESS_OUTPUTS_MAX], const char *what);

/* copy_outputs: keep what the outputs hold (in new memory where saved[i] is NULL), or put it
 * back. */
void copy_outputs(const struct operation *operation, void *saved[HARNESS_OUTPUTS_MAX],
                  bool restore);

#endif
