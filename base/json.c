#include "base/json.h"

#include "base/hex.h"
#include "base/limits.h"
#include "base/text.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    FIELD_PATH_BYTES = 256, /* size of a path such as "a.b[2]" */
    SHOWN_TEXT_MAX = 60,    /* maximum bytes of a string value that a message shows */
    SUBJECT_BYTES = sizeof((struct fault *)0)->subject
};

/* The state of check_limits, which counts brackets and commas of the raw text. */
struct limits_scan {
    size_t depth;       /* current nesting depth */
    size_t value_count; /* upper bound of the number of values scanned so far */
    bool is_in_string;  /* the scan is inside a string */
    bool is_escaped;    /* the preceding character is an unescaped backslash */
};

static enum status set_fault_at_offset(const char *source_name, const char *text, size_t offset,
                                       struct fault *fault, const char *reason) {
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < offset; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    char location[SUBJECT_BYTES];
    snprintf(location, sizeof location, "%s:%zu:%zu", source_name, line, column);
    return fault_set(fault, STATUS_INPUT, location, NULL, "%s", reason);
}

static void scan_character(struct limits_scan *scan, char c) {
    if (scan->is_in_string) {
        scan->is_in_string = scan->is_escaped || c != '"';
        scan->is_escaped = !scan->is_escaped && c == '\\';
        return;
    }
    switch (c) {
    case '"':
        scan->is_in_string = true;
        break;
    case '{':
    case '[':
        scan->depth++;
        scan->value_count++;
        break;
    case '}':
    case ']':
        scan->depth -= scan->depth > 0;
        break;
    case ',':
        scan->value_count++;
        break;
    default:
        break;
    }
}

/* jansson recurses to a depth of 2048 and allocates about 100 bytes for each value, so the
 * depth and the number of values are checked before jansson parses the text. */
static enum status check_limits(const char *text, size_t length, const char *source_name,
                                struct fault *fault) {
    struct limits_scan scan = {0};
    char reason[96];
    for (size_t i = 0; i < length; i++) {
        scan_character(&scan, text[i]);
        if (scan.depth > JSON_DEPTH_MAX) {
            snprintf(reason, sizeof reason, "JSON is nested deeper than %d levels", JSON_DEPTH_MAX);
            return set_fault_at_offset(source_name, text, i, fault, reason);
        }
        if (scan.value_count > JSON_VALUES_MAX) {
            snprintf(reason, sizeof reason, "more than %d JSON values", JSON_VALUES_MAX);
            return set_fault_at_offset(source_name, text, i, fault, reason);
        }
    }
    return OK;
}

enum status json_parse(const char *text, size_t length, size_t length_max, const char *source_name,
                       struct json_document *document, struct fault *fault) {
    if (length > length_max) {
        return fault_set(fault, STATUS_INPUT, source_name, NULL,
                         "is %zu bytes long; the limit is %zu", length, length_max);
    }
    TRY(check_limits(text, length, source_name, fault));
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        char location[SUBJECT_BYTES];
        snprintf(location, sizeof location, "%s:%d:%d", source_name, error.line, error.column);
        text_hide_control_characters(error.text);
        return fault_set(fault, STATUS_INPUT, location, NULL, "not valid JSON: %s", error.text);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return fault_set(fault, STATUS_INPUT, source_name, NULL,
                         "is a JSON array, but a JSON object is expected");
    }
    document->root = (struct json_node){.value = root, .source_name = source_name};
    return OK;
}

void json_finish(struct json_document *document) {
    json_decref(document->root.value);
    *document = (struct json_document){0};
}

bool json_find(const struct json_node *object, const char *key, struct json_node *node) {
    ASSERT(json_is_object(object->value));
    json_t *value = json_object_get(object->value, key);
    if (value == NULL || json_is_null(value)) {
        return false;
    }
    *node = (struct json_node){
        .value = value, .source_name = object->source_name, .key = key, .parent = object};
    return true;
}

bool json_has(const struct json_node *object, const char *key) {
    ASSERT(json_is_object(object->value));
    return json_object_get(object->value, key) != NULL;
}

/* The path from the root to `node`: "rope_scaling.factor" or "layer_types[3]". */
static void write_field_path(const struct json_node *node, char *out, size_t capacity) {
    const struct json_node *ancestors[JSON_DEPTH_MAX + 1];
    int depth = 0;
    for (; node->parent != NULL && depth <= JSON_DEPTH_MAX; node = node->parent) {
        ancestors[depth++] = node;
    }
    struct text name = text_over(out, capacity);
    while (depth > 0) {
        const struct json_node *step = ancestors[--depth];
        if (step->key != NULL) {
            text_add(&name, "%s%s", name.length > 0 ? "." : "", step->key);
        } else {
            text_add(&name, "[%zu]", step->index);
        }
    }
    if (name.length == 0) {
        text_add(&name, "the document");
    }
}

static enum status set_field_fault(const struct json_node *node, struct fault *fault,
                                   const char *remedy, const char *format, va_list arguments) {
    char field[FIELD_PATH_BYTES];
    char problem[sizeof fault->reason];
    write_field_path(node, field, sizeof field);
    vsnprintf(problem, sizeof problem, format, arguments);
    enum status status =
        fault_set(fault, STATUS_INPUT, node->source_name, remedy, "`%s` %s", field, problem);
    text_hide_control_characters(fault->reason);
    return status;
}

enum status json_fault(const struct json_node *node, struct fault *fault, const char *remedy,
                       const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    enum status status = set_field_fault(node, fault, remedy, format, arguments);
    va_end(arguments);
    return status;
}

enum status json_fault_member(const struct json_node *object, const char *key, struct fault *fault,
                              const char *format, ...) {
    struct json_node member = {.source_name = object->source_name, .key = key, .parent = object};
    va_list arguments;
    va_start(arguments, format);
    enum status status = set_field_fault(&member, fault, NULL, format, arguments);
    va_end(arguments);
    return status;
}

enum status json_require(const struct json_node *object, const char *key, struct json_node *node,
                         struct fault *fault) {
    if (json_find(object, key, node)) {
        return OK;
    }
    return json_object_get(object->value, key) != NULL
               ? json_fault_member(object, key, fault, "is null")
               : json_fault_member(object, key, fault, "is missing");
}

static enum status set_type_fault(const struct json_node *node, const char *expected,
                                  struct fault *fault) {
    const json_t *value = node->value;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return json_fault(node, fault, NULL, "is an object, expected %s", expected);
    case JSON_ARRAY:
        return json_fault(node, fault, NULL, "is an array, expected %s", expected);
    case JSON_STRING:
        return json_fault(node, fault, NULL, "is the string \"%.*s\", expected %s", SHOWN_TEXT_MAX,
                          json_string_value(value), expected);
    case JSON_INTEGER:
        return json_fault(node, fault, NULL, "is the integer %lld, expected %s",
                          (long long)json_integer_value(value), expected);
    case JSON_REAL:
        return json_fault(node, fault, NULL, "is the number %.17g, expected %s",
                          json_real_value(value), expected);
    case JSON_TRUE:
        return json_fault(node, fault, NULL, "is true, expected %s", expected);
    case JSON_FALSE:
        return json_fault(node, fault, NULL, "is false, expected %s", expected);
    case JSON_NULL:
        break;
    }
    return json_fault(node, fault, NULL, "is null, expected %s", expected);
}

enum status json_as_i64(const struct json_node *node, int64_t *value, struct fault *fault) {
    if (!json_is_integer(node->value)) {
        return set_type_fault(node, "an integer", fault);
    }
    *value = json_integer_value(node->value);
    return OK;
}

enum status json_as_f64(const struct json_node *node, double *value, struct fault *fault) {
    if (!json_is_number(node->value)) {
        return set_type_fault(node, "a number", fault);
    }
    *value = json_number_value(node->value);
    return OK;
}

enum status json_as_bool(const struct json_node *node, bool *value, struct fault *fault) {
    if (!json_is_boolean(node->value)) {
        return set_type_fault(node, "true or false", fault);
    }
    *value = json_is_true(node->value);
    return OK;
}

enum status json_as_text(const struct json_node *node, const char **value, struct fault *fault) {
    if (!json_is_string(node->value)) {
        return set_type_fault(node, "a string", fault);
    }
    *value = json_string_value(node->value);
    return OK;
}

enum status json_as_object(const struct json_node *node, struct fault *fault) {
    return json_is_object(node->value) ? OK : set_type_fault(node, "an object", fault);
}

enum status json_as_array(const struct json_node *node, struct fault *fault) {
    return json_is_array(node->value) ? OK : set_type_fault(node, "an array", fault);
}

/* Calls json_find, and stores its result in *present unless `present` is NULL. */
static bool find_member(const struct json_node *object, const char *key, struct json_node *node,
                        bool *present) {
    bool is_found = json_find(object, key, node);
    if (present != NULL) {
        *present = is_found;
    }
    return is_found;
}

enum status json_get_i64(const struct json_node *object, const char *key, int64_t *value,
                         bool *present, struct fault *fault) {
    struct json_node node;
    return find_member(object, key, &node, present) ? json_as_i64(&node, value, fault) : OK;
}

enum status json_get_f64(const struct json_node *object, const char *key, double *value,
                         bool *present, struct fault *fault) {
    struct json_node node;
    return find_member(object, key, &node, present) ? json_as_f64(&node, value, fault) : OK;
}

enum status json_get_bool(const struct json_node *object, const char *key, bool *value,
                          bool *present, struct fault *fault) {
    struct json_node node;
    return find_member(object, key, &node, present) ? json_as_bool(&node, value, fault) : OK;
}

enum status json_get_text(const struct json_node *object, const char *key, const char **value,
                          bool *present, struct fault *fault) {
    struct json_node node;
    return find_member(object, key, &node, present) ? json_as_text(&node, value, fault) : OK;
}

enum status json_get_object(const struct json_node *object, const char *key,
                            struct json_node *value, bool *present, struct fault *fault) {
    struct json_node node;
    if (find_member(object, key, &node, present)) {
        TRY(json_as_object(&node, fault));
        *value = node;
    }
    return OK;
}

enum status json_get_array(const struct json_node *object, const char *key, struct json_node *value,
                           bool *present, struct fault *fault) {
    struct json_node node;
    if (find_member(object, key, &node, present)) {
        TRY(json_as_array(&node, fault));
        *value = node;
    }
    return OK;
}

bool json_node_is_null(const struct json_node *node) {
    return json_is_null(node->value);
}

bool json_node_is_array(const struct json_node *node) {
    return json_is_array(node->value);
}

bool json_node_is_object(const struct json_node *node) {
    return json_is_object(node->value);
}

size_t json_child_count(const struct json_node *node) {
    return json_is_array(node->value) ? json_array_size(node->value)
                                      : json_object_size(node->value);
}

struct json_node json_element(const struct json_node *array, size_t index) {
    json_t *value = json_array_get(array->value, index);
    ASSERT(value != NULL);
    return (struct json_node){
        .value = value, .source_name = array->source_name, .index = index, .parent = array};
}

struct json_walk json_walk_over(const struct json_node *object) {
    ASSERT(json_is_object(object->value));
    return (struct json_walk){.object = object};
}

/* jansson's iterators return the members in the order of insertion, which is the order of the
 * file. */
bool json_walk_next(struct json_walk *walk) {
    json_t *object = walk->object->value;
    walk->position = walk->position == NULL ? json_object_iter(object)
                                            : json_object_iter_next(object, walk->position);
    if (walk->position == NULL) {
        return false;
    }
    walk->member = (struct json_node){.value = json_object_iter_value(walk->position),
                                      .source_name = walk->object->source_name,
                                      .key = json_object_iter_key(walk->position),
                                      .parent = walk->object};
    return true;
}

enum status json_require_hex(const struct json_node *object, const char *key, void *bytes,
                             size_t count, struct fault *fault) {
    const char *text = "";
    TRY(json_get_text(object, key, &text, NULL, fault));
    return strlen(text) == 2 * count && hex_read(text, count, bytes)
               ? OK
               : json_fault_member(object, key, fault, "is not %zu bytes in lower-case hexadecimal",
                                   count);
}
