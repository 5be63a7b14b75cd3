/* planted_params: what the kernels of planted.cu are launched with. */
#ifndef SKEP_TESTS_EMULATED_PLANTED_PARAMS_H
#define SKEP_TESTS_EMULATED_PLANTED_PARAMS_H

#include <stdint.h>

struct planted_params {
    const void *in;
    void *out;
    int64_t count;
};

/* One 16 x 8 x 16 product: a [16, 16] and b [8, 16] row-major bf16, d [16, 8] f32. */
struct planted_product_params {
    const void *a, *b;
    float *d;
};

#endif
