/* The harness of a build without CUDA. */
#include "tests/kernels/device.h"

#include <stdlib.h>

bool device_is_wanted(void) {
    return getenv("SKEP_CUDA") != NULL;
}

bool device_open(void) {
    return false;
}

void device_check(struct operation *operation) {
    (void)operation;
}

void device_bench(struct operation *operation, const double work[2]) {
    (void)operation;
    (void)work;
}
