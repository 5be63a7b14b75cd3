/* family: the interface of one model family: its config.json fields, checks and parameters. Each
 * family_*.c defines one. */
#ifndef SKEP_MODEL_FAMILIES_FAMILY_H
#define SKEP_MODEL_FAMILIES_FAMILY_H

#include "runtime/model/families/hf_config.h"
#include "runtime/model/families/param_list.h"
#include "runtime/model/graph.h"
#include "runtime/model/model.h"

struct family_rules {
    const char *model_type;
    enum family family;
    const struct hf_field *fields;
    int field_count;

    /* fill_blueprint: check the config by the rules of the family and set the blueprint's values.
     * The caller has set family, model_type and layer_window [num_hidden_layers], with full
     * attention in every layer. */
    enum status (*fill_blueprint)(struct hf_config *config, struct blueprint *blueprint,
                                  struct fault *fault);

    /* append_params: append the parameters of a filled blueprint to `list`, in blueprint order. */
    void (*append_params)(const struct blueprint *blueprint, float init_std,
                          struct param_list *list);
};

extern const struct family_rules FAMILY_LLAMA_RULES;
extern const struct family_rules FAMILY_MISTRAL_RULES;
extern const struct family_rules FAMILY_QWEN2_RULES;
extern const struct family_rules FAMILY_QWEN3_RULES;
extern const struct family_rules FAMILY_GPT2_RULES;

/* family_set_shape: check and set the sizes that every family has. kv_heads must divide heads;
 * head_dim, given or hidden / heads, must be at most HEAD_DIM_MAX. `heads_field` is the config.json
 * field with the number of heads, for fault messages. */
MUST_CHECK enum status family_set_shape(const struct hf_config *config, const char *heads_field,
                                        struct blueprint *blueprint, struct fault *fault);

/* family_set_decoder_values: check and set the values that all Llama-like families have:
 * activation, shape, rotary embedding with an even head_dim, and the windows that
 * hf_read_layer_windows reads. */
MUST_CHECK enum status family_set_decoder_values(struct hf_config *config, int64_t window,
                                                 int64_t first_windowed,
                                                 struct blueprint *blueprint, struct fault *fault);

/* family_append_decoder_params: append the parameters of a Llama-like family, which depend on flags
 * of the blueprint. */
void family_append_decoder_params(const struct blueprint *blueprint, float init_std,
                                  struct param_list *list);

/* The graph builders of the families. Each appends the ops from the embedding to the final norm and
 * returns the tensor id of the final hidden state, [tokens, hidden]. */
int graph_build_decoder(struct graph *graph); /* for llama, mistral, qwen2, qwen3 */
int graph_build_gpt2(struct graph *graph);

#endif
