/* family_qwen3: Qwen3, dense: Llama with a norm over each head of q and k. */
#include "runtime/model/family.h"

static const struct hf_field FIELDS[] = {
    HF_SHARED_FIELDS,
    HF_ROPE_FIELDS,
    HF_COUNT_FIELD("vocab_size", vocab_size, 151936, VOCAB_MAX),
    HF_COUNT_FIELD("hidden_size", hidden_size, 4096, HIDDEN_MAX),
    HF_COUNT_FIELD("intermediate_size", intermediate_size, 22016, FFN_MAX),
    HF_COUNT_FIELD("num_hidden_layers", num_hidden_layers, 32, LAYERS_MAX),
    HF_COUNT_FIELD("num_attention_heads", num_attention_heads, 32, HEADS_MAX),
    HF_NULLABLE_FIELD("num_key_value_heads", num_key_value_heads, 32, HEADS_MAX),
    HF_COUNT_FIELD("head_dim", head_dim, 128, HEAD_DIM_MAX),
    HF_COUNT_FIELD("max_position_embeddings", max_position_embeddings, 32768, POSITIONS_MAX),
    HF_NULLABLE_FIELD("sliding_window", sliding_window, 4096, POSITIONS_MAX),
    {"max_window_layers", HF_COUNT, offsetof(struct hf_config, max_window_layers), 28, 0, 1 << 20},
    HF_REAL_FIELD("rms_norm_eps", norm_epsilon, 1e-6, 0, 1),
    HF_REAL_FIELD("initializer_range", initializer_range, 0.02, 0, 1),
    HF_FLAG_FIELD("tie_word_embeddings", tie_word_embeddings, false),
    HF_FLAG_FIELD("use_sliding_window", use_sliding_window, false),
    HF_FLAG_FIELD("attention_bias", attention_bias, false),
    HF_TEXT_FIELD("hidden_act", activation),
};

static enum status settle(struct hf_config *config, struct blueprint *blueprint,
                          struct fault *fault) {
    enum status status = family_settle_decoder(config, blueprint, fault);
    blueprint->qkv_bias = config->attention_bias;
    blueprint->o_bias = config->attention_bias;
    blueprint->qk_norm = true;
    int64_t window = config->use_sliding_window ? config->sliding_window : 0;
    return status == OK ? hf_layer_windows(config, window, config->max_window_layers,
                                           blueprint->layer_window, fault)
                        : status;
}

const struct family_rules FAMILY_QWEN3_RULES = {.model_type = "qwen3",
                                                .family = FAMILY_QWEN3,
                                                .fields = FIELDS,
                                                .field_count = ARRAY_COUNT(FIELDS),
                                                .settle = settle,
                                                .list = family_list_decoder};
