/* optimizer_params: the arguments of the kernels in optimizer.cu: gradient norm, clip, tallies and
 * AdamW. */
#ifndef SKEP_KERNELS_CUDA_DEVICE_OPTIMIZER_PARAMS_H
#define SKEP_KERNELS_CUDA_DEVICE_OPTIMIZER_PARAMS_H

#include "kernels/scalars.h"

enum {
    NORM_THREADS = 256,           /* threads of a block */
    NORM_BLOCKS_MAX = 1024,       /* maximum number of blocks of the norm_sums kernel */
    NORM_GRANULES_PER_PASS = 32,  /* granules that a block sums at a time: 4 for each warp */
    NORM_MERGE_THREADS = 1024,    /* threads of the only block of the norm_merge kernel */
    ADAMW_THREADS = 256,          /* threads of a block */
    ADAMW_ELEMENTS_PER_THREAD = 4 /* neighbouring elements that a thread updates */
};

struct norm_sums_params {
    const float *gradients;            /* gradients whose norm is computed */
    int64_t granules;                  /* number of granules */
    struct norm_accumulator *partials; /* one accumulator for each block */
};

struct norm_merge_params {
    const struct norm_accumulator *partials;
    int64_t count; /* number of partials */
    struct step_scalars *scalars;
};

struct clip_params {
    struct step_scalars *scalars;
    float clip_norm; /* limit of the gradient norm */
};

struct tally_out_params {
    const struct step_scalars *scalars;
    struct rank_tally *own; /* output: tally of this rank */
};

struct tally_in_params {
    const struct rank_tally *tallies; /* [ranks] tallies of all ranks */
    struct step_scalars *scalars;
    int32_t ranks, shard;       /* number of ranks; number of ranks in a shard group */
    int32_t tokens, loss, norm; /* 1: sum this part of the tallies */
};

struct adamw_params {
    const struct step_scalars *scalars;
    const float *gradients;
    float *master;          /* f32 master weights */
    void *m, *v, *params;   /* first moments; second moments; parameters, or NULL */
    int64_t count, decayed; /* number of elements; the first `decayed` of them have weight decay */
    float epsilon;          /* added to the root of the second moment */
    int64_t position;       /* index of element 0 in its whole tensor */
    uint32_t stream;        /* number of the noise stream of this tensor */
    int32_t stochastic;     /* 1: moments are bf16, rounded stochastically */
    int32_t moments_bf16, params_bf16; /* 1: bf16; 0: f32 */
    int32_t aligned;                   /* 1: all buffers are aligned to 16 bytes */
};

#endif
