/* family_llama: Llama 1 to 3.3 and models of the same structure (TinyLlama, SmolLM, Vicuna). */
#include "runtime/model/families/family.h"

static const struct hf_field FIELDS[] = {
    HF_DECODER_FIELDS,
    HF_COUNT_FIELD("vocab_size", vocab_size, 32000, VOCAB_MAX),
    HF_COUNT_FIELD("intermediate_size", intermediate_size, 11008, FFN_MAX),
    HF_COUNT_FIELD("num_key_value_heads", num_key_value_heads, 0, HEADS_MAX),
    HF_COUNT_FIELD("head_dim", head_dim, 0, HEAD_DIM_MAX),
    HF_COUNT_FIELD("max_position_embeddings", max_position_embeddings, 2048, POSITIONS_MAX),
    HF_FLAG_FIELD("attention_bias", attention_bias, false),
    HF_FLAG_FIELD("mlp_bias", mlp_bias, false),
};

static enum status fill_blueprint(struct hf_config *config, struct blueprint *blueprint,
                                  struct fault *fault) {
    blueprint->qkv_bias = config->attention_bias;
    blueprint->o_bias = config->attention_bias;
    blueprint->mlp_bias = config->mlp_bias;
    return family_set_decoder_values(config, 0, 0, blueprint, fault);
}

const struct family_rules FAMILY_LLAMA_RULES = {.model_type = "llama",
                                                .family = FAMILY_LLAMA,
                                                .fields = FIELDS,
                                                .field_count = ARRAY_COUNT(FIELDS),
                                                .fill_blueprint = fill_blueprint,
                                                .append_params = family_append_decoder_params};
