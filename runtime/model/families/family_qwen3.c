/* family_qwen3: Qwen3, dense: Llama with a norm over each head of q and k. */
#include "runtime/model/families/family.h"

static const struct hf_field FIELDS[] = {
    HF_DECODER_FIELDS,
    HF_QWEN_FIELDS,
    HF_COUNT_FIELD("head_dim", head_dim, 128, HEAD_DIM_MAX),
    HF_FLAG_FIELD("attention_bias", attention_bias, false),
};

static enum status fill_blueprint(struct hf_config *config, struct blueprint *blueprint,
                                  struct fault *fault) {
    blueprint->qkv_bias = config->attention_bias;
    blueprint->o_bias = config->attention_bias;
    blueprint->qk_norm = true;
    int64_t window = config->use_sliding_window ? config->sliding_window : 0;
    return family_set_decoder_values(config, window, config->max_window_layers, blueprint, fault);
}

const struct family_rules FAMILY_QWEN3_RULES = {.model_type = "qwen3",
                                                .family = FAMILY_QWEN3,
                                                .fields = FIELDS,
                                                .field_count = ARRAY_COUNT(FIELDS),
                                                .fill_blueprint = fill_blueprint,
                                                .append_params = family_append_decoder_params};
