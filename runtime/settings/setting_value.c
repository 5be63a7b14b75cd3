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

enum { NUMBER_BYTES = 64, JSON_ESCAPE_BYTES = 6 };

static const double WHOLE_MAX = 0x1p53; /* a larger double may stand for several integers */

static enum status refuse(const struct setting_value *setting, const char *wanted,
                          struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, setting->place, NULL, "%s is \"%.80s\", not %s",
                     setting->key->name, setting->text, wanted);
}

static enum status refuse_range(const struct setting_value *setting, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, setting->place, NULL,
                     "%s is %.80s, outside %.10g to %.10g", setting->key->name, setting->text,
                     setting->key->minimum, setting->key->maximum);
}

static bool in_range(const struct setting_key *key, double value) {
    return value >= key->minimum && value <= key->maximum;
}

/* Decimal numbers only; the C library would take "0x10" too. */
static bool parse_real(const char *text, double *value) {
    return strpbrk(text, "xX") == NULL && text_parse_f64(text, value);
}

static enum status read_integer(const struct setting_value *setting, int64_t *out,
                                struct fault *fault) {
    int64_t value;
    double real;
    if (!text_parse_i64(setting->text, &value)) {
        /* 1e6 is welcome as long as it is whole. */
        if (!parse_real(setting->text, &real) || real != floor(real) || fabs(real) > WHOLE_MAX) {
            return refuse(setting, "a whole number", fault);
        }
        value = (int64_t)real;
    }
    if (!in_range(setting->key, (double)value)) {
        return refuse_range(setting, fault);
    }
    *out = value;
    return OK;
}

static enum status read_real(const struct setting_value *setting, const char *text, double *out,
                             struct fault *fault) {
    double value;
    if (!parse_real(text, &value)) {
        return refuse(setting, "a number", fault);
    }
    if (!in_range(setting->key, value)) {
        return refuse_range(setting, fault);
    }
    *out = value;
    return OK;
}

/* "8s" and "8 s" give "8"; a text without the unit, or too long for a number, stays itself. */
static const char *without_unit(const char *text, const char *unit, char bare[NUMBER_BYTES]) {
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
        return refuse(setting, "a list of two numbers", fault);
    }
    for (size_t i = 0; i < ARRAY_COUNT(values) && comma_list_next(&at, &item); i++) {
        char number[NUMBER_BYTES];
        snprintf(number, sizeof number, "%.*s", (int)item.length, item.text);
        if (item.length >= sizeof number || !parse_real(number, &values[i])) {
            return refuse(setting, "a list of two numbers", fault);
        }
        if (!in_range(setting->key, values[i])) {
            return refuse_range(setting, fault);
        }
    }
    *out = (struct number_pair){.first = values[0], .second = values[1]};
    return OK;
}

/* Index of `text` among "a|b|c", or -1. */
static int64_t choice_of(const char *choices, const char *text) {
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

static enum status refuse_choice(const struct setting_value *setting, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, setting->place, NULL, "%s is \"%.80s\", none of %s",
                     setting->key->name, setting->text, setting->key->choices);
}

static enum status read_choice(const struct setting_value *setting, int64_t *out,
                               struct fault *fault) {
    int64_t index = choice_of(setting->key->choices, setting->text);
    if (index < 0) {
        return refuse_choice(setting, fault);
    }
    *out = index;
    return OK;
}

static enum status read_dtype(const struct setting_value *setting, int64_t *out,
                              struct fault *fault) {
    enum dtype dtype;
    if (!dtype_parse(setting->text, &dtype) || (dtype != DTYPE_F32 && dtype != DTYPE_BF16)) {
        return refuse(setting, "f32 or bf16", fault);
    }
    *out = dtype;
    return OK;
}

static enum status read_bytes(const struct setting_value *setting, uint64_t *out,
                              struct fault *fault) {
    uint64_t value;
    char bare[NUMBER_BYTES];
    bool rate = strcmp(setting->key->unit, "bytes/s") == 0;
    const char *text = rate ? without_unit(setting->text, "/s", bare) : setting->text;
    if (!text_parse_bytes(text, &value)) {
        return refuse(setting, rate ? "a rate like 20 MB/s" : "an amount like 9GiB", fault);
    }
    if (!in_range(setting->key, (double)value)) {
        return refuse_range(setting, fault);
    }
    *out = value;
    return OK;
}

static enum status read_text(const struct setting_value *setting, const char **out,
                             struct fault *fault) {
    const struct setting_key *key = setting->key;
    if (key->choices != NULL && choice_of(key->choices, setting->text) < 0) {
        return refuse_choice(setting, fault);
    }
    if (strlen(setting->text) >= PATH_BYTES) {
        return refuse(setting, "a text of usual length", fault);
    }
    *out = region_copy_text(setting->region, setting->text);
    return OK;
}

/* `path` as the working directory sees it, where it lies beside the file that names it. */
static enum status place_path(const struct setting_value *setting, const char *path,
                              const char **out, struct fault *fault) {
    char placed[2 * PATH_BYTES];
    if (path[0] == '\0' || strlen(path) + strlen(setting->folder) + 1 >= PATH_BYTES) {
        return fault_set(fault, STATUS_INPUT, setting->place, NULL,
                         "%s has \"%.80s\", not a path of usual length", setting->key->name, path);
    }
    file_join(setting->folder, path, placed, sizeof placed);
    *out = region_copy_text(setting->region, placed);
    return OK;
}

static enum status read_path(const struct setting_value *setting, const char **out,
                             struct fault *fault) {
    return place_path(setting, setting->text, out, fault);
}

static enum status read_paths(const struct setting_value *setting, struct path_list *out,
                              struct fault *fault) {
    size_t count = (size_t)setting->item_count;
    struct path_list list = {.count = setting->item_count};
    enum status status = OK;
    list.paths = count == 0 ? NULL : region_alloc(setting->region, count, sizeof *list.paths);
    for (size_t i = 0; i < count && status == OK; i++) {
        status = place_path(setting, setting->items[i], &list.paths[i], fault);
    }
    if (status == OK) {
        *out = list;
    }
    return status;
}

/* What is no name is a path; and so is a Hub name when there is such a folder. */
static enum status read_model(const struct setting_value *setting, const char **out,
                              struct fault *fault) {
    const char *placed;
    TRY(read_path(setting, &placed, fault));
    if (hub_cache_names_model(setting->text) && !file_exists(placed)) {
        return read_text(setting, out, fault);
    }
    *out = placed;
    return OK;
}

static enum status read_profile(const struct setting_value *setting, const char **out,
                                struct fault *fault) {
    const char *dot = strrchr(setting->text, '.');
    bool is_path = strchr(setting->text, '/') != NULL || (dot != NULL && strcmp(dot, ".yaml") == 0);
    return is_path ? read_path(setting, out, fault) : read_text(setting, out, fault);
}

static void *field_of(struct settings *settings, const struct setting_key *key) {
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
        return read_real(setting, without_unit(setting->text, "s", bare), out, fault);
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
    ASSERT(false && "a list, or an unknown key type");
    return STATUS_FAILED;
}

enum status setting_read(const struct setting_value *setting, struct settings *settings,
                         struct fault *fault) {
    void *out = field_of(settings, setting->key);
    if (setting->key->type == SETTING_PATHS) {
        return read_paths(setting, out, fault);
    }
    struct setting_value given = *setting;
    bool is_text = given.key->type >= SETTING_TEXT; /* these come last, and have no empty values */
    if (given.text == NULL || (is_text && given.text[0] == '\0')) {
        given.text = given.key->default_text;
    }
    if (given.text == NULL) {
        *(const char **)out = NULL; /* only texts and paths have no default */
        return OK;
    }
    return read_field(&given, out, fault);
}

static void write_real(double value, struct text *text) {
    char number[NUMBER_BYTES];
    for (int digits = 6; digits <= 17; digits++) {
        double again;
        snprintf(number, sizeof number, "%.*g", digits, value);
        if (text_parse_f64(number, &again) && again == value) {
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

/* A JSON string is a YAML string. */
static void write_text(const char *value, struct text *text) {
    if (value == NULL) {
        text_add(text, "null");
    } else {
        text_add_json(text, value);
    }
}

/* A path without the run file's folder in front. */
static void write_path(const struct settings *settings, const char *path, struct text *text) {
    size_t length = settings->folder == NULL ? 0 : strlen(settings->folder);
    bool inside = path != NULL && length > 0 && strncmp(path, settings->folder, length) == 0 &&
                  path[length] == '/' && path[length + 1] != '\0';
    write_text(inside ? path + length + 1 : path, text);
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
    const void *at = (const char *)settings + key->offset;
    switch (key->type) {
    case SETTING_INTEGER:
        text_add(text, "%lld", (long long)*(const int64_t *)at);
        return;
    case SETTING_REAL:
    case SETTING_SECONDS:
        write_real(*(const double *)at, text);
        return;
    case SETTING_PAIR:
        text_add(text, "[");
        write_real(((const struct number_pair *)at)->first, text);
        text_add(text, ", ");
        write_real(((const struct number_pair *)at)->second, text);
        text_add(text, "]");
        return;
    case SETTING_BYTES:
        text_add(text, "%llu", (unsigned long long)*(const uint64_t *)at);
        return;
    case SETTING_DTYPE:
        text_add(text, "%s", dtype_name((enum dtype) * (const int64_t *)at));
        return;
    case SETTING_CHOICE:
        write_choice(key->choices, *(const int64_t *)at, text);
        return;
    case SETTING_TEXT:
        write_text(*(const char *const *)at, text);
        return;
    case SETTING_MODEL:
    case SETTING_PROFILE:
    case SETTING_PATH:
        write_path(settings, *(const char *const *)at, text);
        return;
    case SETTING_PATHS:
        write_paths(settings, at, text);
        return;
    }
}

/* Every byte of a text may need "\u00XX". */
static size_t text_room(const char *value) {
    return value == NULL ? NUMBER_BYTES : NUMBER_BYTES + JSON_ESCAPE_BYTES * strlen(value);
}

size_t setting_bytes_max(const struct settings *settings, const struct setting_key *key) {
    const void *at = (const char *)settings + key->offset;
    if (key->type == SETTING_PATHS) {
        const struct path_list *list = at;
        size_t room = NUMBER_BYTES;
        for (int i = 0; i < list->count; i++) {
            room += text_room(list->paths[i]);
        }
        return room;
    }
    return key->type >= SETTING_TEXT ? text_room(*(const char *const *)at) : 2 * NUMBER_BYTES;
}
