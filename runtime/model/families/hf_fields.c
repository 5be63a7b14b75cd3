#include "runtime/model/families/hf_fields.h"

#include "base/text.h"

/* size of the text of a notice; maximum number of fields in a family's table */
enum { NOTICE_BYTES = 256, FIELDS_MAX = 64 };

/* config.json fields that have no effect on training or on logits. */
static const char *const HARMLESS[] = {
    "architectures", "transformers_version", "transformers.js_config", "_name_or_path",
    "name_or_path", "_commit_hash", "_num_labels", "num_labels", "id2label", "label2id",
    "problem_type", "finetuning_task", "task_specific_params", "tokenizer_class", "prefix",
    "use_cache", "is_decoder", "torchscript", "use_bfloat16", "tf_legacy_loss", "return_dict",
    "return_dict_in_generate", "output_attentions", "output_hidden_states", "output_scores",
    "output_past", "keys_to_ignore_at_inference", "chunk_size_feed_forward",
    "gradient_checkpointing", "attn_implementation", "_attn_implementation",
    "_attn_implementation_autoset", "_attn_implementation_internal",
    "_experts_implementation_internal", "is_composition", "_flash_attn_2_enabled",
    "use_flash_attention", "use_flash_attention_2", "use_flash_attn", "max_sequence_length",
    "is_llama_config", "unsloth_fixed", "unsloth_version", "initializer_factor",
    /* gpt2 */
    "n_ctx", "n_special", "predict_special_tokens", "reorder_and_upcast_attn", "summary_type",
    "summary_use_proj", "summary_activation", "summary_proj_to_labels", "summary_first_dropout",
    "summary_last_dropout",
    /* generation */
    "max_length", "min_length", "max_new_tokens", "do_sample", "early_stopping", "num_beams",
    "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p", "typical_p",
    "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
    "bad_words_ids", "num_return_sequences", "forced_bos_token_id", "forced_eos_token_id",
    "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "sep_token_id", "cls_token_id", "mask_token_id", "unk_token_id",
    "decoder_start_token_id"};

/* Dropout rates. Current models set them to 0; other values are treated as 0. */
static const char *const DROPOUTS[] = {"attention_dropout", "attn_pdrop",     "resid_pdrop",
                                       "embd_pdrop",        "hidden_dropout", "hidden_dropout_prob",
                                       "residual_dropout",  "mlp_dropout"};

/* A field that changes the mathematics unless it has its neutral value. false, an empty object and
 * an empty list count as 0. */
struct neutral_field {
    const char *name;
    double neutral_value; /* value with which the field has no effect */
    const char *remedy;
};

static const char PLAIN_WEIGHTS[] = "use the model's unquantised weights";

static const struct neutral_field NEUTRAL[] = {
    {"pretraining_tp", 1, "set it to 1: other values only change the order of summation"},
    {"partial_rotary_factor", 1, NULL},
    {"rotary_pct", 1, NULL},
    {"embedding_multiplier", 1, NULL},
    {"residual_multiplier", 1, NULL},
    {"logits_scaling", 1, NULL},
    {"logit_scale", 1, NULL},
    {"rope_interleaved", 0, NULL},
    {"use_mrope", 0, NULL},
    {"is_encoder_decoder", 0, NULL},
    {"add_cross_attention", 0, NULL},
    {"tie_encoder_decoder", 0, NULL},
    {"use_bidirectional_attention", 0, NULL},
    {"is_causal", 1, NULL},
    {"pruned_heads", 0, NULL},
    {"use_sliding_window", 0, NULL},
    {"attention_bias", 0, NULL},
    {"mlp_bias", 0, NULL},
    {"use_qk_norm", 0, NULL},
    {"qk_norm", 0, NULL},
    {"num_experts", 0, NULL},
    {"num_local_experts", 0, NULL},
    {"num_nextn_predict_layers", 0, NULL},
    {"neftune_noise_alpha", 0, NULL},
    {"z_loss_coefficient", 0, NULL},
    {"label_smoothing", 0, NULL},
    {"auto_map", 0, "the model comes with its own code, which is never executed; remove the field"},
    {"quantization_config", 0, PLAIN_WEIGHTS},
    {"compression_config", 0, PLAIN_WEIGHTS},
    {"quantization", 0, PLAIN_WEIGHTS},
};

static bool is_in_name_list(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_family_field(const char *name, const struct hf_field *fields, int field_count) {
    for (int i = 0; i < field_count; i++) {
        if (strcmp(name, fields[i].name) == 0) {
            return true;
        }
    }
    return false;
}

static const struct neutral_field *find_neutral_field(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(NEUTRAL); i++) {
        if (strcmp(name, NEUTRAL[i].name) == 0) {
            return &NEUTRAL[i];
        }
    }
    return NULL;
}

static enum status check_neutral_value(const struct json_node *member,
                                       const struct neutral_field *neutral, struct fault *fault) {
    double number = neutral->neutral_value + 1;
    bool flag;
    if (json_node_is_object(member) || json_node_is_array(member)) {
        number = json_child_count(member) == 0 ? 0 : number;
    } else if (json_as_bool(member, &flag, fault) == OK) {
        number = flag ? 1 : 0;
    } else if (json_as_f64(member, &number, fault) != OK) {
        number = neutral->neutral_value + 1;
    }
    if (number == neutral->neutral_value) {
        return OK;
    }
    return json_fault(member, fault, neutral->remedy,
                      "changes what the model computes; the supported values are %s",
                      neutral->neutral_value == 1 ? "1 and true"
                                                  : "0, false, null and empty lists or objects");
}

static enum status check_dropout(const struct json_node *member, struct text *notice,
                                 struct fault *fault) {
    double rate;
    TRY(json_as_f64(member, &rate, fault));
    if (rate != 0) {
        text_add(notice, "%s%s %g", notice->length > 0 ? ", " : "", member->key, rate);
    }
    return OK;
}

static enum status unknown_field_fault(const struct json_node *member,
                                       const struct hf_field *fields, int field_count,
                                       struct fault *fault) {
    const char *names[FIELDS_MAX];
    int count = 0;
    for (; count < field_count && count < (int)ARRAY_COUNT(names); count++) {
        names[count] = fields[count].name;
    }
    int nearest = text_find_nearest(member->key, names, count);
    char remedy[128] = "remove the field if it does not change what the model computes";
    if (nearest >= 0) {
        struct text text = text_over(remedy, sizeof remedy);
        text_add(&text, "did you mean `%s`?", names[nearest]);
    }
    return json_fault(
        member, fault, remedy,
        "is an unknown field for this model_type and may change what the model computes");
}

static enum status check_field(const struct json_node *member, const struct hf_field *fields,
                               int field_count, struct text *notice, struct fault *fault) {
    const struct neutral_field *neutral = find_neutral_field(member->key);
    if (json_node_is_null(member) || is_family_field(member->key, fields, field_count) ||
        is_in_name_list(member->key, HARMLESS, ARRAY_COUNT(HARMLESS))) {
        return OK;
    }
    if (is_in_name_list(member->key, DROPOUTS, ARRAY_COUNT(DROPOUTS))) {
        return check_dropout(member, notice, fault);
    }
    return neutral != NULL ? check_neutral_value(member, neutral, fault)
                           : unknown_field_fault(member, fields, field_count, fault);
}

enum status hf_fields_check(const struct json_node *root, const struct hf_field *fields,
                            int field_count, struct region *region, const char **notice,
                            struct fault *fault) {
    char line[NOTICE_BYTES];
    struct text text = text_over(line, sizeof line);
    struct json_walk walk = json_walk_over(root);
    while (json_walk_next(&walk)) {
        TRY(check_field(&walk.member, fields, field_count, &text, fault));
    }
    *notice = NULL;
    if (text.length > 0) {
        text_add(&text, ": Skep trains without dropout");
        *notice = region_copy_text(region, line);
    }
    return OK;
}
