/* head_loss_params: the arguments of the kernels in head_loss.cu, which run between the matrix
 * products of a chunk. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_HEAD_LOSS_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_HEAD_LOSS_PARAMS_H

#include "kernels/scalars.h"

enum {
    HEAD_LOSS_THREADS_MAX = 512,   /* maximum threads of a block for one row of logits */
    HEAD_LOSS_TOTAL_THREADS = 256, /* threads of the only block of the head_loss_total kernel */
    HEAD_LOSS_IGNORED_LABEL = -100 /* label of a token without loss */
};

struct head_loss_rows_params {
    /* [rows, stride]; if `gradient` is 1, the gradient of the logits overwrites them */
    float *logits;
    const int32_t *labels;        /* token id that each row must predict */
    double *losses;               /* the loss of each row */
    struct step_scalars *scalars; /* loss_scale: factor of the gradient */
    int64_t stride;               /* elements from one row of logits to the next */
    int32_t vocab;                /* number of token ids */
    int32_t gradient;             /* 1: compute the gradient of the logits */
    int32_t bf16;                 /* 1: store the gradient as bf16, packed at the row's start */
};

struct head_loss_total_params {
    const double *losses;
    struct step_scalars *scalars;
    int64_t rows; /* number of rows of losses */
};

#endif
