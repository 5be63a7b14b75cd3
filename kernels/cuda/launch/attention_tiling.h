/* attention_tiling: the division of attention over a cache into blocks, on which its launch and its
 * workspace size depend. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_ATTENTION_TILING_H
#define SKEP_KERNELS_CUDA_LAUNCH_ATTENTION_TILING_H

#include "kernels/attention.h"
#include "kernels/cuda/device/attention_params.h"

struct cuda_attention_tiling {
    bool decode;   /* use the kernels for few queries, with all heads of a group in one tile */
    int stack;     /* query heads of a tile */
    int64_t rows;  /* stacked rows of each group */
    int64_t tiles; /* of them */
    int parts;     /* of the keys */
};

/* cuda_attention_tiling_of: the tiling of a bf16 call over a cache. */
struct cuda_attention_tiling cuda_attention_tiling_of(const struct attention_args *args,
                                                      int64_t context);

#endif
