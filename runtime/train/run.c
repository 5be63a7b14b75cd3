#include "runtime/train/run.h"

#include "base/file.h"
#include "base/yaml.h"
#include "runtime/train/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEQUENCE_DEFAULT_MAX = 1024, LIST_ITEMS_MAX = 4096, VALUE_BYTES = 64 * 1024 };

/* A value on its way into the struct. */
struct setting {
    const struct key *key;
    const char *text;
    const char *place;  /* "run.yaml:3:7" or "command line" */
    const char *folder; /* what paths are relative to, "" for the working directory */
    struct region *region;
};

static void *field(struct run *run, const struct key *key) {
    return (char *)run + key->offset;
}

static enum status refuse(const struct setting *setting, struct fault *fault, const char *wanted) {
    return fault_set(fault, STATUS_INPUT, setting->place, NULL, "%s: \"%s\" is not %s",
                     setting->key->name, setting->text, wanted);
}

static enum status refuse_range(const struct setting *setting, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, setting->place, NULL, "%s: %s is outside %.10g .. %.10g",
                     setting->key->name, setting->text, setting->key->minimum,
                     setting->key->maximum);
}

static bool in_range(const struct key *key, double value) {
    return value >= key->minimum && value <= key->maximum;
}

static enum status set_integer(const struct setting *setting, int64_t *out, struct fault *fault) {
    int64_t value;
    double real;
    if (!text_parse_i64(setting->text, &value)) {
        /* 1e6 and 512k-style numbers are welcome as long as they are whole. */
        if (!text_parse_f64(setting->text, &real) || real != floor(real) || fabs(real) > 9e15) {
            return refuse(setting, fault, "a whole number");
        }
        value = (int64_t)real;
    }
    if (!in_range(setting->key, (double)value)) {
        return refuse_range(setting, fault);
    }
    *out = value;
    return OK;
}

static enum status set_real(const struct setting *setting, double *out, struct fault *fault) {
    double value;
    if (!text_parse_f64(setting->text, &value)) {
        return refuse(setting, fault, "a number");
    }
    if (!in_range(setting->key, value)) {
        return refuse_range(setting, fault);
    }
    *out = value;
    return OK;
}

static enum status set_seconds(const struct setting *setting, double *out, struct fault *fault) {
    char text[64];
    snprintf(text, sizeof text, "%s", setting->text);
    size_t length = strlen(text);
    if (length > 1 && text[length - 1] == 's') {
        text[length - 1] = '\0';
    }
    struct setting bare = *setting;
    bare.text = text;
    return set_real(&bare, out, fault);
}

static enum status set_pair(const struct setting *setting, struct number_pair *out,
                            struct fault *fault) {
    char first[64];
    const char *comma = strchr(setting->text, ',');
    struct number_pair pair;
    if (comma == NULL || comma - setting->text >= (ptrdiff_t)sizeof first) {
        return refuse(setting, fault, "two numbers");
    }
    snprintf(first, sizeof first, "%.*s", (int)(comma - setting->text), setting->text);
    const char *second = comma + 1 + strspn(comma + 1, " ");
    if (!text_parse_f64(first, &pair.first) || !text_parse_f64(second, &pair.second)) {
        return refuse(setting, fault, "two numbers");
    }
    if (!in_range(setting->key, pair.first) || !in_range(setting->key, pair.second)) {
        return refuse_range(setting, fault);
    }
    *out = pair;
    return OK;
}

static enum status set_choice(const struct setting *setting, int64_t *out, struct fault *fault) {
    const char *at = setting->key->choices;
    size_t length = strlen(setting->text);
    for (int64_t index = 0; *at != '\0'; index++) {
        size_t width = strcspn(at, "|");
        if (width == length && memcmp(at, setting->text, length) == 0) {
            *out = index;
            return OK;
        }
        at += width + (at[width] == '|');
    }
    return fault_set(fault, STATUS_INPUT, setting->place, NULL, "%s: \"%s\" is none of %s",
                     setting->key->name, setting->text, setting->key->choices);
}

static enum status set_dtype(const struct setting *setting, int64_t *out, struct fault *fault) {
    enum dtype dtype;
    if (!dtype_parse(setting->text, &dtype) || (dtype != DTYPE_F32 && dtype != DTYPE_BF16)) {
        return refuse(setting, fault, "f32 or bf16");
    }
    *out = dtype;
    return OK;
}

static enum status set_bytes(const struct setting *setting, uint64_t *out, struct fault *fault) {
    uint64_t value;
    if (!text_parse_bytes(setting->text, &value)) {
        return refuse(setting, fault, "an amount like 9GiB");
    }
    *out = value;
    return OK;
}

/* Each of the comma-separated paths, made relative to where the file that names it lies. */
static const char *placed_paths(const struct setting *setting) {
    char *joined = region_alloc(setting->region, VALUE_BYTES, 1);
    struct text out = text_over(joined, VALUE_BYTES);
    const char *at = setting->text;
    while (*at != '\0') {
        char one[PATH_BYTES];
        char placed[2 * PATH_BYTES];
        size_t width = strcspn(at, ",");
        if (width >= sizeof one) {
            return NULL;
        }
        snprintf(one, sizeof one, "%.*s", (int)width, at);
        file_join(setting->folder, one, placed, sizeof placed);
        text_add(&out, "%s%s", out.length > 0 ? "," : "", placed);
        at += width + (at[width] == ',');
        at += strspn(at, " ");
    }
    return out.cut ? NULL : joined;
}

static enum status set_paths(const struct setting *setting, const char **out, struct fault *fault) {
    const char *placed = setting->text[0] == '\0' ? NULL : placed_paths(setting);
    if (setting->text[0] != '\0' && placed == NULL) {
        return fault_set(fault, STATUS_INPUT, setting->place, NULL, "%s: the path is too long",
                         setting->key->name);
    }
    *out = placed;
    return OK;
}

static enum status set_value(struct run *run, const struct setting *setting, struct fault *fault) {
    void *out = field(run, setting->key);
    switch (setting->key->type) {
    case KEY_INTEGER:
        return set_integer(setting, out, fault);
    case KEY_REAL:
        return set_real(setting, out, fault);
    case KEY_SECONDS:
        return set_seconds(setting, out, fault);
    case KEY_PAIR:
        return set_pair(setting, out, fault);
    case KEY_BYTES:
        return set_bytes(setting, out, fault);
    case KEY_DTYPE:
        return set_dtype(setting, out, fault);
    case KEY_CHOICE:
        return set_choice(setting, out, fault);
    case KEY_PATH:
    case KEY_PATHS:
        return set_paths(setting, out, fault);
    case KEY_TEXT:
        break;
    }
    *(const char **)out =
        setting->text[0] == '\0' ? NULL : region_text(setting->region, setting->text);
    return OK;
}

static void set_defaults(struct run *run, struct region *region) {
    for (int i = 0; i < key_count(); i++) {
        const struct key *key = key_at(i);
        struct setting setting = {
            .key = key, .text = key->fallback, .place = "default", .folder = "", .region = region};
        struct fault fault;
        enum status status = key->fallback == NULL ? OK : set_value(run, &setting, &fault);
        ASSERT(status == OK);
    }
}

/* A list's items joined by commas: the form in which the command line gives lists. */
static enum status node_text(const struct yaml_document *document, const struct yaml_node *node,
                             const char **text, struct fault *fault) {
    if (node->kind == YAML_SCALAR) {
        *text = node->text;
        return OK;
    }
    char *joined = region_alloc(document->region, VALUE_BYTES, 1);
    struct text out = text_over(joined, VALUE_BYTES);
    for (const struct yaml_node *item = node->child; item != NULL; item = item->sibling) {
        if (item->kind != YAML_SCALAR || strchr(item->text, ',') != NULL) {
            return yaml_refuse(document, item, fault, NULL, "is not a plain value");
        }
        text_add(&out, "%s%s", out.length > 0 ? "," : "", item->text);
    }
    if (out.cut) {
        return yaml_refuse(document, node, fault, NULL, "is longer than %d bytes", VALUE_BYTES);
    }
    *text = joined;
    return OK;
}

static enum status read_node(struct run *run, const struct yaml_document *document,
                             const struct yaml_node *node, const char *folder,
                             struct fault *fault) {
    const struct key *key = key_find(node->path);
    if (key == NULL || node->kind == YAML_MAP) {
        return key == NULL ? OK : yaml_refuse(document, node, fault, NULL, "wants a value");
    }
    char place[sizeof fault->place];
    snprintf(place, sizeof place, "%s:%d:%d", document->place, node->line, node->column);
    struct setting setting = {
        .key = key, .place = place, .folder = folder, .region = document->region};
    enum status status = node_text(document, node, &setting.text, fault);
    return status == OK ? set_value(run, &setting, fault) : status;
}

/* A model or a profile may be a name or a path; it is a path when there is one beside the file. */
static const char *beside(const char *name, const char *folder, struct region *region) {
    char path[2 * PATH_BYTES];
    if (name == NULL || strlen(name) >= PATH_BYTES) {
        return name;
    }
    file_join(folder, name, path, sizeof path);
    return file_exists(path) ? region_text(region, path) : name;
}

static enum status read_file(struct run *run, const char *path, struct region *region,
                             struct fault *fault) {
    struct yaml_document document;
    char folder[PATH_BYTES];
    enum status status = yaml_open_file(path, region, &document, fault);
    if (status == OK) {
        status = yaml_expect_known(&document, key_names(), key_count(), fault);
    }
    file_folder_of(path, folder, sizeof folder);
    const char *prefix = strcmp(folder, ".") == 0 && path[0] != '.' ? "" : folder;
    const struct yaml_node *node = status == OK ? document.first : NULL;
    for (; node != NULL && status == OK; node = node->next) {
        status = read_node(run, &document, node, prefix, fault);
    }
    if (status == OK) {
        run->model = beside(run->model, prefix, region);
        run->target = beside(run->target, prefix, region);
    }
    return status;
}

static enum status read_override(struct run *run, const char *override, struct region *region,
                                 struct fault *fault) {
    char name[NAME_BYTES];
    const char *equals = strchr(override, '=');
    size_t width = equals == NULL ? 0 : (size_t)(equals - override);
    if (width == 0 || width >= sizeof name) {
        return fault_set(fault, STATUS_USAGE, "command line", "write key.sub=value",
                         "\"%s\" is not an override", override);
    }
    snprintf(name, sizeof name, "%.*s", (int)width, override);
    const struct key *key = key_find(name);
    if (key == NULL) {
        int nearest = text_nearest(name, key_names(), key_count());
        char remedy[NAME_BYTES];
        snprintf(remedy, sizeof remedy, nearest >= 0 ? "did you mean %s?" : "`skep help keys`%s",
                 nearest >= 0 ? key_names()[nearest] : " lists them");
        return fault_set(fault, STATUS_INPUT, "command line", remedy, "unknown key \"%s\"", name);
    }
    const char *value = equals + 1;
    size_t length = strlen(value);
    char *bare = region_alloc(region, length + 1, 1);
    bool list = length >= 2 && value[0] == '[' && value[length - 1] == ']';
    memcpy(bare, value + list, length - 2 * (size_t)list);
    struct setting setting = {
        .key = key, .text = bare, .place = "command line", .folder = "", .region = region};
    return set_value(run, &setting, fault);
}

static enum status check_together(const struct run *run, struct fault *fault) {
    const char *place = run->place[0] != '\0' ? run->place : "command line";
    if (run->params != run->compute) {
        return fault_set(fault, STATUS_INPUT, place, "set both to f32 or both to bf16",
                         "precision.params is %s but precision.compute is %s",
                         dtype_name((enum dtype)run->params), dtype_name((enum dtype)run->compute));
    }
    if (run->master != DTYPE_F32) {
        return fault_set(fault, STATUS_INPUT, place, "leave precision.master at f32",
                         "precision.master bf16 would lose updates smaller than 1/256 of a weight");
    }
    if (run->offload != NULL && strcmp(run->offload, "none") != 0) {
        return fault_set(fault, STATUS_INPUT, place, "set strategy.offload to none",
                         "strategy.offload: \"%s\" is not supported", run->offload);
    }
    if (run->replicate != 1 || run->overrides != NULL || strcmp(run->units, "block") != 0) {
        return fault_set(fault, STATUS_INPUT, place,
                         "leave strategy.replicate, units and overrides at their defaults",
                         "one rank has nothing to replicate or to wrap differently");
    }
    return OK;
}

/* "runs/a.yaml" gives "runs/a"; without a run file outputs go beside nothing: "skep-run". */
static const char *stem_of(const char *path, struct region *region) {
    if (path == NULL) {
        return "skep-run";
    }
    char *stem = region_alloc(region, strlen(path) + 8, 1);
    memcpy(stem, path, strlen(path));
    char *dot = strrchr(stem, '.');
    const char *slash = strrchr(stem, '/');
    if (dot != NULL && dot != stem && (slash == NULL || dot > slash + 1)) {
        *dot = '\0';
    } else {
        memcpy(stem + strlen(path), ".run", 5);
    }
    return stem;
}

static const char *under(const char *set, const char *stem, const char *name,
                         struct region *region) {
    if (set != NULL) {
        return set;
    }
    char path[2 * PATH_BYTES];
    file_join(stem, name, path, sizeof path);
    return region_text(region, path);
}

enum status run_open(const char *path, const char *const *overrides, int override_count,
                     struct region *region, struct run *run, struct fault *fault) {
    struct run read = {.place = path != NULL ? region_text(region, path) : "",
                       .stem = stem_of(path, region)};
    set_defaults(&read, region);
    enum status status = path != NULL ? read_file(&read, path, region, fault) : OK;
    for (int i = 0; i < override_count && status == OK; i++) {
        status = read_override(&read, overrides[i], region, fault);
    }
    if (status == OK) {
        status = check_together(&read, fault);
    }
    if (status != OK) {
        return status;
    }
    read.snapshot_folder = under(read.snapshot_folder, read.stem, "snapshots", region);
    read.export = under(read.export, read.stem, "model", region);
    read.metrics = under(read.metrics, read.stem, "metrics.jsonl", region);
    *run = read;
    return OK;
}
