/* wire_sum_params: what the launches of sums over ranks hand over. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_WIRE_SUM_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_WIRE_SUM_PARAMS_H

#include <stdint.h>

enum { WIRE_SUM_THREADS = 256, WIRE_SUM_WIDTH = 4 /* elements of one thread */ };

struct wire_sum_params {
    const void *own, *others;
    int64_t apart; /* elements from one of the others to the next */
    float *to;
    int64_t count;
    int size, index;
    int aligned; /* own, others, their distance and `to`: to WIRE_SUM_WIDTH elements */
};

#endif
