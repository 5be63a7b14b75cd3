/* family_qwen2: Qwen2 and Qwen2.5, dense: Llama with biases on q, k and v. */
#include "runtime/model/families/family.h"

static const struct hf_field FIELDS[] = {
    HF_DECODER_FIELDS,
    HF_QWEN_FIELDS,
    HF_COUNT_FIELD("head_dim", head_dim, 0, HEAD_DIM_MAX),
};

static enum status fill_blueprint(struct hf_config *config, struct blueprint *blueprint,
                                  struct fault *fault) {
    blueprint->qkv_bias = true;
    int64_t window = config->use_sliding_window ? config->sliding_window : 0;
    return family_set_decoder_values(config, window, config->max_window_layers, blueprint, fault);
}

const struct family_rules FAMILY_QWEN2_RULES = {.model_type = "qwen2",
                                                .family = FAMILY_QWEN2,
                                                .fields = FIELDS,
                                                .field_count = ARRAY_COUNT(FIELDS),
                                                .fill_blueprint = fill_blueprint,
                                                .append_params = family_append_decoder_params};
