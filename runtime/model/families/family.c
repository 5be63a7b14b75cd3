#include "runtime/model/families/family.h"

static enum status set_head_counts(const struct hf_config *config, const char *heads_field,
                                   struct blueprint *blueprint, struct fault *fault) {
    int64_t heads = config->num_attention_heads;
    int64_t kv_heads = config->num_key_value_heads != 0 ? config->num_key_value_heads : heads;
    int64_t head_dim = config->head_dim != 0 ? config->head_dim : config->hidden_size / heads;
    if (heads % kv_heads != 0) {
        return json_fault_member(config->root, "num_key_value_heads", fault,
                                 "is %lld; it must divide the number of attention heads, %lld",
                                 (long long)kv_heads, (long long)heads);
    }
    if (config->head_dim == 0 && config->hidden_size % heads != 0) {
        return json_fault_member(
            config->root, heads_field, fault,
            "is %lld, which does not divide the hidden size %lld, and the config gives no head_dim",
            (long long)heads, (long long)config->hidden_size);
    }
    if (head_dim > HEAD_DIM_MAX) {
        return json_fault_member(config->root, heads_field, fault,
                                 "is %lld, which gives a head_dim of %lld; the limit is %d",
                                 (long long)heads, (long long)head_dim, HEAD_DIM_MAX);
    }
    blueprint->heads = heads;
    blueprint->kv_heads = kv_heads;
    blueprint->head_dim = head_dim;
    return OK;
}

enum status family_set_shape(const struct hf_config *config, const char *heads_field,
                             struct blueprint *blueprint, struct fault *fault) {
    TRY(set_head_counts(config, heads_field, blueprint, fault));
    blueprint->vocab = config->vocab_size;
    blueprint->hidden = config->hidden_size;
    blueprint->ffn = config->intermediate_size;
    blueprint->layers = config->num_hidden_layers;
    blueprint->max_positions = config->max_position_embeddings;
    blueprint->norm_epsilon = config->norm_epsilon;
    blueprint->tied = config->tie_word_embeddings;
    blueprint->checkpoint_dtype = config->dtype;
    blueprint->tokens = config->tokens;
    return OK;
}

static enum status set_rope(struct hf_config *config, struct blueprint *blueprint,
                            struct fault *fault) {
    TRY(hf_rope_read(config, fault));
    if (blueprint->head_dim % 2 != 0) {
        return json_fault_member(config->root, "head_dim", fault,
                                 "is %lld (from the config, or hidden_size / num_attention_heads); "
                                 "rotary embeddings require an even number",
                                 (long long)blueprint->head_dim);
    }
    blueprint->rope = config->rope;
    return OK;
}

enum status family_set_decoder_values(struct hf_config *config, int64_t window,
                                      int64_t first_windowed, struct blueprint *blueprint,
                                      struct fault *fault) {
    static const char *const SILU[] = {"silu", "swish", NULL};
    TRY(hf_check_activation(config, "hidden_act", SILU, fault));
    TRY(family_set_shape(config, "num_attention_heads", blueprint, fault));
    TRY(set_rope(config, blueprint, fault));
    return hf_read_layer_windows(config, window, first_windowed, blueprint->layer_window, fault);
}

static void append_attention_params(const struct blueprint *model, float std,
                                    struct param_list *list) {
    int64_t q_width = model->heads * model->head_dim;
    int64_t kv_width = model->kv_heads * model->head_dim;
    param_list_append_vector(list, PARAM_ATTENTION_NORM, "input_layernorm.weight", model->hidden,
                             INIT_ONE);
    param_list_append_matrix(list, PARAM_Q, "self_attn.q_proj.weight", q_width, model->hidden, std);
    param_list_append_matrix(list, PARAM_K, "self_attn.k_proj.weight", kv_width, model->hidden,
                             std);
    param_list_append_matrix(list, PARAM_V, "self_attn.v_proj.weight", kv_width, model->hidden,
                             std);
    if (model->qkv_bias) {
        param_list_append_vector(list, PARAM_Q_BIAS, "self_attn.q_proj.bias", q_width, INIT_ZERO);
        param_list_append_vector(list, PARAM_K_BIAS, "self_attn.k_proj.bias", kv_width, INIT_ZERO);
        param_list_append_vector(list, PARAM_V_BIAS, "self_attn.v_proj.bias", kv_width, INIT_ZERO);
    }
    if (model->qk_norm) {
        param_list_append_vector(list, PARAM_Q_NORM, "self_attn.q_norm.weight", model->head_dim,
                                 INIT_ONE);
        param_list_append_vector(list, PARAM_K_NORM, "self_attn.k_norm.weight", model->head_dim,
                                 INIT_ONE);
    }
    param_list_append_matrix(list, PARAM_O, "self_attn.o_proj.weight", model->hidden, q_width, std);
    if (model->o_bias) {
        param_list_append_vector(list, PARAM_O_BIAS, "self_attn.o_proj.bias", model->hidden,
                                 INIT_ZERO);
    }
}

static void append_mlp_params(const struct blueprint *model, float std, struct param_list *list) {
    param_list_append_vector(list, PARAM_MLP_NORM, "post_attention_layernorm.weight", model->hidden,
                             INIT_ONE);
    param_list_append_matrix(list, PARAM_GATE, "mlp.gate_proj.weight", model->ffn, model->hidden,
                             std);
    param_list_append_matrix(list, PARAM_UP, "mlp.up_proj.weight", model->ffn, model->hidden, std);
    if (model->mlp_bias) {
        param_list_append_vector(list, PARAM_GATE_BIAS, "mlp.gate_proj.bias", model->ffn,
                                 INIT_ZERO);
        param_list_append_vector(list, PARAM_UP_BIAS, "mlp.up_proj.bias", model->ffn, INIT_ZERO);
    }
    param_list_append_matrix(list, PARAM_DOWN, "mlp.down_proj.weight", model->hidden, model->ffn,
                             std);
    if (model->mlp_bias) {
        param_list_append_vector(list, PARAM_DOWN_BIAS, "mlp.down_proj.bias", model->hidden,
                                 INIT_ZERO);
    }
}

void family_append_decoder_params(const struct blueprint *blueprint, float init_std,
                                  struct param_list *list) {
    param_list_append_matrix(list, PARAM_EMBEDDING, "model.embed_tokens.weight", blueprint->vocab,
                             blueprint->hidden, init_std);
    for (int layer = 0; layer < blueprint->layers; layer++) {
        param_list_set_layer(list, "model.layers.", layer);
        append_attention_params(blueprint, init_std, list);
        append_mlp_params(blueprint, init_std, list);
    }
    param_list_set_layer(list, NULL, PARAM_NO_LAYER);
    param_list_append_vector(list, PARAM_FINAL_NORM, "model.norm.weight", blueprint->hidden,
                             INIT_ONE);
    if (!blueprint->tied) {
        param_list_append_matrix(list, PARAM_HEAD, "lm_head.weight", blueprint->vocab,
                                 blueprint->hidden, init_std);
    }
}
