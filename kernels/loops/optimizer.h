/* optimizer kernels: the innermost loops of kernels/optimizer.h with a variant for each instruction
 * set. All variants give the same bits. */
#ifndef SKEP_KERNELS_LOOPS_OPTIMIZER_H
#define SKEP_KERNELS_LOOPS_OPTIMIZER_H

#include "kernels/cpu_level.h"
#include "kernels/loops/noise.h"
#include "kernels/optimizer.h"

/* One step of AdamW: the buffers, and factors computed from hyperparameters and the step's
 * scalars. */
struct adamw_inputs {
    enum dtype dtype_moments, dtype_params;
    const float *gradients; /* f32 gradients, not yet clipped */
    float *master;          /* f32 master weights */
    void *m, *v, *params;   /* first moments; second moments; parameters, or NULL */
    float clip;             /* factor that clips the gradients */
    float keep;             /* factor of the master weights: 1 - lr * weight_decay */
    float m_blend;          /* weight of the new gradient in m: 1 - beta1 */
    float beta2, v_blend;   /* beta2 and 1 - beta2 */
    float root_scale;       /* 1 / sqrt(bias correction 2) */
    float v_share;          /* 1 - mean share */
    float m_share;          /* sqrt(mean share * bias correction 2) / bias correction 1 */
    float epsilon;          /* added to the root of the second moment */
    float step;             /* size of the step: lr / bias correction 1 */
    bool stochastic;        /* whether moments are bf16 and rounded stochastically */
    uint32_t noise_key;     /* key of the random bits for this step and tensor */
    int64_t position;       /* position of element 0 in its tensor */
};

struct optimizer_kernels {
    /* Sets sums[granules] to the sums of the squares of 64 gradients each, in the order that
     * kernels/loops/optimizer.c defines. */
    void (*granule_sums)(const float *gradients, int64_t granules, double *sums);
    /* Processes the elements [first, first + count) of every buffer. */
    void (*adamw)(const struct adamw_inputs *inputs, int64_t first, int64_t count);
};

/* optimizer_kernels_init: fill *kernels with the plain C functions, then replace them with the
 * faster variants of each level up to `level`. */
void optimizer_kernels_init(struct optimizer_kernels *kernels, enum cpu_level level);

/* Each of these functions replaces the functions for which its level has a faster variant. */
void optimizer_kernels_init_avx2(struct optimizer_kernels *kernels);
void optimizer_kernels_init_avx512(struct optimizer_kernels *kernels);

#endif
