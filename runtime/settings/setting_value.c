#include "runtime/settings/setting_value.h"

#include "base/dtype.h"
#include "base/file.h"
#include "base/limits.h"
#include "runtime/model/model.h"
#include "runtime/settings/comma_list.h"
#include "runtime/settings/settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    NUMBER_BYTES = 64,     /* size of the longest text of a number, with its NUL */
    JSON_ESCAPE_BYTES = 6, /* size of the longest escape of a byte in JSON */
};

/* Largest magnitude of a number that is accepted as an integer. Above it, several integers round to
 * the same double. */
static const double WHOLE_MAX = 0x1p53;

static enum status type_fault(const struct setting_value *setting, const char *expected,
                              struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, setting->location, NULL, "%s is \"%.80s\", not %s",
                     setting->key->name, setting->text, expected);
}

static enum status range_fault(const struct setting_value *setting, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, setting->location, NULL,
                     "%s is %.80s, but must be from %.10g to %.10g", setting->key->name,
                     setting->text, setting->key->minimum, setting->key->maximum);
}

static bool is_in_range(const struct setting_key *key, double value) {
    return value >= key->minimum && value <= key->maximum;
}

/* Parses a decimal number. Rejects "0x10", which text_parse_f64 would accept. */
static bool parse_real(const char *text, double *value) {
    return strpbrk(text, "xX") == NULL && text_parse_f64(text, value);
}

static enum status read_integer(const struct setting_value *setting, int64_t *out,
                                struct fault *fault) {
    int64_t value;
    double real;
    if (!text_parse_i64(setting->text, &value)) {
        /* A notation such as 1e6 is valid if the value is an integer. */
        if (!parse_real(setting->text, &real) || real != floor(real) || fabs(real) > WHOLE_MAX) {
            return type_fault(setting, "a whole number", fault);
        }
        value = (int64_t)real;
    }
    if (!is_in_range(setting->key, (double)value)) {
        return range_fault(setting, fault);
    }
    *out = value;
    return OK;
}

static enum status read_real(const struct setting_value *setting, const char *text, double *out,
                             struct fault *fault) {
    double value;
    if (!parse_real(text, &value)) {
        return type_fault(setting, "a number", fault);
    }
    if (!is_in_range(setting->key, value)) {
        return range_fault(setting, fault);
    }
    *out = value;
    return OK;
}

/* Removes the unit: "8s" and "8 s" become "8". Returns `text` when it does not end with the unit or
 * is too long for a number. */
static const char *remove_unit(const char *text, const char *unit, char bare[NUMBER_BYTES]) {
    size_t length = strlen(text);
    size_t width = strlen(unit);
    if (length <= width || length >= NUMBER_BYTES || strcmp(text + length - width, unit) != 0) {
        return text;
    }
    length -= width;
    while (length > 0 && text[length - 1] == ' ') {
        length--;
    }
    memcpy(bare, text, length);
    bare[length] = '\0';
    return bare;
}

static enum status read_pair(const struct setting_value *setting, struct number_pair *out,
                             struct fault *fault) {
    double values[2];
    struct comma_item item;
    const char *at = setting->text;
    if (comma_list_count(at) != ARRAY_COUNT(values)) {
        return type_fault(setting, "a list of two numbers", fault);
    }
    for (size_t i = 0; i < ARRAY_COUNT(values) && comma_list_next(&at, &item); i++) {
        char number[NUMBER_BYTES];
        snprintf(number, sizeof number, "%.*s", (int)item.length, item.text);
        if (item.length >= sizeof number || !parse_real(number, &values[i])) {
            return type_fault(setting, "a list of two numbers", fault);
        }
        if (!is_in_range(setting->key, values[i])) {
            return range_fault(setting, fault);
        }
    }
    *out = (struct number_pair){.first = values[0], .second = values[1]};
    return OK;
}

/* Returns the index of `text` in choices such as "a|b|c", or -1. */
static int64_t find_choice(const char *choices, const char *text) {
    size_t length = strlen(text);
    for (int64_t index = 0; *choices != '\0'; index++) {
        size_t width = strcspn(choices, "|");
        if (width == length && memcmp(choices, text, length) == 0) {
            return index;
        }
        choices += width + (choices[width] == '|');
    }
    return -1;
}

static enum status choice_fault(const struct setting_value *setting, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, setting->location, NULL, "%s is \"%.80s\", not one of %s",
                     setting->key->name, setting->text, setting->key->choices);
}

static enum status read_choice(const struct setting_value *setting, int64_t *out,
                               struct fault *fault) {
    int64_t index = find_choice(setting->key->choices, setting->text);
    if (index < 0) {
        return choice_fault(setting, fault);
    }
    *out = index;
    return OK;
}

static enum status read_dtype(const struct setting_value *setting, int64_t *out,
                              struct fault *fault) {
    enum dtype dtype;
    if (setting->key->choices != NULL && strcmp(setting->text, "auto") == 0) {
        *out = DTYPE_AUTO;
        return OK;
    }
    if (!dtype_parse(setting->text, &dtype) || (dtype != DTYPE_F32 && dtype != DTYPE_BF16)) {
        return type_fault(setting, "f32 or bf16", fault);
    }
    *out = dtype;
    return OK;
}

static enum status read_bytes(const struct setting_value *setting, uint64_t *out,
                              struct fault *fault) {
    uint64_t value;
    char bare[NUMBER_BYTES];
    bool is_rate = strcmp(setting->key->unit, "bytes/s") == 0;
    const char *text = is_rate ? remove_unit(setting->text, "/s", bare) : setting->text;
    if (!text_parse_bytes(text, &value)) {
        return type_fault(setting, is_rate ? "a rate like 20 MB/s" : "an amount like 9GiB", fault);
    }
    if (!is_in_range(setting->key, (double)value)) {
        return range_fault(setting, fault);
    }
    *out = value;
    return OK;
}

static enum status read_text(const struct setting_value *setting, const char **out,
                             struct fault *fault) {
    const struct setting_key *key = setting->key;
    if (key->choices != NULL && find_choice(key->choices, setting->text) < 0) {
        return choice_fault(setting, fault);
    }
    if (strlen(setting->text) >= PATH_BYTES) {
        return type_fault(setting, "a shorter text", fault);
    }
    *out = region_copy_text(setting->region, setting->text);
    return OK;
}

/* Makes `path`, which is relative to setting->folder, relative to the working directory. */
static enum status resolve_path(const struct setting_value *setting, const char *path,
                                const char **out, struct fault *fault) {
    char resolved[2 * PATH_BYTES];
    if (path[0] == '\0' || strlen(path) + strlen(setting->folder) + 1 >= PATH_BYTES) {
        return fault_set(fault, STATUS_INPUT, setting->location, NULL,
                         "%s has a path that is empty or too long: \"%.80s\"", setting->key->name,
                         path);
    }
    path_join(setting->folder, path, resolved, sizeof resolved);
    *out = region_copy_text(setting->region, resolved);
    return OK;
}

static enum status read_path(const struct setting_value *setting, const char **out,
                             struct fault *fault) {
    return resolve_path(setting, setting->text, out, fault);
}

static enum status read_paths(const struct setting_value *setting, struct path_list *out,
                              struct fault *fault) {
    size_t count = (size_t)setting->item_count;
    struct path_list list = {.count = setting->item_count};
    enum status status = OK;
    list.paths = count == 0 ? NULL : region_alloc(setting->region, count, sizeof *list.paths);
    for (size_t i = 0; i < count && status == OK; i++) {
        status = resolve_path(setting, setting->items[i], &list.paths[i], fault);
    }
    if (status == OK) {
        *out = list;
    }
    return status;
}

/* Reads the value of `model`. A text such as org/name is a path only if that path exists; otherwise
 * it is a Hub name. Every other text is a path. */
static enum status read_model(const struct setting_value *setting, const char **out,
                              struct fault *fault) {
    const char *path;
    TRY(read_path(setting, &path, fault));
    if (hub_cache_is_model_name(setting->text) && !file_exists(path)) {
        return read_text(setting, out, fault);
    }
    *out = path;
    return OK;
}

static enum status read_profile(const struct setting_value *setting, const char **out,
                                struct fault *fault) {
    const char *dot = strrchr(setting->text, '.');
    bool is_path = strchr(setting->text, '/') != NULL || (dot != NULL && strcmp(dot, ".yaml") == 0);
    return is_path ? read_path(setting, out, fault) : read_text(setting, out, fault);
}

static void *field_address(struct settings *settings, const struct setting_key *key) {
    return (char *)settings + key->offset;
}

static enum status read_field(const struct setting_value *setting, void *out, struct fault *fault) {
    char bare[NUMBER_BYTES];
    switch (setting->key->type) {
    case SETTING_INTEGER:
        return read_integer(setting, out, fault);
    case SETTING_REAL:
        return read_real(setting, setting->text, out, fault);
    case SETTING_SECONDS:
        return read_real(setting, remove_unit(setting->text, "s", bare), out, fault);
    case SETTING_PAIR:
        return read_pair(setting, out, fault);
    case SETTING_BYTES:
        return read_bytes(setting, out, fault);
    case SETTING_DTYPE:
        return read_dtype(setting, out, fault);
    case SETTING_CHOICE:
        return read_choice(setting, out, fault);
    case SETTING_TEXT:
        return read_text(setting, out, fault);
    case SETTING_MODEL:
        return read_model(setting, out, fault);
    case SETTING_PROFILE:
        return read_profile(setting, out, fault);
    case SETTING_PATH:
        return read_path(setting, out, fault);
    case SETTING_PATHS:
        break;
    }
    ASSERT(false && "the type of the key is known and not a list");
    return STATUS_FAILED;
}

enum status setting_read(const struct setting_value *setting, struct settings *settings,
                         struct fault *fault) {
    void *out = field_address(settings, setting->key);
    if (setting->key->type == SETTING_PATHS) {
        return read_paths(setting, out, fault);
    }
    struct setting_value given = *setting;
    bool is_text = given.key->type >= SETTING_TEXT; /* The types of texts are last in the enum. */
    if (given.text == NULL || (is_text && given.text[0] == '\0')) {
        given.text = given.key->default_text;
    }
    if (given.text == NULL) {
        *(const char **)out = NULL; /* Only texts and paths can be unset. */
        return OK;
    }
    return read_field(&given, out, fault);
}

static void write_real(double value, struct text *text) {
    char number[NUMBER_BYTES];
    for (int digits = 6; digits <= 17; digits++) {
        double parsed;
        snprintf(number, sizeof number, "%.*g", digits, value);
        if (text_parse_f64(number, &parsed) && parsed == value) {
            break;
        }
    }
    text_add(text, "%s", number);
}

static void write_choice(const char *choices, int64_t index, struct text *text) {
    for (int64_t i = 0; i < index; i++) {
        choices += strcspn(choices, "|") + 1;
    }
    text_add(text, "%.*s", (int)strcspn(choices, "|"), choices);
}

/* Writes a JSON string, which is also a YAML string. */
static void write_text(const char *value, struct text *text) {
    if (value == NULL) {
        text_add(text, "null");
    } else {
        text_add_json(text, value);
    }
}

/* Writes a path in the run file's folder relative to that folder. */
static void write_path(const struct settings *settings, const char *path, struct text *text) {
    size_t length = settings->folder == NULL ? 0 : strlen(settings->folder);
    bool is_inside = path != NULL && length > 0 && strncmp(path, settings->folder, length) == 0 &&
                     path[length] == '/' && path[length + 1] != '\0';
    write_text(is_inside ? path + length + 1 : path, text);
}

static void write_paths(const struct settings *settings, const struct path_list *list,
                        struct text *text) {
    if (list->count == 0) {
        text_add(text, "null");
        return;
    }
    text_add(text, "[");
    for (int i = 0; i < list->count; i++) {
        text_add(text, "%s", i > 0 ? ", " : "");
        write_path(settings, list->paths[i], text);
    }
    text_add(text, "]");
}

void setting_write(const struct settings *settings, const struct setting_key *key,
                   struct text *text) {
    const void *field = (const char *)settings + key->offset;
    switch (key->type) {
    case SETTING_INTEGER:
        text_add(text, "%lld", (long long)*(const int64_t *)field);
        return;
    case SETTING_REAL:
    case SETTING_SECONDS:
        write_real(*(const double *)field, text);
        return;
    case SETTING_PAIR:
        text_add(text, "[");
        write_real(((const struct number_pair *)field)->first, text);
        text_add(text, ", ");
        write_real(((const struct number_pair *)field)->second, text);
        text_add(text, "]");
        return;
    case SETTING_BYTES:
        text_add(text, "%llu", (unsigned long long)*(const uint64_t *)field);
        return;
    case SETTING_DTYPE:
        text_add(text, "%s",
                 *(const int64_t *)field == DTYPE_AUTO
                     ? "auto"
                     : dtype_name((enum dtype) * (const int64_t *)field));
        return;
    case SETTING_CHOICE:
        write_choice(key->choices, *(const int64_t *)field, text);
        return;
    case SETTING_TEXT:
        write_text(*(const char *const *)field, text);
        return;
    case SETTING_MODEL:
    case SETTING_PROFILE:
    case SETTING_PATH:
        write_path(settings, *(const char *const *)field, text);
        return;
    case SETTING_PATHS:
        write_paths(settings, field, text);
        return;
    }
}

/* Returns the maximum size of a text in JSON, which may need "\u00XX" for every byte. */
static size_t text_bytes_max(const char *value) {
    return value == NULL ? NUMBER_BYTES : NUMBER_BYTES + JSON_ESCAPE_BYTES * strlen(value);
}

size_t setting_bytes_max(const struct settings *settings, const struct setting_key *key) {
    const void *field = (const char *)settings + key->offset;
    if (key->type == SETTING_PATHS) {
        const struct path_list *list = field;
        size_t bytes = NUMBER_BYTES;
        for (int i = 0; i < list->count; i++) {
            bytes += text_bytes_max(list->paths[i]);
        }
        return bytes;
    }
    return key->type >= SETTING_TEXT ? text_bytes_max(*(const char *const *)field)
                                     : 2 * NUMBER_BYTES;
}
