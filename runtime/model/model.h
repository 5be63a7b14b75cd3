/* model: the structure of a model and the operations of one microbatch. A blueprint holds every
 * shape and no data; graph.h builds and rewrites graphs of operations on tensors. This module owns
 * no state: blueprints and graphs live in the caller's region. runtime/model/families makes both
 * from config.json, runtime/schedule turns graphs into instructions, and runtime/checkpoint reads
 * the weights that a blueprint names.
 *
 * public   graph.h op_list.h */
#ifndef SKEP_MODEL_MODEL_H
#define SKEP_MODEL_MODEL_H

#include "base/dtype.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/region.h"

#include <stdbool.h>
#include <stddef.h>

enum family { FAMILY_LLAMA, FAMILY_MISTRAL, FAMILY_QWEN2, FAMILY_QWEN3, FAMILY_GPT2, FAMILY_COUNT };

/* The function of a parameter in the model. Graph builders find parameters by kind, not by name. */
enum param_kind {
    PARAM_EMBEDDING,      /* shape [vocab, hidden] */
    PARAM_POSITIONS,      /* gpt2's learned positions: [max_positions, hidden] */
    PARAM_ATTENTION_NORM, /* norm before attention, shape [hidden] */
    PARAM_ATTENTION_NORM_BIAS,
    PARAM_Q, /* query projection, shape [out, in] */
    PARAM_K, /* key projection, shape [out, in] */
    PARAM_V, /* value projection, shape [out, in] */
    PARAM_O, /* output projection of attention, shape [out, in] */
    PARAM_Q_BIAS,
    PARAM_K_BIAS,
    PARAM_V_BIAS,
    PARAM_O_BIAS,
    PARAM_Q_NORM, /* norm of each query head, shape [head_dim] */
    PARAM_K_NORM, /* norm of each key head, shape [head_dim] */
    PARAM_QKV,    /* gpt2's c_attn, shape [in, 3 * hidden] */
    PARAM_QKV_BIAS,
    PARAM_MLP_NORM, /* norm before the MLP, shape [hidden] */
    PARAM_MLP_NORM_BIAS,
    PARAM_GATE, /* gate projection of the MLP, shape [out, in] */
    PARAM_UP,   /* up projection of the MLP, shape [out, in] */
    /* down projection of the MLP; gpt2: UP is c_fc and DOWN is c_proj, both [in, out] */
    PARAM_DOWN,
    PARAM_GATE_BIAS,
    PARAM_UP_BIAS,
    PARAM_DOWN_BIAS,
    PARAM_FINAL_NORM,
    PARAM_FINAL_NORM_BIAS,
    PARAM_HEAD, /* output head, shape [vocab, hidden]; absent when tied to the embedding */
    PARAM_KIND_COUNT
};

enum { PARAM_NO_LAYER = -1 }; /* layer index of a tensor outside the blocks */

/* How a parameter is initialised when training starts from random weights. */
enum param_init { INIT_NORMAL, INIT_ZERO, INIT_ONE };

/* One parameter tensor. Within a block, parameters are in the order of their first use. */
struct param {
    const char *name; /* tensor name in weight files written by transformers */
    enum param_kind kind;
    int layer;            /* layer index, or PARAM_NO_LAYER outside the blocks */
    int rank;             /* number of dimensions, 1 or 2 */
    int64_t shape[2];     /* size of each dimension */
    bool transposed;      /* stored as [in, out], as in GPT-2's Conv1D, not [out, in] */
    enum param_init init; /* how random initial values are computed */
    float init_std;       /* standard deviation for INIT_NORMAL */
};

enum rope_kind { ROPE_NONE, ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 };

/* The rotary embedding, which rotates queries and keys by their position. */
struct rope {
    enum rope_kind kind; /* ROPE_NONE: the other fields are 0 */
    double theta;        /* base of the frequencies */
    double factor;       /* frequency divisor of kinds linear and llama3 */
    /* llama3: original_positions divided by these are the limits of long and short wavelengths */
    double low_freq_factor, high_freq_factor;
    int64_t original_positions; /* llama3: context length before scaling */
};

/* The token ids with a special function; -1 when absent or not in the vocabulary. */
struct special_tokens {
    int32_t eos, bos; /* token ids of the end and beginning of a text; -1: none */
    int32_t padding;  /* padding token, whose row of the embedding gets no gradient; -1: none */
};

/* The structure of a model.
 * limits: vocab <= VOCAB_MAX, hidden <= HIDDEN_MAX, ffn <= FFN_MAX, layers <= LAYERS_MAX, heads <=
 * HEADS_MAX, head_dim <= HEAD_DIM_MAX, positions <= POSITIONS_MAX (base/limits.h), all above 0;
 * kv_heads divides heads; head_dim is even with a rotary embedding. Therefore no product of two of
 * them overflows int64. */
struct blueprint {
    enum family family;
    const char *model_type; /* model_type in config.json, for example "llama" */
    /* dtype of the weights, from config.json's torch_dtype or dtype; f32 if both are absent */
    enum dtype checkpoint_dtype;
    int64_t vocab, hidden, ffn, layers, heads, kv_heads, head_dim, max_positions; /* sizes */
    double norm_epsilon;
    bool tied;                       /* whether the head uses the embedding's weights */
    bool qk_norm;                    /* whether q and k of each head are normalised */
    bool qkv_bias, o_bias, mlp_bias; /* which projections have a bias */
    struct rope rope;
    int64_t *layer_window; /* [layers] attention window in tokens; 0 means full attention */
    /* [param_count]: parameters in blueprint order: embedding, blocks, final norm, head */
    struct param *params;
    int param_count;
    struct special_tokens tokens; /* ids of special tokens */
    const char *notice; /* one-line warning about config.json fields without effect, or NULL */
    bool has_tokenizer; /* the model's folder contains a tokenizer; false for a bare config.json */
};

/* blueprint_param: return the parameter of `kind` in `layer` (PARAM_NO_LAYER outside the blocks),
 * or NULL when the model has none. The time does not depend on the number of layers. */
const struct param *blueprint_param(const struct blueprint *blueprint, enum param_kind kind,
                                    int layer);

/* Index ranges in blueprint->params: [0, blocks_begin) before the blocks, params_per_layer for each
 * layer, then [blocks_end, param_count) after the blocks. */
struct param_layout {
    int blocks_begin; /* index of the first parameter of the blocks */
    int params_per_layer;
    int blocks_end; /* index after the last parameter of the blocks */
};

struct param_layout blueprint_param_layout(const struct blueprint *blueprint);

int64_t param_elements(const struct param *param);
int64_t blueprint_elements(const struct blueprint *blueprint);

/* blueprint_rope_frequencies: compute the scaled inverse frequencies of the rotary embedding.
 * shapes    frequencies [head_dim / 2]
 * dtypes    f32; each step is rounded to f32, as in transformers
 * errors    none; ASSERTs that the model has a rotary embedding
 * accuracy  at most 2 f32 ulp from transformers 5.23.0 (transformers uses PyTorch's pow) */
void blueprint_rope_frequencies(const struct blueprint *blueprint, float *frequencies);

/* ---- counts ---- */

/* Numbers of scalar parameters. Each is counted once; a tied head is counted as the embedding. */
struct param_counts {
    int64_t total;                     /* number of scalar parameters in the whole model */
    int64_t by_kind[PARAM_KIND_COUNT]; /* number of scalar parameters of each kind */
    int64_t one_layer;      /* number of scalar parameters in one layer; all layers are alike */
    int64_t outside_layers; /* number of scalar parameters in embeddings, final norm and head */
    /* number of scalar parameters in the matrices that multiply every token: those of the blocks,
     * and the head, even if tied; embeddings that are only looked up are not counted */
    int64_t matrix_params;
};

struct param_counts counts_params(const struct blueprint *blueprint);

/* Floating-point operations for one token, averaged over a sequence of T tokens. A multiplication
 * and an addition count as two. Norms, rotations, activations and softmax are not counted: they are
 * below 1 % of the total for hidden sizes from 1024. */
struct token_flops {
    double matrix_products; /* products with the weights: 2 * param_counts.matrix_params */
    /* 4 * heads * head_dim * (mean number of visible keys), summed over layers. Position p sees
     * p + 1 keys, at most the layer's window; without a window the mean is (T + 1) / 2. */
    double attention; /* products with the keys and values that a token sees */
    /* Attention as if every query saw all T keys. Most published MFU figures count this (PaLM,
     * appendix B; 12 * layers * width * T in training). */
    double attention_unmasked;
    double forward; /* matrix_products + attention */
    /* 3 * forward: the backward pass computes two products for each product of the forward pass.
     * Recomputation is not counted. */
    double training;
};

/* counts_flops_per_token: count the operations per token in sequences of `sequence` tokens.
 * limits    1 <= sequence <= POSITIONS_MAX
 * source    Kaplan et al. 2020, arXiv:2001.08361, section 2.1; Chowdhery et al. 2022,
 *           arXiv:2204.02311, appendix B */
struct token_flops counts_flops_per_token(const struct blueprint *blueprint, int64_t sequence);

/* counts_param_bytes: return the size of all parameters stored as `dtype`, without padding. */
int64_t counts_param_bytes(const struct blueprint *blueprint, enum dtype dtype);

/* counts_cache_bytes_per_token: return the number of bytes that one token adds to the key-value
 * cache, 2 * kv_heads * head_dim elements a layer, while the sequence is shorter than every window.
 */
int64_t counts_cache_bytes_per_token(const struct blueprint *blueprint, enum dtype dtype);

/* param_kind_name: return the name of `kind` for reports, for example "attention_norm_bias". */
const char *param_kind_name(enum param_kind kind);

/* ---- random initial values ---- */

/* param_init_fill: compute the initial values of elements [first, first + count) of a parameter, in
 * row-major order.
 * values    INIT_NORMAL: init_std times normal value `index` of the random stream keyed by (seed,
 *           name); INIT_ZERO: 0; INIT_ONE: 1. The bits depend on seed, name and index only, not on
 *           ranks, ranges, threads or the machine
 * shapes    out [count]
 * dtypes    out f32
 * limits    0 <= first, first + count <= param_elements(param)
 * source    standard deviations as in transformers: initializer_range, and for gpt2's residual
 *           projections initializer_range / sqrt(2 * layers) */
void param_init_fill(const struct param *param, uint64_t seed, int64_t first, int64_t count,
                     float *out);

/* param_init_key: return the key of the random stream of an INIT_NORMAL parameter, for callers that
 * draw its values with kernels/random_normals.h. */
uint64_t param_init_key(const struct param *param, uint64_t seed);

/* ---- names in weight files ---- */

/* Results of weight_name_match that are not parameter indexes. */
enum {
    WEIGHT_IGNORED = -1, /* a legacy buffer, or the redundant head of a tied model */
    WEIGHT_UNKNOWN = -2, /* the name matches no parameter */
};

/* weight_name_match: return the index of the parameter for the tensor name `file_name` in a weight
 * file, or WEIGHT_IGNORED or WEIGHT_UNKNOWN. The function accepts the names of transformers, with
 * or without the base model's prefix ("model.", "transformer."). It compares the name with the
 * parameters of one layer only, so matching thousands of tensors is fast.
 * limits  file_name may be any NUL-terminated text
 * memory  allocates none */
int weight_name_match(const struct blueprint *blueprint, const char *file_name);

/* ---- the Hugging Face cache ---- */

/* hub_cache_is_model_name: return whether `path` has the form org/name, with one slash and only
 * characters that the Hub allows. */
bool hub_cache_is_model_name(const char *path);

/* hub_cache_find: find the snapshot folder of refs/main of model `name`, under $HF_HUB_CACHE, else
 * $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
 * folder  receives the path; its capacity is PATH_BYTES
 * errors  STATUS_INPUT with the download command as remedy; `folder` is unchanged */
MUST_CHECK enum status hub_cache_find(const char *name, char *folder, struct fault *fault);

#endif
