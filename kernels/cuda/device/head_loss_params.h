/* head_loss_params: the arguments of the kernels in head_loss.cu, which run between the matrix
 * products of a chunk. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_HEAD_LOSS_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_HEAD_LOSS_PARAMS_H

#include "kernels/scalars.h"

/* A block processes one row of logits. */
enum { HEAD_LOSS_THREADS_MAX = 512, HEAD_LOSS_TOTAL_THREADS = 256, HEAD_LOSS_IGNORED_LABEL = -100 };

struct head_loss_rows_params {
    /* rows of `stride` elements; if `gradient` is 1, the gradient of the logits overwrites them */
    float *logits;         /* [rows, stride] */
    const int32_t *labels; /* token id that each row must predict */
    double *losses;        /* the loss of each row */
    struct step_scalars *scalars;
    int64_t stride; /* elements from one row of logits to the next */
    int32_t vocab;  /* number of token ids */
    /* bf16: 1 if the elements of the gradient are bf16, packed at the row's start */
    int32_t gradient, bf16; /* 1: compute the gradient; 1: store it as bf16 */
};

struct head_loss_total_params {
    const double *losses;
    struct step_scalars *scalars;
    int64_t rows; /* number of rows of losses */
};

#endif
