#include "runtime/tokenizer/load.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* maximum size of a component's text; only added_tokens exceeds 64 KiB */
enum { VALUE_BYTES_MAX = 1 << 24 };

static const char *const ROOT_NAMES[ROOT_COUNT] = {"added_tokens",   "normalizer", "pre_tokenizer",
                                                   "post_processor", "decoder",    "version"};
static const char *const MODEL_NAMES[MODEL_COUNT] = {"type",
                                                     "dropout",
                                                     "unk_token",
                                                     "continuing_subword_prefix",
                                                     "end_of_word_suffix",
                                                     "fuse_unk",
                                                     "byte_fallback",
                                                     "ignore_merges",
                                                     "vocab",
                                                     "merges"};

enum status load_fault(struct loader *loader, const char *remedy, const char *format, ...) {
    char reason[sizeof loader->fault->reason];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    text_hide_control_characters(reason);
    return fault_set(loader->fault, STATUS_INPUT, loader->path, remedy, "%s", reason);
}

static enum status scan_fault(struct loader *loader, const struct json_scan *scan) {
    return load_fault(loader, "download the file again", "byte %zu: %s", scan->at, scan->reason);
}

enum status load_value(struct loader *loader, const struct value_span *span, const char *name,
                       struct json_document *document, struct json_node *value, bool *found) {
    size_t count = span->end - span->begin;
    *found = false;
    if (span->end == 0) {
        return OK;
    }
    if (count > VALUE_BYTES_MAX) {
        return load_fault(loader, "use a tokenizer with fewer added tokens",
                          "`%s` has %zu bytes, more than the limit of %d", name, count,
                          VALUE_BYTES_MAX);
    }
    struct text text =
        text_over(region_alloc(loader->temporary, count + NAME_BYTES, 1), count + NAME_BYTES);
    text_add(&text, "{\"%s\":", name);
    text_add_bytes(&text, loader->text + span->begin, count);
    text_add(&text, "}");
    TRY(json_parse(text.bytes, text.length, text.length, loader->path, document, loader->fault));
    *found = json_find(&document->root, name, value);
    if (!*found) {
        json_finish(document);
    }
    return OK;
}

enum status load_text(struct loader *loader, const struct json_node *object, const char *key,
                      struct counted_text *text) {
    struct json_node node;
    const char *value;
    TRY(json_require(object, key, &node, loader->fault));
    TRY(json_as_text(&node, &value, loader->fault));
    *text = (struct counted_text){.bytes = region_copy_text(loader->region, value),
                                  .count = strlen(value)};
    return OK;
}

enum status load_type(struct loader *loader, const struct json_node *object, const char **type) {
    struct json_node node;
    TRY(json_as_object(object, loader->fault));
    TRY(json_require(object, "type", &node, loader->fault));
    return json_as_text(&node, type, loader->fault);
}

enum status load_unsupported_fault(struct loader *loader, const struct json_node *node,
                                   const char *what) {
    return json_fault(node, loader->fault, "use a tokenizer of a supported family (docs/DATA.md)",
                      "has %s, which is not supported", what);
}

enum status load_unsupported_type_fault(struct loader *loader, const struct json_node *node,
                                        const char *type) {
    return json_fault(node, loader->fault, "use a tokenizer of a supported family (docs/DATA.md)",
                      "is a %.40s, which is not supported", type);
}

enum status load_component_list(struct loader *loader, const struct json_node *node,
                                const char *list, struct component_list *components) {
    const char *type;
    TRY(load_type(loader, node, &type));
    if (strcmp(type, "Sequence") != 0) {
        components->items[0] = *node;
        components->count = 1;
        return OK;
    }
    TRY(json_require(node, list, &components->array, loader->fault));
    TRY(json_as_array(&components->array, loader->fault));
    components->count = json_child_count(&components->array);
    if (components->count > STEPS_MAX) {
        return load_unsupported_fault(loader, node, "more than eight steps");
    }
    for (size_t i = 0; i < components->count; i++) {
        components->items[i] = json_element(&components->array, i);
    }
    return OK;
}

/* Reads the members of the object at `at`, and stores the positions of the values of those in
 * `names`. */
static enum status scan_members(struct loader *loader, size_t *at, const char *const *names,
                                size_t name_count, struct value_span *spans) {
    struct json_scan scan = {.bytes = loader->text, .length = loader->length, .at = *at};
    if (!json_scan_expect_byte(&scan, '{')) {
        return scan_fault(loader, &scan);
    }
    bool has_more = json_scan_peek(&scan) != '}';
    scan.at += !has_more;
    while (has_more) {
        char *key;
        if (!json_scan_string(&scan, &key) || !json_scan_expect_byte(&scan, ':')) {
            return scan_fault(loader, &scan);
        }
        (void)json_scan_peek(&scan);
        size_t begin = scan.at;
        if (!json_scan_skip(&scan)) {
            return scan_fault(loader, &scan);
        }
        for (size_t i = 0; i < name_count; i++) {
            if (strcmp(key, names[i]) == 0) {
                spans[i] = (struct value_span){begin, scan.at};
            }
        }
        scan.reason = NULL;
        has_more = json_scan_has_more(&scan, '}');
        if (!has_more && scan.reason != NULL) {
            return scan_fault(loader, &scan);
        }
    }
    *at = scan.at;
    return OK;
}

static enum status scan_file(struct loader *loader) {
    struct value_span spans[ROOT_COUNT + 1] = {0};
    const char *names[ROOT_COUNT + 1];
    memcpy(names, ROOT_NAMES, sizeof ROOT_NAMES);
    names[ROOT_COUNT] = "model";
    size_t at = 0;
    TRY(scan_members(loader, &at, names, ROOT_COUNT + 1, spans));
    struct json_scan rest = {.bytes = loader->text, .length = loader->length, .at = at};
    if (json_scan_peek(&rest) != '\0' || rest.at < rest.length) {
        return load_fault(loader, "download the file again", "byte %zu: text after the object",
                          rest.at);
    }
    memcpy(loader->root, spans, sizeof loader->root);
    if (spans[ROOT_COUNT].end == 0) {
        return load_fault(loader, "pass the folder of a model", "is not a tokenizer: no `model`");
    }
    return scan_members(loader, &spans[ROOT_COUNT].begin, MODEL_NAMES, MODEL_COUNT, loader->model);
}

static enum status check_version(struct loader *loader) {
    struct json_document document;
    struct json_node value;
    bool found;
    TRY(load_value(loader, &loader->root[ROOT_VERSION], "version", &document, &value, &found));
    if (!found) {
        return OK;
    }
    const char *version = "";
    enum status status = json_as_text(&value, &version, loader->fault);
    if (status == OK && strcmp(version, "1.0") != 0) {
        status = load_unsupported_fault(loader, &value, "a version other than 1.0");
    }
    json_finish(&document);
    return status;
}

static enum status load_parts(struct loader *loader, const char *folder) {
    struct tokenizer *tokenizer = loader->tokenizer;
    tokenizer->info.hash = hash_of(loader->text, loader->length);
    TRY(scan_file(loader));
    TRY(check_version(loader));
    TRY(load_normalizer(loader));
    TRY(load_pre_tokenizer(loader));
    TRY(load_model(loader));
    TRY(load_added(loader));
    TRY(load_template(loader));
    TRY(load_decoder(loader));
    TRY(load_special_ids(loader, folder));
    load_split_rule(tokenizer);
    return OK;
}

enum status tokenizer_parse(const struct tokenizer_source *source, struct region *region,
                            struct region *temporary, const struct tokenizer **tokenizer,
                            struct fault *fault) {
    struct loader loader = {.path = source->path,
                            .text = source->text,
                            .length = source->length,
                            .region = region,
                            .temporary = temporary,
                            .tokenizer = region_alloc(region, 1, sizeof *loader.tokenizer),
                            .fault = fault};
    loader.tokenizer->unicode = source->unicode;
    enum status status = load_parts(&loader, source->folder);
    if (status == OK) {
        *tokenizer = loader.tokenizer;
    } else {
        tokenizer_finish(loader.tokenizer);
    }
    return status;
}

/* Reports that tokenizer.json is missing. The remedy depends on the other forms of a tokenizer that
 * the folder has. */
static enum status missing_fault(const char *folder, const char *path, struct fault *fault) {
    static const struct {
        const char *file, *remedy;
    } OTHERS[] = {
        {"tokenizer.model", "save it as tokenizer.json: transformers' AutoTokenizer(...)."
                            "save_pretrained writes one"},
        {"tekken.json", "take the repository's tokenizer.json, or save one with transformers"},
        {"vocab.json", "save it as tokenizer.json: transformers' AutoTokenizer(...)."
                       "save_pretrained writes one"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(OTHERS); i++) {
        char other[PATH_BYTES];
        path_join(folder, OTHERS[i].file, other, sizeof other);
        if (file_exists(other)) {
            return fault_set(fault, STATUS_INPUT, path, OTHERS[i].remedy, "does not exist, only %s",
                             OTHERS[i].file);
        }
    }
    return fault_set(fault, STATUS_INPUT, path, "download the model with its tokenizer",
                     "does not exist");
}

bool tokenizer_exists(const char *folder) {
    char path[PATH_BYTES];
    path_join(folder, "tokenizer.json", path, sizeof path);
    return file_exists(path);
}

enum status tokenizer_load(const char *folder, struct region *region,
                           const struct tokenizer **tokenizer, struct fault *fault) {
    char path[PATH_BYTES];
    path_join(folder, "tokenizer.json", path, sizeof path);
    if (!file_exists(path)) {
        return missing_fault(folder, path, fault);
    }
    struct region temporary = {0};
    struct tokenizer_source source = {.path = path, .folder = folder};
    enum status status = file_read_into_region(path, TOKENIZER_FILE_BYTES_MAX, &temporary,
                                               &source.text, &source.length, fault);
    if (status == OK) {
        source.unicode = unicode_make(region);
        status = tokenizer_parse(&source, region, &temporary, tokenizer, fault);
    }
    region_finish(&temporary);
    return status;
}
