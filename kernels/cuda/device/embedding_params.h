/* embedding_params: the arguments of the kernels in embedding.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_EMBEDDING_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_EMBEDDING_PARAMS_H

#include <stdint.h>

enum {
    CUDA_EMBEDDING_THREADS = 256, /* threads of a forward block, which processes one token */
    CUDA_EMBEDDING_BACKWARD_THREADS = 128, /* threads of a block in the backward pass */
    CUDA_EMBEDDING_COLUMNS_PER_THREAD = 4, /* number of columns that each backward thread sums */
    CUDA_EMBEDDING_IDS_COMPARED = 8,       /* token ids that a backward thread compares at a time */
};

struct cuda_embedding_params {
    const int32_t *ids, *positions;     /* token id and position of each token */
    const void *table, *position_table; /* position_table is NULL if the model has none */
    void *out;                          /* [tokens, dim] output */
    int64_t dim;                        /* elements of a row */
    int aligned;                        /* 1: every row of all tables is aligned to 16 bytes */
};

/* The gradient of one table; for the table of positions, `ids` holds the positions. */
struct cuda_embedding_backward_params {
    const int32_t *ids;
    const void *dout;             /* gradient of the output */
    float *dtable;                /* gradient of the table */
    int64_t tokens, dim, padding; /* padding: token id without gradient; -1: none */
    /* 1: dout and dtable are aligned, and dim is a multiple of CUDA_EMBEDDING_COLUMNS_PER_THREAD */
    int aligned;
};

#endif
