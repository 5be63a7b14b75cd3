/* wire_sum_params: the arguments of the kernels in wire_sum.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_WIRE_SUM_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_WIRE_SUM_PARAMS_H

#include <stdint.h>

enum {
    WIRE_SUM_THREADS = 256,          /* threads of a block */
    WIRE_SUM_ELEMENTS_PER_THREAD = 4 /* number of elements that one thread sums */
};

struct wire_sum_params {
    const void *own, *others; /* values of this rank; values of the other ranks */
    int64_t others_stride;    /* elements from one rank's values in `others` to the next */
    float *to;                /* [count] result */
    int64_t count;            /* number of elements */
    int size, index;          /* number of ranks; index of this rank */
    /* 1: vector accesses are possible, because own, others, others_stride and `to` are aligned to
     * WIRE_SUM_ELEMENTS_PER_THREAD elements */
    int aligned;
};

#endif
