/* embedding_params: what the kernels of embedding.cu are launched with. */
#ifndef SKEP_KERNELS_CUDA_EMBEDDING_PARAMS_H
#define SKEP_KERNELS_CUDA_EMBEDDING_PARAMS_H

#include <stdint.h>

enum {
    CUDA_EMBEDDING_THREADS = 256, /* of a token's block */
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
};

#endif
