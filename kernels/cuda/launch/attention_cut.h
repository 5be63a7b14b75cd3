/* attention cut: how attention over a cache is cut into blocks: what its launch and its workspace
 * must agree on. */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_ATTENTION_CUT_H
#define SKEP_KERNELS_CUDA_LAUNCH_ATTENTION_CUT_H

#include "kernels/attention.h"
#include "kernels/cuda/device/attention_params.h"

struct cuda_attention_tiling {
    bool decode;   /* by the kernels for few queries, all heads of a group in one tile */
    int stack;     /* query heads of a tile */
    int64_t rows;  /* stacked rows of each group */
    int64_t tiles; /* of them */
    int parts;     /* of the keys */
};

/* cuda_attention_tiling_of: of a bf16 call over a cache. */
struct cuda_attention_tiling cuda_attention_tiling_of(const struct attention_args *args,
                                                      int64_t context);

#endif
