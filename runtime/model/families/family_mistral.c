/* family_mistral: Mistral 7B and Mistral Nemo: Llama with one window for all layers. */
#include "runtime/model/families/family.h"

static const struct hf_field FIELDS[] = {
    HF_DECODER_FIELDS,
    HF_COUNT_FIELD("vocab_size", vocab_size, 32000, VOCAB_MAX),
    HF_COUNT_FIELD("intermediate_size", intermediate_size, 14336, FFN_MAX),
    HF_NULLABLE_FIELD("num_key_value_heads", num_key_value_heads, 8, HEADS_MAX),
    HF_COUNT_FIELD("head_dim", head_dim, 0, HEAD_DIM_MAX),
    HF_COUNT_FIELD("max_position_embeddings", max_position_embeddings, 131072, POSITIONS_MAX),
    HF_NULLABLE_FIELD("sliding_window", sliding_window, 4096, POSITIONS_MAX),
};

/* Rejects layer types that differ between layers, because such a file describes a different model:
 * transformers uses the window in every layer and ignores layer_types. */
static enum status check_layer_types(const struct hf_config *config,
                                     const struct blueprint *blueprint, struct fault *fault) {
    for (int64_t i = 0; i < blueprint->layers; i++) {
        if (blueprint->layer_window[i] != config->sliding_window) {
            return json_fault_member(config->root, "layer_types", fault,
                                     "has full_attention in layer %lld, but sliding_window is "
                                     "%lld; mistral uses the same window in all layers",
                                     (long long)i, (long long)config->sliding_window);
        }
    }
    return OK;
}

static enum status fill_blueprint(struct hf_config *config, struct blueprint *blueprint,
                                  struct fault *fault) {
    TRY(family_set_decoder_values(config, config->sliding_window, 0, blueprint, fault));
    return check_layer_types(config, blueprint, fault);
}

const struct family_rules FAMILY_MISTRAL_RULES = {.model_type = "mistral",
                                                  .family = FAMILY_MISTRAL,
                                                  .fields = FIELDS,
                                                  .field_count = ARRAY_COUNT(FIELDS),
                                                  .fill_blueprint = fill_blueprint,
                                                  .append_params = family_append_decoder_params};
