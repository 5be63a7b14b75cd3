/* Normalizer and pre-tokenizer of tokenizer.json. */
#include "runtime/tokenizer/load.h"
#include "runtime/tokenizer/pattern.h"
#include "runtime/tokenizer/scan.h"
#include "runtime/tokenizer/unicode/utf8.h"

#include <string.h>

/* Reads the member `pattern` of a Replace or Split: {"String": text} or {"Regex": text}. */
static enum status read_pattern(struct loader *loader, const struct json_node *node,
                                struct counted_text *text, bool *is_regex) {
    struct json_node pattern;
    TRY(json_require(node, "pattern", &pattern, loader->fault));
    TRY(json_as_object(&pattern, loader->fault));
    *is_regex = json_has(&pattern, "Regex");
    TRY(load_text(loader, &pattern, *is_regex ? "Regex" : "String", text));
    return text->count > 0 ? OK : load_unsupported_fault(loader, &pattern, "an empty pattern");
}

enum status load_replace(struct loader *loader, const struct json_node *node,
                         struct counted_text *pattern, struct counted_text *content) {
    bool is_regex;
    TRY(read_pattern(loader, node, pattern, &is_regex));
    if (is_regex) {
        return load_unsupported_fault(loader, node, "a Regex in Replace");
    }
    return load_text(loader, node, "content", content);
}

static enum status read_normalizer_step(struct loader *loader, const struct json_node *node,
                                        struct normalizer_step *step) {
    const char *type;
    TRY(load_type(loader, node, &type));
    if (strcmp(type, "NFC") == 0) {
        step->kind = NORMALIZE_NFC;
        return OK;
    }
    if (strcmp(type, "Prepend") == 0) {
        step->kind = NORMALIZE_PREPEND;
        TRY(load_text(loader, node, "prepend", &step->content));
        return step->content.count > 0 ? OK
                                       : load_unsupported_fault(loader, node, "an empty prepend");
    }
    if (strcmp(type, "Replace") == 0) {
        step->kind = NORMALIZE_REPLACE;
        return load_replace(loader, node, &step->pattern, &step->content);
    }
    return load_unsupported_type_fault(loader, node, type);
}

enum status load_normalizer(struct loader *loader) {
    struct tokenizer *tokenizer = loader->tokenizer;
    struct json_document document;
    struct json_node value;
    struct component_list list;
    bool found;
    TRY(load_value(loader, &loader->root[ROOT_NORMALIZER], "normalizer", &document, &value,
                   &found));
    if (!found) {
        return OK;
    }
    enum status status = load_component_list(loader, &value, "normalizers", &list);
    for (size_t i = 0; status == OK && i < list.count; i++) {
        status =
            read_normalizer_step(loader, &list.items[i],
                                 &tokenizer->normalizer_steps[tokenizer->normalizer_step_count++]);
    }
    json_finish(&document);
    return status;
}

/* Reads a member that must be one of `choices`; *choice is set to its index. */
static enum status read_choice(struct loader *loader, const struct json_node *node, const char *key,
                               const char *const *choices, size_t count, size_t *choice) {
    const char *text;
    bool present;
    TRY(json_get_text(node, key, &text, &present, loader->fault));
    for (size_t i = 0; present && i < count; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *choice = i;
            return OK;
        }
    }
    return present ? json_fault_member(node, key, loader->fault, "is %.40s, which is not supported",
                                       text)
                   : OK;
}

static bool is_one_character(const struct counted_text *text) {
    return text->count > 0 && text->count == utf8_length(text->bytes[0]);
}

enum status load_metaspace(struct loader *loader, const struct json_node *node,
                           struct counted_text *meta, size_t *prefix) {
    static const char *const SCHEMES[] = {"never", "first", "always"};
    bool adds_space = true;
    *prefix = PREFIX_ALWAYS;
    TRY(load_text(loader, node, "replacement", meta));
    TRY(read_choice(loader, node, "prepend_scheme", SCHEMES, ARRAY_COUNT(SCHEMES), prefix));
    TRY(json_get_bool(node, "add_prefix_space", &adds_space, NULL, loader->fault));
    if (!is_one_character(meta)) {
        return load_unsupported_fault(loader, node, "a replacement of several characters");
    }
    if (!adds_space) {
        /* older files have `add_prefix_space` instead of `prepend_scheme` */
        *prefix = PREFIX_NEVER;
    }
    return OK;
}

/* Whether a step can change which part of a text gets the prefix of prepend_scheme first. In the
 * reference it is each part whose first character comes from the original position 0, and a
 * character that Replace inserts comes from the position of the last one that it replaces. */
static bool moves_start(const struct normalizer_step *step) {
    return step->kind == NORMALIZE_NFC ||
           (step->kind == NORMALIZE_REPLACE &&
            !(is_one_character(&step->pattern) && is_one_character(&step->content)));
}

static enum status check_first_prefix(struct loader *loader, const struct json_node *node) {
    const struct tokenizer *tokenizer = loader->tokenizer;
    for (size_t i = 0; i < tokenizer->normalizer_step_count; i++) {
        if (moves_start(&tokenizer->normalizer_steps[i])) {
            return load_unsupported_fault(loader, node,
                                          "prepend_scheme first after this normalizer");
        }
    }
    return OK;
}

static struct split_step *append_split_step(struct loader *loader) {
    struct tokenizer *tokenizer = loader->tokenizer;
    return &tokenizer->split[tokenizer->split_count++];
}

static enum status read_metaspace_step(struct loader *loader, const struct json_node *node,
                                       bool is_first) {
    struct tokenizer *tokenizer = loader->tokenizer;
    bool splits = true;
    size_t prefix;
    if (!is_first) {
        return load_unsupported_fault(loader, node, "Metaspace after another step");
    }
    TRY(load_metaspace(loader, node, &tokenizer->meta, &prefix));
    TRY(json_get_bool(node, "split", &splits, NULL, loader->fault));
    tokenizer->prefix = (enum prefix_kind)prefix;
    tokenizer->prefix_text = tokenizer->meta;
    if (tokenizer->prefix == PREFIX_FIRST) {
        TRY(check_first_prefix(loader, node));
    }
    if (splits) {
        *append_split_step(loader) = (struct split_step){
            .kind = SPLIT_TEXT, .behavior = BEHAVIOR_MERGED_WITH_NEXT, .text = tokenizer->meta};
    }
    return OK;
}

static enum status read_byte_level_step(struct loader *loader, const struct json_node *node,
                                        bool is_first, bool is_last) {
    struct tokenizer *tokenizer = loader->tokenizer;
    bool adds_space = true;
    bool uses_regex = true;
    TRY(json_get_bool(node, "add_prefix_space", &adds_space, NULL, loader->fault));
    TRY(json_get_bool(node, "use_regex", &uses_regex, NULL, loader->fault));
    if (!is_last || (adds_space && !is_first)) {
        return load_unsupported_fault(loader, node,
                                      is_last ? "add_prefix_space after another step"
                                              : "ByteLevel before another step");
    }
    if (adds_space) {
        tokenizer->prefix = PREFIX_ALWAYS;
        tokenizer->prefix_text = (struct counted_text){" ", 1};
    }
    if (uses_regex) {
        *append_split_step(loader) =
            (struct split_step){.kind = SPLIT_GPT2, .behavior = BEHAVIOR_ISOLATED};
    }
    loader->has_byte_level = true;
    return OK;
}

static enum status read_split_step(struct loader *loader, const struct json_node *node) {
    static const char *const BEHAVIORS[] = {"Removed", "Isolated", "MergedWithPrevious",
                                            "MergedWithNext", "Contiguous"};
    struct split_step step = {.kind = SPLIT_TEXT};
    size_t behavior = ARRAY_COUNT(BEHAVIORS);
    bool is_regex;
    TRY(read_pattern(loader, node, &step.text, &is_regex));
    TRY(read_choice(loader, node, "behavior", BEHAVIORS, ARRAY_COUNT(BEHAVIORS), &behavior));
    TRY(json_get_bool(node, "invert", &step.is_inverted, NULL, loader->fault));
    if (behavior == ARRAY_COUNT(BEHAVIORS)) {
        return json_fault_member(node, "behavior", loader->fault, "is missing");
    }
    step.behavior = (enum split_behavior)behavior;
    if (is_regex && !scan_published(step.text.bytes, &step)) {
        step.kind = SPLIT_PATTERN;
        TRY(pattern_make(step.text.bytes, loader->tokenizer->unicode, loader->path, loader->region,
                         &step.regex, loader->fault));
    }
    *append_split_step(loader) = step;
    return OK;
}

static enum status read_digits_step(struct loader *loader, const struct json_node *node) {
    bool is_individual = false;
    TRY(json_get_bool(node, "individual_digits", &is_individual, NULL, loader->fault));
    *append_split_step(loader) = (struct split_step){
        .kind = SPLIT_DIGITS, .behavior = is_individual ? BEHAVIOR_ISOLATED : BEHAVIOR_CONTIGUOUS};
    return OK;
}

static enum status read_pre_tokenizer_step(struct loader *loader, const struct json_node *node,
                                           bool is_first, bool is_last) {
    const char *type;
    TRY(load_type(loader, node, &type));
    if (strcmp(type, "ByteLevel") == 0) {
        return read_byte_level_step(loader, node, is_first, is_last);
    }
    if (strcmp(type, "Metaspace") == 0) {
        return read_metaspace_step(loader, node, is_first);
    }
    if (strcmp(type, "Split") == 0) {
        return read_split_step(loader, node);
    }
    if (strcmp(type, "Digits") == 0) {
        return read_digits_step(loader, node);
    }
    return load_unsupported_type_fault(loader, node, type);
}

enum status load_pre_tokenizer(struct loader *loader) {
    struct json_document document;
    struct json_node value;
    struct component_list list;
    bool found;
    TRY(load_value(loader, &loader->root[ROOT_PRE_TOKENIZER], "pre_tokenizer", &document, &value,
                   &found));
    if (!found) {
        return OK;
    }
    enum status status = load_component_list(loader, &value, "pretokenizers", &list);
    for (size_t i = 0; status == OK && i < list.count; i++) {
        status = read_pre_tokenizer_step(loader, &list.items[i], i == 0, i + 1 == list.count);
    }
    json_finish(&document);
    return status;
}
