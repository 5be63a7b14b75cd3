/* attention on CUDA: kernels/attention.h with device addresses and these differences. bf16 uses
 * tensor cores (shapes of tiles: attention_params.h), with heads padded in shared memory to 64, 80,
 * 96, 128 or 256. Loads are 16 bytes wide if every row of a call is aligned to 16 bytes and
 * head_dim % 8 == 0, else single elements. f32 is computed in f32 without tensor cores. Tiles that
 * no query sees, because of the window or the documents, are skipped.
 *
 * limits    as in kernels/attention.h; rows x heads below 2^31, time below 2^20; positions must
 *           count up from each document's first token
 * memory    the workspace has the size from kernels/cuda/launch/workspace.h, is aligned to 16 bytes
 *           and undefined afterwards
 * errors    none; a failed launch is recorded in compute->failure
 * bits      always the same on one kind of device, because the shape determines the order of sums
 * accuracy  relative L2 error: f32 1.5e-6; bf16 4e-3, from rounding probabilities and their
 *           gradients to bf16 for the second product and from the last rounding; checked by
 *           tests/kernels/test_attention.c
 * source    Dao 2023, arXiv:2307.08691: blocks over queries, sums unscaled until the end; 2^x
 *           instead of e^x: Milakov and Gimelshein 2018, arXiv:1805.02867 */
#ifndef SKEP_KERNELS_CUDA_LAUNCH_ATTENTION_H
#define SKEP_KERNELS_CUDA_LAUNCH_ATTENTION_H

#include "kernels/attention.h"
#include "kernels/cuda/device/attention_params.h"
#include "kernels/cuda/launch/launch.h"

#define CUDA_ATTENTION_COUNT(...) +1
enum {
    CUDA_ATTENTION_FORWARD_VARIANTS = 0 ATTENTION_FORWARD_TILES(CUDA_ATTENTION_COUNT),
    CUDA_ATTENTION_DECODE_VARIANTS = 0 ATTENTION_DECODE_TILES(CUDA_ATTENTION_COUNT),
    CUDA_ATTENTION_QUERY_GRADIENT_VARIANTS = 0 ATTENTION_QUERY_GRADIENT_TILES(CUDA_ATTENTION_COUNT),
    CUDA_ATTENTION_KEY_GRADIENT_VARIANTS = 0 ATTENTION_KEY_GRADIENT_TILES(CUDA_ATTENTION_COUNT),
    CUDA_ATTENTION_PASS_VARIANTS = 0 ATTENTION_KEY_GRADIENT_PASSES(CUDA_ATTENTION_COUNT),
    CUDA_ATTENTION_F32_VARIANTS = 0 ATTENTION_F32_TILES(CUDA_ATTENTION_COUNT),
};
#undef CUDA_ATTENTION_COUNT

/* The kernels are in the order of the tables of tiles in attention_params.h. A variant for one
 * architecture (wgmma, TMA) could replace a slot at init, with its own tiles. */
struct cuda_attention_kernels {
    CUfunction forward[CUDA_ATTENTION_FORWARD_VARIANTS]; /* for many queries */
    CUfunction decode[CUDA_ATTENTION_DECODE_VARIANTS];   /* for few queries */
    CUfunction combine;                                  /* combines the parts of the keys */
    /* by dtype: computes the values of each query that the backward pass needs */
    CUfunction prepare[2];
    CUfunction query_gradient[CUDA_ATTENTION_QUERY_GRADIENT_VARIANTS]; /* bf16 */
    CUfunction key_gradient[CUDA_ATTENTION_KEY_GRADIENT_VARIANTS];     /* dk and dv */
    /* kernels that compute only dk, or only dv */
    CUfunction dk[CUDA_ATTENTION_PASS_VARIANTS], dv[CUDA_ATTENTION_PASS_VARIANTS];
    CUfunction f32_forward[CUDA_ATTENTION_F32_VARIANTS];
    CUfunction f32_query_gradient[CUDA_ATTENTION_F32_VARIANTS];
    CUfunction f32_key_gradient[CUDA_ATTENTION_F32_VARIANTS];
};

/* cuda_attention_kernels_init: load the kernels onto the current context; errors as
 * cuda_load_family. */
MUST_CHECK enum status cuda_attention_kernels_init(const struct cuda_driver *driver,
                                                   struct cuda_attention_kernels *kernels,
                                                   struct fault *fault);

/* cuda_attention_forward: attention_forward on the device. It needs no workspace. */
void cuda_attention_forward(const struct cuda_compute *compute, const struct attention_args *args,
                            const void *q, const void *k, const void *v, const int32_t *positions,
                            void *out, float *lse);

/* cuda_attention_backward: in bf16, dk and dv of a key are sums over all heads of its group in f32,
 * rounded once. */
void cuda_attention_backward(const struct cuda_compute *compute, const struct attention_args *args,
                             const void *q, const void *k, const void *v, const void *out,
                             const float *lse, const void *dout, const int32_t *positions, void *dq,
                             void *dk, void *dv, void *workspace);

/* cuda_attention_cached: the caches have space for `context` tokens. `scalars`, in device memory,
 * holds the number of past tokens and of valid new tokens (the outputs of the other new tokens are
 * undefined). The number of parts into which blocks divide the keys depends only on the shape and
 * on `context`; the keys present are divided equally among the parts. */
void cuda_attention_cached(const struct cuda_compute *compute, const struct attention_args *args,
                           int64_t context, const struct step_scalars *scalars, const void *q,
                           const void *k_cache, const void *v_cache, void *out, void *workspace);

#endif
