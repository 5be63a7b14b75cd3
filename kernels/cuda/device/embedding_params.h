/* embedding_params: what the kernels of embedding.cu are launched with. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_EMBEDDING_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_EMBEDDING_PARAMS_H

#include <stdint.h>

enum {
    CUDA_EMBEDDING_THREADS = 256, /* of a token's block, forward */
    CUDA_EMBEDDING_ADDERS = 128,  /* of a block backward */
    CUDA_EMBEDDING_WIDTH = 4,     /* columns of one of them */
    CUDA_EMBEDDING_LOOKS = 8,     /* tokens that one of them looks at, at a time */
};

struct cuda_embedding_params {
    const int32_t *ids, *positions;
    const void *table, *position_table; /* position_table NULL: none */
    void *out;
    int64_t dim;
    int aligned; /* every row of all of them, to 16 bytes */
};

/* One table's gradient; `ids` are the positions where that is the table of positions. */
struct cuda_embedding_backward_params {
    const int32_t *ids;
    const void *dout;
    float *dtable;
    int64_t tokens, dim, padding;
    int aligned; /* both, and rows are whole runs of CUDA_EMBEDDING_WIDTH */
};

#endif
