/* family: what one model family reads, fixes and contains; one row per family_*.c. */
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

    /* settle: the family's own checks, and the values of the blueprint from those of the config.
     * `blueprint` has family, model_type and layer_window [num_hidden_layers], with full attention
     * in every layer. */
    enum status (*settle)(struct hf_config *config, struct blueprint *blueprint,
                          struct fault *fault);

    /* list: append the parameters of a settled blueprint to `list`, in blueprint order. */
    void (*list)(const struct blueprint *blueprint, float init_std, struct param_list *list);
};

extern const struct family_rules FAMILY_LLAMA_RULES;
extern const struct family_rules FAMILY_MISTRAL_RULES;
extern const struct family_rules FAMILY_QWEN2_RULES;
extern const struct family_rules FAMILY_QWEN3_RULES;
extern const struct family_rules FAMILY_GPT2_RULES;

/* family_settle_shape: the sizes that every family has, checked against each other: kv heads divide
 * heads; head_dim is given or hidden / heads, at most HEAD_DIM_MAX. `heads_field` is the name of
 * the number of heads in the family's config.json, for faults. */
MUST_CHECK enum status family_settle_shape(const struct hf_config *config, const char *heads_field,
                                           struct blueprint *blueprint, struct fault *fault);

/* family_settle_decoder: the values that all Llama-like families have: activation, shape, rotary
 * embedding with an even head_dim, and windows by the rules of hf_layer_windows. */
MUST_CHECK enum status family_settle_decoder(struct hf_config *config, int64_t window,
                                             int64_t first_windowed, struct blueprint *blueprint,
                                             struct fault *fault);

/* family_list_decoder: the parameters of the Llama-like families, by the flags of the blueprint. */
void family_list_decoder(const struct blueprint *blueprint, float init_std,
                         struct param_list *list);

/* The builders of the families, from embedding to final hidden state. Each returns the tensor id of
 * the final hidden state, [tokens, hidden]. */
int graph_decoder(struct graph *graph); /* llama, mistral, qwen2, qwen3 */
int graph_gpt2(struct graph *graph);

#endif
