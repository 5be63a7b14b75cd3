/* yaml_read: look-up, typed values and detection of unknown keys in a parsed file. */
#include "base/yaml.h"

#include "base/limits.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct yaml_node *yaml_find(const struct yaml_document *document, const char *path) {
    for (const struct yaml_node *node = document->first; node != NULL; node = node->next) {
        if (strcmp(node->path, path) == 0) {
            return node;
        }
    }
    return NULL;
}

enum status yaml_fault(const struct yaml_document *document, const struct yaml_node *node,
                       struct fault *fault, const char *remedy, const char *reason_format, ...) {
    char location[sizeof fault->subject];
    char reason[sizeof fault->reason];
    snprintf(location, sizeof location, "%.280s:%d:%d", document->source_name, node->line,
             node->column);
    va_list arguments;
    va_start(arguments, reason_format);
    vsnprintf(reason, sizeof reason, reason_format, arguments);
    va_end(arguments);
    return fault_set(fault, STATUS_INPUT, location, remedy, "%s%s%s", node->path,
                     node->path[0] != '\0' ? " " : "", reason);
}

/* "declared[12].bytes" becomes "declared[].bytes", so that one name covers every item. */
static void path_without_indices(const char *path, char out[static YAML_PATH_BYTES]) {
    size_t length = 0;
    for (const char *c = path; *c != '\0'; c++) {
        out[length++] = *c;
        if (*c == '[') {
            c += strspn(c + 1, "0123456789");
        }
    }
    out[length] = '\0';
}

/* Whether a name of yaml_reject_unknown_keys covers the node. `path` is the node's path without
 * indices. */
static bool name_covers_node(const char *name, const char *path, const struct yaml_node *node) {
    size_t path_length = strlen(path);
    size_t name_length = strlen(name);
    if (name_length >= 2 && strcmp(name + name_length - 2, ".*") == 0 &&
        strncmp(path, name, name_length - 1) == 0) {
        return true;
    }
    if (strncmp(path, name, name_length) == 0 &&
        (path[name_length] == '\0' || strcmp(path + name_length, "[]") == 0)) {
        return true;
    }
    if (strncmp(path, name, path_length) != 0) {
        return false;
    }
    bool is_empty = node->kind == YAML_SCALAR && node->is_plain && node->text[0] == '\0';
    bool is_map_above = name[path_length] == '.' && node->kind == YAML_MAP;
    bool is_list_above = strncmp(name + path_length, "[]", 2) == 0 && node->kind == YAML_LIST;
    return is_empty ? name[path_length] == '.' || name[path_length] == '['
                    : is_map_above || is_list_above;
}

/* Shortens `name` to the number of parts of `path`, so that the misspelt path "memry" is compared
 * with "memory" and not with "memory.device". */
static const char *name_prefix(struct region *region, const char *name, const char *path) {
    char prefix[YAML_PATH_BYTES];
    int parts = 0;
    for (const char *c = path; *c != '\0'; c++) {
        parts += *c == '.';
    }
    size_t length = 0;
    while (name[length] != '\0' && length + 1 < sizeof prefix &&
           (name[length] != '.' || parts-- > 0)) {
        prefix[length] = name[length];
        length++;
    }
    prefix[length] = '\0';
    return region_copy_text(region, prefix);
}

static const char *name_with_last_part(const char *key, const char *const *names, int name_count) {
    for (int i = 0; i < name_count; i++) {
        const char *dot = strrchr(names[i], '.');
        if (dot != NULL && strcmp(dot + 1, key) == 0) {
            return names[i];
        }
    }
    return NULL;
}

static enum status set_unknown_key_fault(const struct yaml_document *document,
                                         const struct yaml_node *node, const char *const *names,
                                         int name_count, struct fault *fault) {
    char path[YAML_PATH_BYTES];
    path_without_indices(node->path, path);
    const char **prefixes =
        region_alloc(document->region, (size_t)(name_count > 0 ? name_count : 1), sizeof *prefixes);
    for (int i = 0; i < name_count; i++) {
        prefixes[i] = name_prefix(document->region, names[i], path);
        if (strcmp(prefixes[i], path) == 0) {
            return yaml_fault(document, node, fault, NULL, "is a map of keys, not a value");
        }
        if (strncmp(prefixes[i], path, strlen(path)) == 0 &&
            strcmp(prefixes[i] + strlen(path), "[]") == 0) {
            return yaml_fault(document, node, fault, NULL, "must be a list");
        }
    }
    int nearest = text_find_nearest(path, prefixes, name_count);
    const char *suggestion =
        nearest >= 0 ? prefixes[nearest] : name_with_last_part(node->key, names, name_count);
    char remedy[sizeof fault->remedy] = "";
    if (suggestion != NULL) {
        snprintf(remedy, sizeof remedy, "did you mean %s?", suggestion);
    }
    return yaml_fault(document, node, fault, remedy, "is not a known key");
}

enum status yaml_reject_unknown_keys(const struct yaml_document *document, const char *const *names,
                                     int name_count, struct fault *fault) {
    for (const struct yaml_node *node = document->first; node != NULL; node = node->next) {
        char path[YAML_PATH_BYTES];
        path_without_indices(node->path, path);
        bool is_known = false;
        for (int i = 0; i < name_count && !is_known; i++) {
            is_known = name_covers_node(names[i], path, node);
        }
        if (!is_known) {
            return set_unknown_key_fault(document, node, names, name_count, fault);
        }
    }
    return OK;
}

static enum status set_type_fault(const struct yaml_document *document,
                                  const struct yaml_node *node, const char *expected,
                                  struct fault *fault) {
    static const char *const KINDS[] = {"a value", "a map", "a list"};
    if (node->kind != YAML_SCALAR) {
        return yaml_fault(document, node, fault, NULL, "is %s, not %s", KINDS[node->kind],
                          expected);
    }
    if (node->text[0] == '\0') {
        return yaml_fault(document, node, fault, NULL, "has no value, expected %s", expected);
    }
    return yaml_fault(document, node, fault, NULL, "is \"%.80s\", not %s", node->text, expected);
}

enum status yaml_read_text(const struct yaml_document *document, const struct yaml_node *node,
                           const char **value, struct fault *fault) {
    if (node->kind != YAML_SCALAR || node->text[0] == '\0') {
        return set_type_fault(document, node, "a text", fault);
    }
    *value = node->text;
    return OK;
}

enum status yaml_read_i64(const struct yaml_document *document, const struct yaml_node *node,
                          struct yaml_range range, int64_t *value, struct fault *fault) {
    char expected[96];
    int64_t parsed;
    snprintf(expected, sizeof expected, "a whole number from %.0f to %.0f", range.minimum,
             range.maximum);
    if (node->kind != YAML_SCALAR || !text_parse_i64(node->text, &parsed) ||
        (double)parsed < range.minimum || (double)parsed > range.maximum) {
        return set_type_fault(document, node, expected, fault);
    }
    *value = parsed;
    return OK;
}

enum status yaml_read_f64(const struct yaml_document *document, const struct yaml_node *node,
                          struct yaml_range range, double *value, struct fault *fault) {
    char expected[96];
    double parsed;
    snprintf(expected, sizeof expected, "a number from %g to %g", range.minimum, range.maximum);
    if (node->kind != YAML_SCALAR || !text_parse_f64(node->text, &parsed) ||
        parsed < range.minimum || parsed > range.maximum) {
        return set_type_fault(document, node, expected, fault);
    }
    *value = parsed;
    return OK;
}

enum status yaml_read_bool(const struct yaml_document *document, const struct yaml_node *node,
                           bool *value, struct fault *fault) {
    bool is_true = node->kind == YAML_SCALAR && strcmp(node->text, "true") == 0;
    bool is_false = node->kind == YAML_SCALAR && strcmp(node->text, "false") == 0;
    if (!is_true && !is_false) {
        return set_type_fault(document, node, "true or false", fault);
    }
    *value = is_true;
    return OK;
}

enum status yaml_read_bytes(const struct yaml_document *document, const struct yaml_node *node,
                            uint64_t *value, struct fault *fault) {
    uint64_t parsed;
    if (node->kind != YAML_SCALAR || !text_parse_bytes(node->text, &parsed)) {
        return set_type_fault(document, node, "a size such as 11.5 GiB, 512MB or 4096", fault);
    }
    *value = parsed;
    return OK;
}
