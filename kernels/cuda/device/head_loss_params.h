/* head_loss params: what the launches between the products of a chunk hand over. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_HEAD_LOSS_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_HEAD_LOSS_PARAMS_H

#include "kernels/scalars.h"

/* A block takes a row of logits. */
enum { HEAD_LOSS_THREADS_MAX = 512, HEAD_LOSS_TOTAL_THREADS = 256, HEAD_LOSS_IGNORED = -100 };

struct head_loss_rows_params {
    float *logits; /* rows of `stride`; with `gradient` they become that of the logits */
    const int32_t *labels;
    double *losses; /* one for each row */
    struct step_scalars *scalars;
    int64_t stride;
    int32_t vocab;
    int32_t gradient, bf16; /* bf16: the gradient's elements, packed at the row's start */
};

struct head_loss_total_params {
    const double *losses;
    struct step_scalars *scalars;
    int64_t rows;
};

#endif
