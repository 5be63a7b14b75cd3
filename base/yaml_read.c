/* yaml_read: what readers ask of a parsed file: look-up, typed values, and unknown keys. */
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
    char place[sizeof fault->subject];
    char reason[sizeof fault->reason];
    snprintf(place, sizeof place, "%.280s:%d:%d", document->source_name, node->line, node->column);
    va_list arguments;
    va_start(arguments, reason_format);
    vsnprintf(reason, sizeof reason, reason_format, arguments);
    va_end(arguments);
    return fault_set(fault, STATUS_INPUT, place, remedy, "%s%s%s", node->path,
                     node->path[0] != '\0' ? " " : "", reason);
}

/* "declared[12].bytes" -> "declared[].bytes", so that one name covers every item. */
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

static bool name_covers(const char *name, const char *path, const struct yaml_node *node) {
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
    bool empty = node->kind == YAML_SCALAR && node->is_plain && node->text[0] == '\0';
    bool leads_by_key = name[path_length] == '.' && node->kind == YAML_MAP;
    bool leads_by_item = strncmp(name + path_length, "[]", 2) == 0 && node->kind == YAML_LIST;
    return empty ? name[path_length] == '.' || name[path_length] == '['
                 : leads_by_key || leads_by_item;
}

/* The name, cut to as many parts as `path` has: a misspelt "memry" is compared with "memory". */
static const char *name_cut(struct region *region, const char *name, const char *path) {
    char cut[YAML_PATH_BYTES];
    int parts = 0;
    for (const char *c = path; *c != '\0'; c++) {
        parts += *c == '.';
    }
    size_t length = 0;
    while (name[length] != '\0' && length + 1 < sizeof cut &&
           (name[length] != '.' || parts-- > 0)) {
        cut[length] = name[length];
        length++;
    }
    cut[length] = '\0';
    return region_copy_text(region, cut);
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

static enum status refuse_unknown(const struct yaml_document *document,
                                  const struct yaml_node *node, const char *const *names,
                                  int name_count, struct fault *fault) {
    char path[YAML_PATH_BYTES];
    path_without_indices(node->path, path);
    const char **cut =
        region_alloc(document->region, (size_t)(name_count > 0 ? name_count : 1), sizeof *cut);
    for (int i = 0; i < name_count; i++) {
        cut[i] = name_cut(document->region, names[i], path);
        if (strcmp(cut[i], path) == 0) {
            return yaml_fault(document, node, fault, NULL, "has keys of its own, not a value");
        }
        if (strncmp(cut[i], path, strlen(path)) == 0 && strcmp(cut[i] + strlen(path), "[]") == 0) {
            return yaml_fault(document, node, fault, NULL, "must be a list");
        }
    }
    int nearest = text_nearest(path, cut, name_count);
    const char *meant =
        nearest >= 0 ? cut[nearest] : name_with_last_part(node->key, names, name_count);
    char remedy[sizeof fault->remedy] = "";
    if (meant != NULL) {
        snprintf(remedy, sizeof remedy, "did you mean %s?", meant);
    }
    return yaml_fault(document, node, fault, remedy, "is not a known key");
}

enum status yaml_expect_known(const struct yaml_document *document, const char *const *names,
                              int name_count, struct fault *fault) {
    for (const struct yaml_node *node = document->first; node != NULL; node = node->next) {
        char path[YAML_PATH_BYTES];
        path_without_indices(node->path, path);
        bool known = false;
        for (int i = 0; i < name_count && !known; i++) {
            known = name_covers(names[i], path, node);
        }
        if (!known) {
            return refuse_unknown(document, node, names, name_count, fault);
        }
    }
    return OK;
}

static enum status refuse_value(const struct yaml_document *document, const struct yaml_node *node,
                                const char *wanted, struct fault *fault) {
    static const char *const KINDS[] = {"a value", "a map", "a list"};
    if (node->kind != YAML_SCALAR) {
        return yaml_fault(document, node, fault, NULL, "is %s, not %s", KINDS[node->kind], wanted);
    }
    if (node->text[0] == '\0') {
        return yaml_fault(document, node, fault, NULL, "has no value, not %s", wanted);
    }
    return yaml_fault(document, node, fault, NULL, "is \"%.80s\", not %s", node->text, wanted);
}

enum status yaml_text(const struct yaml_document *document, const struct yaml_node *node,
                      const char **value, struct fault *fault) {
    if (node->kind != YAML_SCALAR || node->text[0] == '\0') {
        return refuse_value(document, node, "a text", fault);
    }
    *value = node->text;
    return OK;
}

enum status yaml_i64(const struct yaml_document *document, const struct yaml_node *node,
                     struct yaml_range range, int64_t *value, struct fault *fault) {
    char wanted[96];
    int64_t parsed;
    snprintf(wanted, sizeof wanted, "a whole number from %.0f to %.0f", range.minimum,
             range.maximum);
    if (node->kind != YAML_SCALAR || !text_parse_i64(node->text, &parsed) ||
        (double)parsed < range.minimum || (double)parsed > range.maximum) {
        return refuse_value(document, node, wanted, fault);
    }
    *value = parsed;
    return OK;
}

enum status yaml_f64(const struct yaml_document *document, const struct yaml_node *node,
                     struct yaml_range range, double *value, struct fault *fault) {
    char wanted[96];
    double parsed;
    snprintf(wanted, sizeof wanted, "a number from %g to %g", range.minimum, range.maximum);
    if (node->kind != YAML_SCALAR || !text_parse_f64(node->text, &parsed) ||
        parsed < range.minimum || parsed > range.maximum) {
        return refuse_value(document, node, wanted, fault);
    }
    *value = parsed;
    return OK;
}

enum status yaml_bool(const struct yaml_document *document, const struct yaml_node *node,
                      bool *value, struct fault *fault) {
    bool yes = node->kind == YAML_SCALAR && strcmp(node->text, "true") == 0;
    bool no = node->kind == YAML_SCALAR && strcmp(node->text, "false") == 0;
    if (!yes && !no) {
        return refuse_value(document, node, "true or false", fault);
    }
    *value = yes;
    return OK;
}

enum status yaml_bytes(const struct yaml_document *document, const struct yaml_node *node,
                       uint64_t *value, struct fault *fault) {
    uint64_t parsed;
    if (node->kind != YAML_SCALAR || !text_parse_bytes(node->text, &parsed)) {
        return refuse_value(document, node, "a size as in 11.5 GiB, 512MB or 4096", fault);
    }
    *value = parsed;
    return OK;
}
