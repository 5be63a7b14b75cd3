#include "runtime/settings/settings.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/yaml.h"
#include "runtime/schedule/schedule.h"
#include "runtime/settings/comma_list.h"
#include "runtime/settings/other_trainers.h"
#include "runtime/settings/setting_keys.h"
#include "runtime/settings/setting_value.h"

#include <stdio.h>
#include <string.h>

enum { PRECISION_KEYS_MAX = 2 }; /* most keys that one name can set: "precision" sets both types */

static const char COMMAND_LINE[] = "command line", BOTH_TYPES_NAME[] = "precision";

static int key_index(const struct setting_key *key) {
    return (int)(key - setting_key_at(0));
}

const char *settings_location(const struct settings *settings, const char *name) {
    const struct setting_key *key = setting_key_find(name);
    ASSERT(key != NULL);
    const char *location = settings->value_locations[key_index(key)];
    const char *file = settings->run_file[0] != '\0' ? settings->run_file : COMMAND_LINE;
    return location != NULL ? location : file;
}

const char *settings_key_location(const struct settings *settings, const char *name,
                                  struct region *region) {
    char with_name[sizeof COMMAND_LINE + 2 + NAME_BYTES];
    const char *location = settings_location(settings, name);
    if (strcmp(location, COMMAND_LINE) != 0) {
        return location;
    }
    snprintf(with_name, sizeof with_name, "%s: %s", COMMAND_LINE, name);
    return region_copy_text(region, with_name);
}

/* Reads a value and records its location. */
static enum status read_value(const struct setting_value *setting, struct settings *settings,
                              struct fault *fault) {
    const int index = key_index(setting->key);
    TRY(setting_read(setting, settings, fault));
    settings->value_locations[index] = region_copy_text(setting->region, setting->location);
    settings->given[index] = setting->text != NULL || setting->item_count > 0;
    return OK;
}

bool settings_is_given(const struct settings *settings, const char *name) {
    const struct setting_key *key = setting_key_find(name);
    ASSERT(key != NULL);
    return settings->given[key_index(key)];
}

const char *settings_default_source(const struct settings *settings,
                                    const struct setting_key *key) {
    static const char RUN_FOLDER[] = "in the folder of the run file";
    const bool tunes = settings->is_fine_tuning;
    const struct {
        const char *key, *source;
    } rows[] = {
        {"precision.params", tunes ? "type in the model's config.json" : NULL},
        {"precision.compute", tunes ? "precision.params" : NULL},
        {"optimizer.lr", tunes ? "with init: weights (fine-tuning)" : NULL},
        {"schedule.warmup_steps", tunes ? "with init: weights (fine-tuning)" : NULL},
        {"export.dtype", "precision.params"},
        {"batch.sequence", "the model's number of positions, at most 1024"},
        {"batch.tokens", "one microbatch per rank"},
        {"generate.context", "batch.sequence"},
        {"target", "this machine"},
        {"threads", "the target"},
        {"snapshot.folder", RUN_FOLDER},
        {"export", RUN_FOLDER},
        {"metrics", RUN_FOLDER},
    };
    if (settings_is_given(settings, key->name)) {
        return NULL;
    }
    if (strcmp(key->name, "steps") == 0 && settings->has_epochs) {
        return "epochs";
    }
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (strcmp(rows[i].key, key->name) == 0 && rows[i].source != NULL) {
            return rows[i].source;
        }
    }
    return "built in";
}

static void set_defaults(struct settings *settings, struct region *region) {
    for (int i = 0; i < setting_key_count(); i++) {
        struct setting_value setting = {
            .key = setting_key_at(i), .location = "default", .folder = "", .region = region};
        struct fault fault;
        enum status status = setting_read(&setting, settings, &fault);
        ASSERT(status == OK);
    }
}

static bool is_null_node(const struct yaml_node *node) {
    return node->is_plain && (strcmp(node->text, "null") == 0 || strcmp(node->text, "~") == 0);
}

static enum status check_list_item(const struct yaml_document *document,
                                   const struct yaml_node *item, struct fault *fault) {
    return item->kind == YAML_SCALAR && item->text[0] != '\0'
               ? OK
               : yaml_fault(document, item, fault, NULL,
                            "is empty, or is a map or a list, where one value is expected");
}

/* Reads the items of a list of paths, which may contain commas. A single value is a list with one
 * item. */
static enum status read_list_setting(const struct yaml_document *document,
                                     const struct yaml_node *node, struct setting_value *setting,
                                     struct fault *fault) {
    bool is_list = node->kind == YAML_LIST;
    size_t count = is_list ? (size_t)node->child_count : 1;
    const char **items = region_alloc(document->region, count + 1, sizeof *items);
    int filled = 0;
    if (!is_list) {
        items[filled++] = node->text;
    }
    for (const struct yaml_node *item = node->child; is_list && item != NULL;
         item = item->sibling) {
        TRY(check_list_item(document, item, fault));
        items[filled++] = item->text;
    }
    setting->items = items;
    setting->item_count = is_null_node(node) ? 0 : filled;
    return OK;
}

/* Joins the items of a list with commas, as on the command line. */
static enum status join_items(const struct yaml_document *document, const struct yaml_node *list,
                              const char **text, struct fault *fault) {
    size_t bytes = 1;
    for (const struct yaml_node *item = list->child; item != NULL; item = item->sibling) {
        TRY(check_list_item(document, item, fault));
        if (strchr(item->text, ',') != NULL) {
            return yaml_fault(document, item, fault, NULL,
                              "contains a comma, which separates list items");
        }
        bytes += strlen(item->text) + 1;
    }
    struct text joined = text_over(region_alloc(document->region, bytes, 1), bytes);
    for (const struct yaml_node *item = list->child; item != NULL; item = item->sibling) {
        text_add(&joined, "%s%s", joined.length > 0 ? "," : "", item->text);
    }
    *text = joined.bytes;
    return OK;
}

/* Whether the value may be a list, as that of strategy.recompute with one kind for each layer. */
static bool can_be_list(const struct setting_key *key) {
    return key->type == SETTING_PAIR || key->type == SETTING_PATHS || key->type == SETTING_TEXT;
}

static enum status read_node_text(const struct yaml_document *document,
                                  const struct yaml_node *node, struct setting_value *setting,
                                  struct fault *fault) {
    if (node->kind == YAML_LIST && !can_be_list(setting->key)) {
        return yaml_fault(document, node, fault, NULL, "is a list, not one value");
    }
    if (node->kind == YAML_LIST && setting->key->type != SETTING_PATHS) {
        return join_items(document, node, &setting->text, fault);
    }
    bool is_empty = node->kind == YAML_SCALAR && node->is_plain && node->text[0] == '\0';
    if (node->kind == YAML_MAP || is_empty) {
        return yaml_fault(document, node, fault, "remove the line to use the default",
                          "has no value");
    }
    if (setting->key->type == SETTING_PATHS) {
        return read_list_setting(document, node, setting, fault);
    }
    setting->text = is_null_node(node) ? NULL : node->text;
    return OK;
}

/* Finds the keys that a name sets: one, or both types for "precision"; returns their number. */
static int find_keys(const char *name, const struct setting_key *keys[static PRECISION_KEYS_MAX]) {
    if (strcmp(name, BOTH_TYPES_NAME) == 0) {
        keys[0] = setting_key_find("precision.params");
        keys[1] = setting_key_find("precision.compute");
        return PRECISION_KEYS_MAX;
    }
    keys[0] = setting_key_find(name);
    return keys[0] != NULL;
}

static enum status read_node(struct settings *settings, const struct yaml_document *document,
                             const struct yaml_node *node, struct fault *fault) {
    const struct setting_key *keys[PRECISION_KEYS_MAX];
    const int count = find_keys(node->path, keys);
    const bool is_group = node->kind == YAML_MAP && node->child_count > 0;
    if (count == 0 || is_group) {
        return OK; /* the node has no value: it is a map with keys, or an item of a list */
    }
    char location[sizeof fault->subject];
    snprintf(location, sizeof location, "%.280s:%d:%d", document->source_name, node->line,
             node->column);
    for (int i = 0; i < count; i++) {
        struct setting_value setting = {.key = keys[i],
                                        .location = location,
                                        .folder = settings->folder,
                                        .region = document->region};
        TRY(read_node_text(document, node, &setting, fault));
        TRY(read_value(&setting, settings, fault));
    }
    return OK;
}

/* Returns the remedy for a key that exists only in other trainers, or NULL. A key such as
 * "optimiser.lr" gets none here: its last part is one of our keys, so its group is misspelt. */
static const char *find_other_trainers_remedy(const char *path) {
    const char *dot = strrchr(path, '.');
    const char *name = dot == NULL ? path : dot + 1;
    bool is_ours =
        setting_key_find(path) != NULL || (dot != NULL && setting_key_find_by_end(name) != NULL);
    const char *remedy = is_ours ? NULL : other_trainers_remedy(name);
    return is_ours || remedy != NULL ? remedy : other_trainers_remedy(path);
}

/* Rejects names that other trainers use. Such a name often resembles none of ours, so that a
 * suggestion of the nearest name would mislead. */
static enum status reject_other_trainers_names(const struct yaml_document *document,
                                               struct fault *fault) {
    for (const struct yaml_node *node = document->first; node != NULL; node = node->next) {
        const char *remedy = find_other_trainers_remedy(node->path);
        if (remedy != NULL) {
            return yaml_fault(document, node, fault, remedy, "is not a known key");
        }
    }
    return OK;
}

static enum status read_document(struct settings *settings, const struct yaml_document *document,
                                 struct fault *fault) {
    enum status status = reject_other_trainers_names(document, fault);
    if (status == OK) {
        const char *names[RUN_KEYS_MAX + 1];
        const int count = setting_key_count();
        memcpy(names, setting_key_names(), (size_t)count * sizeof *names);
        names[count] = BOTH_TYPES_NAME;
        status = yaml_reject_unknown_keys(document, names, count + 1, fault);
    }
    const struct yaml_node *node = status == OK ? document->first : NULL;
    for (; node != NULL && status == OK; node = node->next) {
        status = read_node(settings, document, node, fault);
    }
    return status;
}

static enum status unknown_key_fault(const char *name, struct fault *fault) {
    char remedy[sizeof fault->remedy] = "`skep help keys` lists them";
    const char *other = find_other_trainers_remedy(name);
    int nearest = text_find_nearest(name, setting_key_names(), setting_key_count());
    if (other != NULL) {
        snprintf(remedy, sizeof remedy, "%s", other);
    } else if (nearest >= 0) {
        snprintf(remedy, sizeof remedy, "did you mean %s?", setting_key_names()[nearest]);
    }
    return fault_set(fault, STATUS_INPUT, COMMAND_LINE, remedy, "unknown key \"%s\"", name);
}

/* Splits a list such as "a,b" from the command line into items. */
static void split_items(char *text, struct region *region, struct setting_value *setting) {
    const char **items = region_alloc(region, comma_list_count(text) + 1, sizeof *items);
    const char *at = text;
    struct comma_item item;
    setting->items = items;
    while (comma_list_next(&at, &item)) {
        char *copy = region_alloc(region, item.length + 1, 1);
        memcpy(copy, item.text, item.length);
        items[setting->item_count++] = copy;
    }
}

static enum status read_override(struct settings *settings, const char *override,
                                 struct region *region, struct fault *fault) {
    char name[NAME_BYTES];
    const char *equals = strchr(override, '=');
    size_t width = equals == NULL ? 0 : (size_t)(equals - override);
    if (width == 0 || width >= sizeof name) {
        return fault_set(fault, STATUS_USAGE, COMMAND_LINE, "write key.sub=value",
                         "\"%.80s\" is not an override of the form key=value", override);
    }
    snprintf(name, sizeof name, "%.*s", (int)width, override);
    const struct setting_key *keys[PRECISION_KEYS_MAX];
    const int count = find_keys(name, keys);
    if (count == 0) {
        return unknown_key_fault(name, fault);
    }
    const char *value = equals + 1;
    size_t length = strlen(value);
    bool is_list = length >= 2 && value[0] == '[' && value[length - 1] == ']';
    char *unbracketed = region_alloc(region, length + 1, 1);
    memcpy(unbracketed, value + is_list, length - 2 * (size_t)is_list);
    for (int i = 0; i < count; i++) {
        struct setting_value setting = {.key = keys[i],
                                        .text = unbracketed[0] == '\0' ? NULL : unbracketed,
                                        .location = COMMAND_LINE,
                                        .folder = "",
                                        .region = region};
        if (keys[i]->type == SETTING_PATHS) {
            split_items(unbracketed, region, &setting);
        }
        TRY(read_value(&setting, settings, fault));
    }
    return OK;
}

/* Returns the location of the later of two contradictory keys. */
static const char *later_location(const struct settings *settings, const char *first,
                                  const char *second) {
    bool second_is_later = settings->value_locations[key_index(setting_key_find(first))] == NULL ||
                           strcmp(settings_location(settings, second), COMMAND_LINE) == 0;
    return settings_location(settings, second_is_later ? second : first);
}

/* Sets the type that was not given to the other one. Rejects types that contradict each other. */
static enum status complete_precision(struct settings *settings, struct fault *fault) {
    if (settings->params_dtype == DTYPE_AUTO) {
        settings->params_dtype = settings->compute_dtype;
    } else if (settings->compute_dtype == DTYPE_AUTO) {
        settings->compute_dtype = settings->params_dtype;
    }
    if (settings->params_dtype != settings->compute_dtype) {
        return fault_set(fault, STATUS_INPUT,
                         later_location(settings, "precision.params", "precision.compute"),
                         "set both to f32 or both to bf16",
                         "precision.params is %s, but precision.compute is %s",
                         dtype_name((enum dtype)settings->params_dtype),
                         dtype_name((enum dtype)settings->compute_dtype));
    }
    if (settings->master_dtype != DTYPE_F32) {
        return fault_set(fault, STATUS_INPUT, settings_location(settings, "precision.master"),
                         "set precision.master to f32",
                         "precision.master bf16 would lose updates smaller than 1/256 of a weight");
    }
    return OK;
}

static enum status check_run_length(const struct settings *settings, struct fault *fault) {
    char remedy[2 * NAME_BYTES];
    if (settings->epochs == 0 || !settings_is_given(settings, "steps")) {
        return OK;
    }
    snprintf(remedy, sizeof remedy, "remove one of them: steps (%.60s) or epochs (%.60s)",
             settings_location(settings, "steps"), settings_location(settings, "epochs"));
    return fault_set(fault, STATUS_INPUT, later_location(settings, "steps", "epochs"), remedy,
                     "epochs and steps both set the length of the run");
}

static unsigned offload_kind(const struct comma_item *item) {
    static const struct {
        const char *name;
        enum offload kind;
    } NAMES[] = {{"activations", OFFLOAD_ACTIVATIONS},
                 {"optimizer", OFFLOAD_OPTIMIZER},
                 {"params", OFFLOAD_PARAMS}};
    for (size_t i = 0; i < ARRAY_COUNT(NAMES); i++) {
        if (strlen(NAMES[i].name) == item->length &&
            memcmp(NAMES[i].name, item->text, item->length) == 0) {
            return NAMES[i].kind;
        }
    }
    return 0;
}

/* Reads strategy.offload: "none", or kinds in any order. */
static enum status read_offload(struct settings *settings, struct fault *fault) {
    const char *at = settings->offload != NULL ? settings->offload : "none";
    struct comma_item item;
    unsigned kinds = 0;
    if (strcmp(at, "none") == 0) {
        return OK;
    }
    while (comma_list_next(&at, &item)) {
        unsigned kind = offload_kind(&item);
        if (kind == 0) {
            return fault_set(
                fault, STATUS_INPUT, settings_location(settings, "strategy.offload"),
                "write 'none', or a list of activations, optimizer and params",
                "strategy.offload: \"%.*s\" is not one of activations, optimizer and params",
                item.length < 80 ? (int)item.length : 80, item.text);
        }
        kinds |= kind;
    }
    if ((kinds & OFFLOAD_PARAMS) != 0 && (kinds & OFFLOAD_OPTIMIZER) == 0) {
        return fault_set(fault, STATUS_INPUT, settings_location(settings, "strategy.offload"),
                         "add optimizer to the list",
                         "strategy.offload lists params, which requires optimizer");
    }
    settings->offload_kinds = kinds;
    return OK;
}

/* Returns the stem: "runs/a" for "runs/a.yaml", and "skep-run" without a run file. */
static const char *default_stem(const char *path, struct region *region) {
    if (path == NULL) {
        return "skep-run";
    }
    size_t length = strlen(path);
    struct text stem = text_over(region_alloc(region, length + 5, 1), length + 5);
    const char *dot = strrchr(path, '.');
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    bool has_suffix = dot != NULL && dot > name;
    text_add(&stem, "%.*s%s", (int)(has_suffix ? dot - path : (ptrdiff_t)length), path,
             has_suffix ? "" : ".run");
    return stem.bytes;
}

/* Returns the folder of a run file, or "" for the working directory, so that paths in it need no
 * prefix. */
static const char *folder_of_path(const char *path, struct region *region) {
    char folder[PATH_BYTES] = "";
    if (path != NULL && strchr(path, '/') != NULL) {
        file_parent_folder(path, folder, sizeof folder);
    }
    return region_copy_text(region, folder);
}

static const char *path_or_default(const char *configured, const char *stem, const char *name,
                                   struct region *region) {
    if (configured != NULL) {
        return configured;
    }
    char path[2 * PATH_BYTES];
    path_join(stem, name, path, sizeof path);
    return region_copy_text(region, path);
}

static enum status read_source(const struct settings_source *source,
                               const struct yaml_document *document, struct region *region,
                               struct settings *settings, struct fault *fault) {
    struct settings read = {
        .run_file = source->path != NULL ? region_copy_text(region, source->path) : "",
        .folder = folder_of_path(source->path, region),
        .stem = source->stem != NULL ? region_copy_text(region, source->stem)
                                     : default_stem(source->path, region),
        .value_locations = region_alloc(region, RUN_KEYS_MAX, sizeof *read.value_locations),
        .given = region_alloc(region, RUN_KEYS_MAX, sizeof *read.given)};
    set_defaults(&read, region);
    if (document != NULL) {
        TRY(read_document(&read, document, fault));
    }
    for (int i = 0; i < source->override_count; i++) {
        TRY(read_override(&read, source->overrides[i], region, fault));
    }
    TRY(complete_precision(&read, fault));
    TRY(check_run_length(&read, fault));
    TRY(read_offload(&read, fault));
    read.snapshot_folder = path_or_default(read.snapshot_folder, read.stem, "snapshots", region);
    read.export_folder = path_or_default(read.export_folder, read.stem, "model", region);
    read.metrics_path = path_or_default(read.metrics_path, read.stem, "metrics.jsonl", region);
    *settings = read;
    return OK;
}

static enum status check_path_length(const char *path, struct fault *fault) {
    return strlen(path) < PATH_BYTES ? OK
                                     : fault_set(fault, STATUS_INPUT, "run file", NULL,
                                                 "the path is %zu characters long; the limit is %d",
                                                 strlen(path), PATH_BYTES - 1);
}

enum status settings_open(const char *path, const char *const *overrides, int override_count,
                          struct region *region, struct settings *settings, struct fault *fault) {
    struct yaml_document document;
    struct settings_source source = {
        .path = path, .overrides = overrides, .override_count = override_count};
    if (path == NULL) {
        return read_source(&source, NULL, region, settings, fault);
    }
    TRY(check_path_length(path, fault));
    TRY(yaml_open_file(path, region, &document, fault));
    return read_source(&source, &document, region, settings, fault);
}

enum status settings_open_source(const struct settings_source *source, const char *text,
                                 size_t length, struct region *region, struct settings *settings,
                                 struct fault *fault) {
    struct yaml_document document;
    TRY(check_path_length(source->path, fault));
    TRY(yaml_open(text, length, source->path, region, &document, fault));
    return read_source(source, &document, region, settings, fault);
}

enum status settings_open_text(const char *text, size_t length, const char *path,
                               struct region *region, struct settings *settings,
                               struct fault *fault) {
    struct settings_source source = {.path = path};
    return settings_open_source(&source, text, length, region, settings, fault);
}
