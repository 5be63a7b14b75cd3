/* embedding_params: the arguments of the kernels in embedding.cu. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_EMBEDDING_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_EMBEDDING_PARAMS_H

#include <stdint.h>

enum {
    CUDA_EMBEDDING_THREADS = 256, /* of a block, one block per token, forward */
    CUDA_EMBEDDING_ADDERS = 128,  /* of a block backward */
    CUDA_EMBEDDING_WIDTH = 4,     /* columns of one of them */
    CUDA_EMBEDDING_COMPARED = 8,  /* tokens whose ids one of them compares at a time */
};

struct cuda_embedding_params {
    const int32_t *ids, *positions;
    const void *table, *position_table; /* position_table NULL: none */
    void *out;
    int64_t dim;
    int aligned; /* 1: every row of all tables is aligned to 16 bytes */
};

/* The gradient of one table; for the table of positions, `ids` holds the positions. */
struct cuda_embedding_backward_params {
    const int32_t *ids;
    const void *dout;
    float *dtable;
    int64_t tokens, dim, padding;
    int aligned; /* 1: both are aligned, and rows consist of whole runs of CUDA_EMBEDDING_WIDTH */
};

#endif
