/* model: the structure of a model and the operations of one microbatch. A blueprint holds every
 * shape and no data; graph.h builds and rewrites graphs of operations on tensors. The room owns no
 * state: blueprints and graphs live in the caller's region. runtime/model/families makes both from
 * config.json, runtime/schedule turns graphs into instructions, and runtime/checkpoint reads the
 * weights that a blueprint names.
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

/* What a parameter is for. Graph builders find parameters by kind, not by name. */
enum param_kind {
    PARAM_EMBEDDING,      /* [vocab, hidden] */
    PARAM_POSITIONS,      /* gpt2: [max_positions, hidden] */
    PARAM_ATTENTION_NORM, /* [hidden] */
    PARAM_ATTENTION_NORM_BIAS,
    PARAM_Q,
    PARAM_K,
    PARAM_V,
    PARAM_O, /* [out, in] */
    PARAM_Q_BIAS,
    PARAM_K_BIAS,
    PARAM_V_BIAS,
    PARAM_O_BIAS,
    PARAM_Q_NORM,
    PARAM_K_NORM, /* [head_dim] */
    PARAM_QKV,    /* gpt2 c_attn: [in, 3 hidden] */
    PARAM_QKV_BIAS,
    PARAM_MLP_NORM,
    PARAM_MLP_NORM_BIAS,
    PARAM_GATE,
    PARAM_UP,
    PARAM_DOWN, /* gpt2: UP is c_fc, DOWN is mlp.c_proj, stored [in, out] */
    PARAM_GATE_BIAS,
    PARAM_UP_BIAS,
    PARAM_DOWN_BIAS,
    PARAM_FINAL_NORM,
    PARAM_FINAL_NORM_BIAS,
    PARAM_HEAD, /* [vocab, hidden]; absent when tied */
    PARAM_KIND_COUNT
};

enum { PARAM_NO_LAYER = -1 };

/* How a parameter is filled when the run starts from random values. */
enum param_init { INIT_NORMAL, INIT_ZERO, INIT_ONE };

/* One parameter tensor. Within a block, parameters are in the order of their first use. */
struct param {
    const char *name; /* the Hugging Face name, as transformers writes it */
    enum param_kind kind;
    int layer; /* PARAM_NO_LAYER outside blocks */
    int rank;  /* 1 or 2 */
    int64_t shape[2];
    bool transposed; /* stored [in, out] (Conv1D) */
    enum param_init init;
    float init_std;
};

enum rope_kind { ROPE_NONE, ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 };

/* The rotary embedding, which rotates queries and keys by their position. */
struct rope {
    enum rope_kind kind; /* ROPE_NONE: the other fields are 0 */
    double theta;
    double factor;                            /* linear, llama3 */
    double low_freq_factor, high_freq_factor; /* llama3 */
    int64_t original_positions;               /* llama3 */
};

/* Token ids, -1 when absent or not in the vocabulary. */
struct special_tokens {
    int32_t eos, bos;
    int32_t padding; /* its embedding row gets no gradient */
};

/* limits: vocab <= VOCAB_MAX, hidden <= HIDDEN_MAX, ffn <= FFN_MAX, layers <= LAYERS_MAX, heads <=
 * HEADS_MAX, head_dim <= HEAD_DIM_MAX, positions <= POSITIONS_MAX (base/limits.h), all above 0;
 * kv_heads divides heads; head_dim is even with a rotary embedding. Therefore no product of two of
 * them overflows int64. */
struct blueprint {
    enum family family;
    const char *model_type;
    enum dtype checkpoint_dtype; /* torch_dtype or dtype; f32 when absent */
    int64_t vocab, hidden, ffn, layers, heads, kv_heads, head_dim, max_positions;
    double norm_epsilon;
    bool tied;
    bool qk_norm;
    bool qkv_bias, o_bias, mlp_bias;
    struct rope rope;
    int64_t *layer_window; /* [layers]; 0: full attention */
    struct param *params;  /* blueprint order: embedding, blocks, final norm, head */
    int param_count;
    struct special_tokens tokens;
    const char *notice; /* one line about fields that were accepted and have no effect, or NULL */
};

/* blueprint_param: the parameter of `kind` in `layer` (PARAM_NO_LAYER outside blocks), or NULL when
 * the model has none. Constant time in the number of layers. */
const struct param *blueprint_param(const struct blueprint *blueprint, enum param_kind kind,
                                    int layer);

/* The positions of the parameters: [0, first) before the blocks, then per_layer for each layer,
 * then [after, param_count). */
struct param_span {
    int first;
    int per_layer;
    int after;
};

struct param_span blueprint_span(const struct blueprint *blueprint);

int64_t param_elements(const struct param *param);
int64_t blueprint_elements(const struct blueprint *blueprint);

/* blueprint_rope_frequencies: inverse frequencies, scaling applied.
 * shapes    frequencies [head_dim / 2]
 * dtypes    f32; each step rounded to f32 as transformers rounds it
 * errors    none; ASSERTs that the model has rope
 * accuracy  at most 2 f32 ulp from transformers 5.23.0 (its powers are PyTorch's) */
void blueprint_rope_frequencies(const struct blueprint *blueprint, float *frequencies);

/* ---- counts ---- */

/* Parameters, each counted once; a tied head counts as the embedding. */
struct param_counts {
    int64_t total;
    int64_t by_kind[PARAM_KIND_COUNT];
    int64_t block;   /* of one layer: all layers are alike */
    int64_t outside; /* outside the layers: embeddings, final norm, head */
    int64_t
        matrix; /* of matrices that multiply every token: those of the blocks, and the head (also
                      * a tied one); embeddings that are only looked up do not count */
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
 *   training        3 * forward: the backward pass computes two products for each of the forward
 *                   pass; recomputation is not counted
 * Norms, rotations, activations and softmax are not counted: they are below 1 % of the total for
 * hidden sizes from 1024. */
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

/* counts_cache_bytes_per_token: the bytes that one position adds to the key-value cache of a
 * sequence that is shorter than every window: 2 * kv_heads * head_dim elements a layer. */
int64_t counts_cache_bytes_per_token(const struct blueprint *blueprint, enum dtype dtype);

/* param_kind_name: "embedding", "q", "attention_norm_bias", ...; for reports. */
const char *param_kind_name(enum param_kind kind);

/* ---- random initial values ---- */

/* param_init_fill: elements [first, first + count) of a parameter, row-major, as stored.
 * values    INIT_NORMAL: init_std times normal value `index` of the stream keyed by (seed, name);
 *           INIT_ZERO 0; INIT_ONE 1. The bits depend on seed, name and index only, not on
 *           ranks, ranges, threads or the machine
 * shapes    out [count]
 * dtypes    out f32
 * limits    0 <= first, first + count <= param_elements(param)
 * source    deviations as transformers sets them: initializer_range, and for gpt2's residual
 *           projections initializer_range / sqrt(2 * layers) */
void param_init_fill(const struct param *param, uint64_t seed, int64_t first, int64_t count,
                     float *out);

/* ---- names in weight files ---- */

/* Results of weight_name_match that are not an index. */
enum {
    WEIGHT_IGNORED = -1, /* legacy buffers, and the head of a model whose head is tied */
    WEIGHT_UNKNOWN = -2,
};

/* weight_name_match: the index of the parameter that `file_name` names, WEIGHT_IGNORED or
 * WEIGHT_UNKNOWN. Accepts the names of transformers, with or without the base model's prefix
 * ("model.", "transformer."). Compares with the parameters of one layer only, so
 * matching a file of thousands of tensors is fast.
 * limits  any NUL-terminated text
 * memory  none */
int weight_name_match(const struct blueprint *blueprint, const char *file_name);

/* ---- the Hugging Face cache ---- */

/* hub_cache_names_model: whether `path` has the form org/name (one slash, the characters the Hub
 * allows), so that it can name a cached model. */
bool hub_cache_names_model(const char *path);

/* hub_cache_find: the snapshot folder of refs/main of `name`, under $HF_HUB_CACHE, else
 * $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
 * folder  PATH_BYTES
 * errors  STATUS_INPUT with the download command as remedy; folder untouched */
MUST_CHECK enum status hub_cache_find(const char *name, char *folder, struct fault *fault);

#endif
