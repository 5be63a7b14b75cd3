/* counts: parameters, floating-point operations and bytes of a blueprint, in closed form. */
#ifndef SKEP_MODEL_COUNTS_H
#define SKEP_MODEL_COUNTS_H

#include "runtime/model/blueprint.h"

/* Parameters, each counted once; a tied head is the embedding. */
struct param_counts {
    int64_t total;
    int64_t by_kind[PARAM_KIND_COUNT];
    int64_t block;   /* of one layer: all layers are alike */
    int64_t outside; /* of no layer: embeddings, final norm, head */
    int64_t matrix;  /* what takes part in a product for every token: matrices of the blocks and the
                      * head (a tied one too), without the lookups of tokens and positions */
};

struct param_counts counts_params(const struct blueprint *blueprint);

/* Floating-point operations for one token of a sequence of T, averaged over its positions; a
 * multiply and an add are two.
 *   products        2 * matrix parameters
 *   attention       4 * heads * head_dim * (mean keys a query sees), summed over layers: position p
 *                   sees p + 1 keys, at most the layer's window, so (T + 1) / 2 without one
 *   attention_full  the same as if every query saw all T keys: what most published MFU figures
 *                   count (PaLM, appendix B; 12 * layers * width * T in training)
 *   forward         products + attention
 *   training        3 * forward: the backward pass makes two products for each, so 6 * matrix
 *                   parameters and three times the attention; recompute is not counted
 * Norms, rotations, activations and softmax are left out: below 1 % from a hidden size of 1024
 * on. */
struct token_flops {
    double products;
    double attention;
    double attention_full;
    double forward;
    double training;
};

/* counts_flops_per_token: for sequences of `sequence` tokens.
 * limits    1 <= sequence <= POSITIONS_MAX
 * source    Kaplan et al. 2020, arXiv:2001.08361, section 2.1; Chowdhery et al. 2022,
 *           arXiv:2204.02311, appendix B */
struct token_flops counts_flops_per_token(const struct blueprint *blueprint, int64_t sequence);

/* counts_param_bytes: all parameters, stored as `dtype`, without padding. */
int64_t counts_param_bytes(const struct blueprint *blueprint, enum dtype dtype);

/* counts_cache_bytes_per_token: what one position adds to the key-value cache of a sequence that is
 * shorter than every window: 2 * kv_heads * head_dim elements a layer. */
int64_t counts_cache_bytes_per_token(const struct blueprint *blueprint, enum dtype dtype);

/* param_kind_name: "embedding", "q", "attention_norm_bias", ...; for reports. */
const char *param_kind_name(enum param_kind kind);

#endif
