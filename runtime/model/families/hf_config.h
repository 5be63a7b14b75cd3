/* hf_config: reads the values of a Hugging Face config.json. Each family has a table of fields. */
#ifndef SKEP_MODEL_FAMILIES_HF_CONFIG_H
#define SKEP_MODEL_FAMILIES_HF_CONFIG_H

#include "base/dtype.h"
#include "base/json.h"
#include "base/limits.h"
#include "runtime/model/model.h"

/* The type of a field. An absent or null field gets the default of the family's class in
 * transformers, except that null in a *_OR_NULL field is read as 0. Dedicated functions read
 * HF_READ_ELSEWHERE fields, which are in the table only to mark them as known. */
enum hf_field_kind { HF_INTEGER, HF_INTEGER_OR_NULL, HF_REAL, HF_FLAG, HF_TEXT, HF_READ_ELSEWHERE };

struct hf_field {
    const char *name; /* name of the field in config.json */
    enum hf_field_kind kind;
    size_t offset;        /* offset of the member in struct hf_config */
    double default_value; /* value of an absent number; an absent text is NULL */
    double min_value;     /* smallest allowed value */
    double max_value;     /* largest allowed value */
};

/* The values of a config.json, with the names of its fields. Fields that a family does not read are
 * 0. */
struct hf_config {
    const struct json_node *root; /* the whole config.json */
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
    int64_t num_attention_heads, num_key_value_heads, head_dim, max_position_embeddings;
    int64_t sliding_window, max_window_layers;
    double norm_epsilon, initializer_range;
    bool use_sliding_window, attention_bias, mlp_bias, tie_word_embeddings;
    bool scale_attn_weights, scale_attn_by_inverse_layer_idx, add_cross_attention;
    const char *activation;       /* name of the activation function */
    struct rope rope;             /* set by hf_rope_read */
    enum dtype dtype;             /* dtype of the checkpoint */
    struct special_tokens tokens; /* ids of special tokens */
};

/* largest accepted value of max_window_layers, which may exceed num_hidden_layers */
enum { WINDOW_LAYERS_MAX = 1 << 20 };

/* Rows of a family's field table. The defaults are those of the family's class in transformers, and
 * the limits those of base/limits.h. */
#define HF_COUNT_FIELD(name, member, default_value, max_value)                                     \
    { name, HF_INTEGER, offsetof(struct hf_config, member), default_value, 1, max_value }
#define HF_WHOLE_FIELD(name, member, default_value, max_value)                                     \
    { name, HF_INTEGER, offsetof(struct hf_config, member), default_value, 0, max_value }
#define HF_NULLABLE_FIELD(name, member, default_value, max_value)                                  \
    { name, HF_INTEGER_OR_NULL, offsetof(struct hf_config, member), default_value, 1, max_value }
#define HF_FLAG_FIELD(name, member, default_value)                                                 \
    { name, HF_FLAG, offsetof(struct hf_config, member), default_value, 0, 1 }
#define HF_REAL_FIELD(name, member, default_value, min_value, max_value)                           \
    { name, HF_REAL, offsetof(struct hf_config, member), default_value, min_value, max_value }
#define HF_TEXT_FIELD(name, member)                                                                \
    { name, HF_TEXT, offsetof(struct hf_config, member), 0, 0, 0 }

#define HF_OTHER_FIELD(name)                                                                       \
    { name, HF_READ_ELSEWHERE, 0, 0, 0, 0 }

/* Fields that hf_config_read and hf_rope_read handle without the table. */
#define HF_SHARED_FIELDS                                                                           \
    HF_OTHER_FIELD("model_type"), HF_OTHER_FIELD("dtype"), HF_OTHER_FIELD("torch_dtype"),          \
        HF_OTHER_FIELD("eos_token_id"), HF_OTHER_FIELD("bos_token_id"),                            \
        HF_OTHER_FIELD("pad_token_id")
#define HF_ROPE_FIELDS                                                                             \
    HF_OTHER_FIELD("rope_theta"), HF_OTHER_FIELD("rope_scaling"),                                  \
        HF_OTHER_FIELD("rope_parameters"), HF_OTHER_FIELD("original_max_position_embeddings"),     \
        HF_OTHER_FIELD("layer_types")

/* Fields with the same default in llama, mistral, qwen2 and qwen3. */
#define HF_DECODER_FIELDS                                                                          \
    HF_SHARED_FIELDS, HF_ROPE_FIELDS,                                                              \
        HF_COUNT_FIELD("hidden_size", hidden_size, 4096, HIDDEN_MAX),                              \
        HF_COUNT_FIELD("num_hidden_layers", num_hidden_layers, 32, LAYERS_MAX),                    \
        HF_COUNT_FIELD("num_attention_heads", num_attention_heads, 32, HEADS_MAX),                 \
        HF_REAL_FIELD("rms_norm_eps", norm_epsilon, 1e-6, 0, 1),                                   \
        HF_REAL_FIELD("initializer_range", initializer_range, 0.02, 0, 1),                         \
        HF_FLAG_FIELD("tie_word_embeddings", tie_word_embeddings, false),                          \
        HF_TEXT_FIELD("hidden_act", activation)
/* Additional fields of qwen2 and qwen3. */
#define HF_QWEN_FIELDS                                                                             \
    HF_COUNT_FIELD("vocab_size", vocab_size, 151936, VOCAB_MAX),                                   \
        HF_COUNT_FIELD("intermediate_size", intermediate_size, 22016, FFN_MAX),                    \
        HF_NULLABLE_FIELD("num_key_value_heads", num_key_value_heads, 32, HEADS_MAX),              \
        HF_COUNT_FIELD("max_position_embeddings", max_position_embeddings, 32768, POSITIONS_MAX),  \
        HF_NULLABLE_FIELD("sliding_window", sliding_window, 4096, POSITIONS_MAX),                  \
        HF_WHOLE_FIELD("max_window_layers", max_window_layers, 28, WINDOW_LAYERS_MAX),             \
        HF_FLAG_FIELD("use_sliding_window", use_sliding_window, false)

/* hf_config_read: read every field of the table, the dtype and the token ids.
 * memory  *config points into the document, which must outlive it
 * errors  STATUS_INPUT with the field, its value and the allowed values; *config is then
 *         undefined */
MUST_CHECK enum status hf_config_read(const struct json_node *root, const struct hf_field *fields,
                                      int field_count, struct hf_config *config,
                                      struct fault *fault);

/* hf_rope_read: read the rotary embedding into config->rope.
 * errors  STATUS_INPUT for types other than default, linear and llama3, unknown keys and invalid
 *         values */
MUST_CHECK enum status hf_rope_read(struct hf_config *config, struct fault *fault);

/* hf_read_layer_windows: read the attention window of each layer; 0 means full attention.
 * shapes  windows [num_hidden_layers]
 * rules   `layer_types` determines the windows; without it, layers from `first_windowed` on have
 *         `window` and earlier layers have full attention
 * errors  STATUS_INPUT when layer_types has an unknown entry or the wrong length, or needs a window
 *         but `window` is 0 */
MUST_CHECK enum status hf_read_layer_windows(const struct hf_config *config, int64_t window,
                                             int64_t first_windowed, int64_t *windows,
                                             struct fault *fault);

/* hf_check_activation: check that config->activation is absent or one of `allowed`
 * (NULL-terminated).
 * errors  STATUS_INPUT with `field`, its value and the allowed values */
MUST_CHECK enum status hf_check_activation(const struct hf_config *config, const char *field,
                                           const char *const *allowed, struct fault *fault);

#endif
