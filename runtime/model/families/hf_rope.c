/* hf_rope: reads the rotary embedding's fields from rope_scaling or rope_parameters. */
#include "runtime/model/families/hf_config.h"

#include "base/text.h"

#include <math.h>

/* default of rope_theta in every class of transformers */
static const double THETA_DEFAULT = 10000.0;
static const double THETA_MAX = 1e18;
static const double FACTOR_MAX = 1e6;

enum { SHOWN_TEXT_MAX = 60 }; /* maximum bytes of a text from the file that a message quotes */

struct rope_type {
    const char *name;
    enum rope_kind kind;
};

static const struct rope_type TYPES[] = {
    {"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR}, {"llama3", ROPE_LLAMA3}};

/* Keys that transformers reads for the supported rope types. */
static const char *const KNOWN_KEYS[] = {"rope_type",
                                         "type",
                                         "rope_theta",
                                         "factor",
                                         "low_freq_factor",
                                         "high_freq_factor",
                                         "original_max_position_embeddings",
                                         "partial_rotary_factor"};

static enum status read_positive_number(const struct json_node *object, const char *key,
                                        double max_value, double *value, struct fault *fault) {
    double found = *value;
    bool present;
    TRY(json_get_f64(object, key, &found, &present, fault));
    if (!(found > 0 && found <= max_value)) {
        return present
                   ? json_fault_member(object, key, fault,
                                       "is %g; it must be above 0 and at most %g", found, max_value)
                   : json_fault_member(object, key, fault, "is missing");
    }
    *value = found;
    return OK;
}

static enum status reject_unknown_keys(const struct json_node *object, struct fault *fault) {
    struct json_walk walk = json_walk_over(object);
    while (json_walk_next(&walk)) {
        bool known = json_node_is_null(&walk.member);
        for (size_t i = 0; i < ARRAY_COUNT(KNOWN_KEYS); i++) {
            known = known || strcmp(walk.member.key, KNOWN_KEYS[i]) == 0;
        }
        if (!known) {
            return json_fault(&walk.member, fault, NULL,
                              "is an unknown key and may change what the model computes; the "
                              "supported rope types are default, linear, llama3");
        }
    }
    return OK;
}

static enum status read_rope_type(const struct json_node *object, enum rope_kind *kind,
                                  struct fault *fault) {
    const char *key = json_has(object, "rope_type") ? "rope_type" : "type";
    const char *name = "default";
    TRY(json_get_text(object, key, &name, NULL, fault));
    if (!json_has(object, key) && json_has(object, "factor")) {
        return json_fault_member(object, "factor", fault,
                                 "has no effect without a rope_type of linear or llama3");
    }
    for (size_t i = 0; i < ARRAY_COUNT(TYPES); i++) {
        if (strcmp(name, TYPES[i].name) == 0) {
            *kind = TYPES[i].kind;
            return OK;
        }
    }
    return json_fault_member(object, key, fault,
                             "is \"%.*s\"; the supported types are default, linear, llama3",
                             SHOWN_TEXT_MAX, name);
}

static enum status read_llama3_scaling(const struct json_node *root, const struct json_node *object,
                                       int64_t max_positions, struct rope *rope,
                                       struct fault *fault) {
    double low = 0;
    double high = 0;
    TRY(read_positive_number(object, "low_freq_factor", FACTOR_MAX, &low, fault));
    TRY(read_positive_number(object, "high_freq_factor", FACTOR_MAX, &high, fault));
    if (high <= low) {
        return json_fault_member(object, "high_freq_factor", fault,
                                 "is %g; it must be above low_freq_factor, which is %g", high, low);
    }
    /* The key in the root has precedence over the key in the rope object, as in transformers. */
    const char *key = "original_max_position_embeddings";
    const struct json_node *holder = json_has(root, key) ? root : object;
    int64_t original = max_positions;
    TRY(json_get_i64(holder, key, &original, NULL, fault));
    if (original < 1 || original > POSITIONS_MAX) {
        return json_fault_member(holder, key, fault, "is %lld; the allowed range is 1 to %d",
                                 (long long)original, POSITIONS_MAX);
    }
    rope->low_freq_factor = low;
    rope->high_freq_factor = high;
    rope->original_positions = original;
    return OK;
}

static enum status read_rope_object(const struct json_node *root, const struct json_node *object,
                                    int64_t max_positions, struct rope *rope, struct fault *fault) {
    double partial = 1;
    TRY(read_rope_type(object, &rope->kind, fault));
    TRY(reject_unknown_keys(object, fault));
    TRY(read_positive_number(object, "rope_theta", THETA_MAX, &rope->theta, fault));
    TRY(json_get_f64(object, "partial_rotary_factor", &partial, NULL, fault));
    if (partial != 1) {
        return json_fault_member(object, "partial_rotary_factor", fault,
                                 "is %g; the only supported value is 1", partial);
    }
    if (rope->kind == ROPE_DEFAULT) {
        return OK;
    }
    rope->factor = 0;
    TRY(read_positive_number(object, "factor", FACTOR_MAX, &rope->factor, fault));
    return rope->kind == ROPE_LINEAR
               ? OK
               : read_llama3_scaling(root, object, max_positions, rope, fault);
}

enum status hf_rope_read(struct hf_config *config, struct fault *fault) {
    const struct json_node *root = config->root;
    struct rope rope = {.kind = ROPE_DEFAULT, .theta = THETA_DEFAULT, .factor = 1};
    struct json_node scaling;
    struct json_node parameters;
    bool has_scaling;
    bool has_parameters;
    TRY(read_positive_number(root, "rope_theta", THETA_MAX, &rope.theta, fault));
    TRY(json_get_object(root, "rope_scaling", &scaling, &has_scaling, fault));
    TRY(json_get_object(root, "rope_parameters", &parameters, &has_parameters, fault));
    /* rope_scaling, the older form, has precedence over rope_parameters, as in transformers. */
    if (has_scaling && json_child_count(&scaling) > 0) {
        TRY(read_rope_object(root, &scaling, config->max_position_embeddings, &rope, fault));
    } else if (has_parameters) {
        TRY(read_rope_object(root, &parameters, config->max_position_embeddings, &rope, fault));
    }
    config->rope = rope;
    return OK;
}
