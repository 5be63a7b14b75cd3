/* attention_tiling: the division of attention over a cache into blocks, on which its launch and its
 * workspace size depend. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_ATTENTION_TILING_H
#define SKEP_KERNELS_CUDA_LAUNCH_ATTENTION_TILING_H

#include "kernels/attention.h"
#include "kernels/cuda/device/attention_params.h"

struct cuda_attention_tiling {
    bool decode;       /* use the kernels for few queries, with all heads of a group in one tile */
    int stacked_heads; /* number of query heads in a tile */
    int64_t rows;      /* number of stacked rows of each group */
    int64_t tiles;     /* number of tiles of stacked rows */
    int key_parts;     /* number of parts into which the keys are divided */
};

/* cuda_attention_choose_tiling: choose the tiling of bf16 attention over a cache. */
struct cuda_attention_tiling cuda_attention_choose_tiling(const struct attention_args *args,
                                                          int64_t context);

#endif
