/* blueprint: a model's structure with every shape and no data, made from config.json. */
#ifndef SKEP_MODEL_BLUEPRINT_H
#define SKEP_MODEL_BLUEPRINT_H

#include "base/dtype.h"
#include "base/fault.h"
#include "base/limits.h"
#include "base/region.h"

enum family { FAMILY_LLAMA, FAMILY_MISTRAL, FAMILY_QWEN2, FAMILY_QWEN3, FAMILY_GPT2, FAMILY_COUNT };

/* What a parameter is, so that graph builders find it without names. */
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

/* How init: random fills a parameter. */
enum param_init { INIT_NORMAL, INIT_ZERO, INIT_ONE };

/* One parameter tensor. Within a block parameters come in the order of their first use. */
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

/* The rotary embedding: how positions turn queries and keys. */
struct rope {
    enum rope_kind kind; /* ROPE_NONE: all else is 0 */
    double theta;
    double factor;                            /* linear, llama3 */
    double low_freq_factor, high_freq_factor; /* llama3 */
    int64_t original_positions;               /* llama3 */
};

/* -1 when absent, or when the vocabulary has no such row. */
struct special_tokens {
    int32_t eos, bos;
    int32_t padding; /* the embedding row that lookups give no gradient */
};

/* limits: vocab <= VOCAB_MAX, hidden <= HIDDEN_MAX, ffn <= FFN_MAX, layers <= LAYERS_MAX, heads and
 * head_dim <= HEADS_MAX, HEAD_DIM_MAX, positions <= POSITIONS_MAX (base/limits.h), all above 0;
 * kv_heads divides heads; head_dim is even where there is rope. So no product of two overflows
 * int64. */
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
    const char *notice; /* one line about accepted-but-idle fields, or NULL */
};

/* blueprint_param: the parameter of `kind` in `layer` (PARAM_NO_LAYER outside blocks), or NULL when
 * the model has none. Constant time in the number of layers. */
const struct param *blueprint_param(const struct blueprint *blueprint, enum param_kind kind,
                                    int layer);

/* Where the parameters stand: [0, first) before the blocks, then per_layer of each layer, then
 * [behind, param_count). */
struct param_span {
    int first;
    int per_layer;
    int behind;
};

struct param_span blueprint_span(const struct blueprint *blueprint);

/* blueprint_tie_head: take the head for the embedding after all, because the weight files hold no
 * lm_head.weight: drops PARAM_HEAD and sets `tied`. Nothing happens when it is tied already. */
void blueprint_tie_head(struct blueprint *blueprint);

int64_t param_elements(const struct param *param);
int64_t blueprint_elements(const struct blueprint *blueprint);

/* blueprint_rope_frequencies: inverse frequencies, scaling applied.
 * shapes    frequencies [head_dim / 2]
 * dtypes    f32; each step rounded to f32 as transformers rounds it
 * errors    none; ASSERTs that the model has rope
 * accuracy  at most 2 f32 ulp from transformers 5.23.0 (its powers are PyTorch's) */
void blueprint_rope_frequencies(const struct blueprint *blueprint, float *frequencies);

#endif
