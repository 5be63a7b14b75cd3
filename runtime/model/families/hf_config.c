#include "runtime/model/families/hf_config.h"

#include "base/text.h"

enum { SHOWN_TEXT_MAX = 60 }; /* maximum bytes of a text from the file that a message quotes */

static void *field_destination(struct hf_config *config, const struct hf_field *field) {
    return (char *)config + field->offset;
}

static enum status read_count(const struct json_node *root, const struct hf_field *field,
                              struct hf_config *config, struct fault *fault) {
    int64_t *member = field_destination(config, field);
    struct json_node node;
    if (!json_find(root, field->name, &node)) {
        bool null = field->kind == HF_INTEGER_OR_NULL && json_has(root, field->name);
        *member = null ? 0 : (int64_t)field->default_value;
        return OK;
    }
    int64_t value;
    TRY(json_as_i64(&node, &value, fault));
    if (value < (int64_t)field->min_value || value > (int64_t)field->max_value) {
        return json_fault(&node, fault, NULL, "is %lld; the allowed range is %lld to %lld",
                          (long long)value, (long long)field->min_value,
                          (long long)field->max_value);
    }
    *member = value;
    return OK;
}

static enum status read_real(const struct json_node *root, const struct hf_field *field,
                             struct hf_config *config, struct fault *fault) {
    double value = field->default_value;
    TRY(json_get_f64(root, field->name, &value, NULL, fault));
    if (!(value >= field->min_value && value <= field->max_value)) {
        return json_fault_member(root, field->name, fault, "is %g; the allowed range is %g to %g",
                                 value, field->min_value, field->max_value);
    }
    *(double *)field_destination(config, field) = value;
    return OK;
}

static enum status read_field(const struct json_node *root, const struct hf_field *field,
                              struct hf_config *config, struct fault *fault) {
    bool *flag = field_destination(config, field);
    switch (field->kind) {
    case HF_INTEGER:
    case HF_INTEGER_OR_NULL:
        return read_count(root, field, config, fault);
    case HF_REAL:
        return read_real(root, field, config, fault);
    case HF_FLAG:
        *flag = field->default_value != 0;
        return json_get_bool(root, field->name, flag, NULL, fault);
    case HF_READ_ELSEWHERE:
        return OK;
    case HF_TEXT:
        break;
    }
    return json_get_text(root, field->name, field_destination(config, field), NULL, fault);
}

static enum status read_dtype(const struct json_node *root, enum dtype *dtype,
                              struct fault *fault) {
    static const char PREFIX[] = "torch.";
    const char *const names[] = {"dtype", "torch_dtype"};
    *dtype = DTYPE_F32;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const char *text = NULL;
        TRY(json_get_text(root, names[i], &text, NULL, fault));
        if (text == NULL) {
            continue;
        }
        const char *name =
            strncmp(text, PREFIX, sizeof PREFIX - 1) == 0 ? text + sizeof PREFIX - 1 : text;
        enum dtype found;
        if (!dtype_parse(name, &found) || found == DTYPE_I32) {
            return json_fault_member(
                root, names[i], fault,
                "is \"%.*s\"; the supported types are float32, bfloat16 and float16",
                SHOWN_TEXT_MAX, text);
        }
        *dtype = found;
        return OK;
    }
    return OK;
}

/* Read a token id, or the first id of a list; *token is -1 when the field is absent. */
static enum status read_token_id(const struct json_node *root, const char *name, int64_t *token,
                                 struct fault *fault) {
    struct json_node node;
    *token = -1;
    if (!json_find(root, name, &node)) {
        return OK;
    }
    if (!json_node_is_array(&node)) {
        return json_as_i64(&node, token, fault);
    }
    if (json_child_count(&node) == 0) {
        return OK;
    }
    struct json_node first = json_element(&node, 0);
    return json_as_i64(&first, token, fault);
}

/* Returns the token id, or -1 for an id outside the vocabulary, which some files on the Hub
 * have. */
static int32_t token_or_none(int64_t token, int64_t vocab) {
    return token >= 0 && token < vocab ? (int32_t)token : -1;
}

static enum status read_special_tokens(const struct json_node *root, struct hf_config *config,
                                       struct fault *fault) {
    int64_t eos;
    int64_t bos;
    int64_t padding;
    struct json_node node;
    TRY(read_token_id(root, "eos_token_id", &eos, fault));
    TRY(read_token_id(root, "bos_token_id", &bos, fault));
    TRY(read_token_id(root, "pad_token_id", &padding, fault));
    bool counts_from_end = padding == -1 && json_find(root, "pad_token_id", &node);
    config->tokens.eos = token_or_none(eos, config->vocab_size);
    config->tokens.bos = token_or_none(bos, config->vocab_size);
    /* PyTorch counts a negative padding index from the end of the embedding; files use only -1. */
    config->tokens.padding =
        token_or_none(counts_from_end ? config->vocab_size - 1 : padding, config->vocab_size);
    return OK;
}

enum status hf_config_read(const struct json_node *root, const struct hf_field *fields,
                           int field_count, struct hf_config *config, struct fault *fault) {
    *config = (struct hf_config){.root = root};
    for (int i = 0; i < field_count; i++) {
        TRY(read_field(root, &fields[i], config, fault));
    }
    TRY(read_dtype(root, &config->dtype, fault));
    return read_special_tokens(root, config, fault);
}

static enum status read_layer_type(const struct json_node *entry, int64_t window,
                                   int64_t *layer_window, struct fault *fault) {
    const char *type;
    TRY(json_as_text(entry, &type, fault));
    if (strcmp(type, "full_attention") == 0 || strcmp(type, "attention") == 0) {
        *layer_window = 0;
        return OK;
    }
    if (strcmp(type, "sliding_attention") != 0) {
        return json_fault(
            entry, fault, NULL,
            "is \"%.*s\"; the supported types are full_attention and sliding_attention",
            SHOWN_TEXT_MAX, type);
    }
    if (window == 0) {
        return json_fault(entry, fault, NULL, "is sliding_attention, but no sliding_window is set");
    }
    *layer_window = window;
    return OK;
}

enum status hf_read_layer_windows(const struct hf_config *config, int64_t window,
                                  int64_t first_windowed, int64_t *windows, struct fault *fault) {
    int64_t layers = config->num_hidden_layers;
    struct json_node types;
    bool present;
    TRY(json_get_array(config->root, "layer_types", &types, &present, fault));
    if (!present) {
        for (int64_t i = 0; i < layers; i++) {
            windows[i] = i >= first_windowed ? window : 0;
        }
        return OK;
    }
    if (json_child_count(&types) != (size_t)layers) {
        return json_fault(&types, fault, NULL, "has %zu entries for %lld layers",
                          json_child_count(&types), (long long)layers);
    }
    for (int64_t i = 0; i < layers; i++) {
        struct json_node entry = json_element(&types, (size_t)i);
        TRY(read_layer_type(&entry, window, &windows[i], fault));
    }
    return OK;
}

enum status hf_check_activation(const struct hf_config *config, const char *field,
                                const char *const *allowed, struct fault *fault) {
    char list[96];
    struct text text = text_over(list, sizeof list);
    if (config->activation == NULL) {
        return OK;
    }
    for (int i = 0; allowed[i] != NULL; i++) {
        if (strcmp(config->activation, allowed[i]) == 0) {
            return OK;
        }
        text_add(&text, "%s%s", i > 0 ? ", " : "", allowed[i]);
    }
    return json_fault_member(config->root, field, fault, "is \"%.*s\"; the supported values are %s",
                             SHOWN_TEXT_MAX, config->activation, list);
}
