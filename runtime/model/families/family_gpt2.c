/* family_gpt2: GPT-2, with learned positions, LayerNorm with bias, and weights stored as [in, out].
 */
#include "runtime/model/families/family.h"

#include <math.h>

static const struct hf_field FIELDS[] = {
    HF_SHARED_FIELDS,
    HF_COUNT_FIELD("vocab_size", vocab_size, 50257, VOCAB_MAX),
    HF_COUNT_FIELD("n_positions", max_position_embeddings, 1024, POSITIONS_MAX),
    HF_COUNT_FIELD("n_embd", hidden_size, 768, HIDDEN_MAX),
    HF_COUNT_FIELD("n_layer", num_hidden_layers, 12, LAYERS_MAX),
    HF_COUNT_FIELD("n_head", num_attention_heads, 12, HEADS_MAX),
    HF_COUNT_FIELD("n_inner", intermediate_size, 0, FFN_MAX),
    HF_REAL_FIELD("layer_norm_epsilon", norm_epsilon, 1e-5, 0, 1),
    HF_REAL_FIELD("initializer_range", initializer_range, 0.02, 0, 1),
    HF_FLAG_FIELD("tie_word_embeddings", tie_word_embeddings, true),
    HF_FLAG_FIELD("scale_attn_weights", scale_attn_weights, true),
    HF_FLAG_FIELD("scale_attn_by_inverse_layer_idx", scale_attn_by_inverse_layer_idx, false),
    HF_TEXT_FIELD("activation_function", activation),
};

static const char *const ACTIVATIONS[] = {"gelu_new", "gelu_pytorch_tanh", NULL};

static enum status fill_blueprint(struct hf_config *config, struct blueprint *blueprint,
                                  struct fault *fault) {
    if (!config->scale_attn_weights) {
        return json_fault_member(config->root, "scale_attn_weights", fault,
                                 "is false; attention scores are always scaled by head_dim^-0.5");
    }
    if (config->scale_attn_by_inverse_layer_idx) {
        return json_fault_member(config->root, "scale_attn_by_inverse_layer_idx", fault,
                                 "is true; the only supported scale of scores is head_dim^-0.5");
    }
    TRY(hf_check_activation(config, "activation_function", ACTIVATIONS, fault));
    TRY(family_set_shape(config, "n_head", blueprint, fault));
    if (blueprint->ffn == 0) {
        blueprint->ffn = 4 * blueprint->hidden;
    }
    blueprint->qkv_bias = true;
    blueprint->o_bias = true;
    blueprint->mlp_bias = true;
    blueprint->rope = (struct rope){.kind = ROPE_NONE};
    blueprint->tokens.padding = -1;
    return OK;
}

/* The weight of a linear layer (Conv1D), stored as [in, out], and its bias [out]. */
struct conv1d {
    enum param_kind weight_kind;
    enum param_kind bias_kind;
    const char *weight_name;
    const char *bias_name;
    int64_t in_features;
    int64_t out_features;
};

static void append_conv1d_params(struct param_list *list, const struct conv1d *layer, float std) {
    struct param *weight = param_list_append_matrix(list, layer->weight_kind, layer->weight_name,
                                                    layer->in_features, layer->out_features, std);
    weight->transposed = true;
    param_list_append_vector(list, layer->bias_kind, layer->bias_name, layer->out_features,
                             INIT_ZERO);
}

static void append_norm_params(struct param_list *list, enum param_kind kind,
                               enum param_kind bias_kind, const char *const names[2],
                               int64_t hidden) {
    param_list_append_vector(list, kind, names[0], hidden, INIT_ONE);
    param_list_append_vector(list, bias_kind, names[1], hidden, INIT_ZERO);
}

static void append_block_params(struct param_list *list, const struct blueprint *model, float std) {
    static const char *const NORM_1[2] = {"ln_1.weight", "ln_1.bias"};
    static const char *const NORM_2[2] = {"ln_2.weight", "ln_2.bias"};
    int64_t hidden = model->hidden;
    /* A block has two residual branches. The last matrix of each has smaller initial values
     * (GPT-2 paper, section 2.3). */
    float residual_std = std / sqrtf(2.0f * (float)model->layers);
    const struct conv1d qkv = {PARAM_QKV,          PARAM_QKV_BIAS, "attn.c_attn.weight",
                               "attn.c_attn.bias", hidden,         3 * hidden};
    const struct conv1d o = {PARAM_O, PARAM_O_BIAS, "attn.c_proj.weight", "attn.c_proj.bias",
                             hidden,  hidden};
    const struct conv1d up = {PARAM_UP,        PARAM_UP_BIAS, "mlp.c_fc.weight",
                              "mlp.c_fc.bias", hidden,        model->ffn};
    const struct conv1d down = {PARAM_DOWN,        PARAM_DOWN_BIAS, "mlp.c_proj.weight",
                                "mlp.c_proj.bias", model->ffn,      hidden};
    append_norm_params(list, PARAM_ATTENTION_NORM, PARAM_ATTENTION_NORM_BIAS, NORM_1, hidden);
    append_conv1d_params(list, &qkv, std);
    append_conv1d_params(list, &o, residual_std);
    append_norm_params(list, PARAM_MLP_NORM, PARAM_MLP_NORM_BIAS, NORM_2, hidden);
    append_conv1d_params(list, &up, std);
    append_conv1d_params(list, &down, residual_std);
}

static void append_model_params(const struct blueprint *model, float std, struct param_list *list) {
    static const char *const NORM_F[2] = {"transformer.ln_f.weight", "transformer.ln_f.bias"};
    param_list_append_matrix(list, PARAM_EMBEDDING, "transformer.wte.weight", model->vocab,
                             model->hidden, std);
    param_list_append_matrix(list, PARAM_POSITIONS, "transformer.wpe.weight", model->max_positions,
                             model->hidden, std);
    for (int layer = 0; layer < model->layers; layer++) {
        param_list_set_layer(list, "transformer.h.", layer);
        append_block_params(list, model, std);
    }
    param_list_set_layer(list, NULL, PARAM_NO_LAYER);
    append_norm_params(list, PARAM_FINAL_NORM, PARAM_FINAL_NORM_BIAS, NORM_F, model->hidden);
    if (!model->tied) {
        param_list_append_matrix(list, PARAM_HEAD, "lm_head.weight", model->vocab, model->hidden,
                                 std);
    }
}

const struct family_rules FAMILY_GPT2_RULES = {.model_type = "gpt2",
                                               .family = FAMILY_GPT2,
                                               .fields = FIELDS,
                                               .field_count = ARRAY_COUNT(FIELDS),
                                               .fill_blueprint = fill_blueprint,
                                               .append_params = append_model_params};
