#include "targets/profile.h"

#include "base/limits.h"
#include "base/yaml.h"

#include <stdio.h>
#include <string.h>

static const char *const SPACE_KEYS[SPACE_COUNT] = {
    [SPACE_DEVICE] = "device", [SPACE_PINNED] = "pinned", [SPACE_HOST] = "host"};
static const char *const KIND_KEYS[] = {[TARGET_CPU] = "cpu", [TARGET_CUDA] = "cuda"};
static const char *const PER_KEYS[] = {
    [PER_PROCESS] = "process", [PER_SITE] = "site", [PER_GROUP] = "group"};
static const char *const ISA_KEYS[] = {"scalar", "avx2", "avx512", "avx512_bf16", "neon"};

#define SPACE_NAMES(space)                                                                         \
    "memory." space ".capacity", "memory." space ".source", "memory." space ".declared[].name",    \
        "memory." space ".declared[].bytes", "memory." space ".declared[].source",                 \
        "memory." space ".declared[].per"
#define FIGURE_NAMES(figure) figure ".value", figure ".source"

static const char *const KNOWN[] = {"name",
                                    "description",
                                    "kind",
                                    "unified",
                                    "alignment",
                                    "threads",
                                    SPACE_NAMES("device"),
                                    SPACE_NAMES("pinned"),
                                    SPACE_NAMES("host"),
                                    FIGURE_NAMES("speeds.f32_flops"),
                                    FIGURE_NAMES("speeds.bf16_flops"),
                                    FIGURE_NAMES("speeds.memory_bandwidth"),
                                    FIGURE_NAMES("speeds.host_link_bandwidth"),
                                    FIGURE_NAMES("speeds.peer_link_bandwidth"),
                                    FIGURE_NAMES("efficiency.matmul"),
                                    FIGURE_NAMES("efficiency.memory"),
                                    FIGURE_NAMES("efficiency.link"),
                                    "capabilities.isa",
                                    "capabilities.compute_capability",
                                    "capabilities.multiprocessors"};

/* For each figure: its key in the file, its field in the struct, and its valid range. */
struct figure_row {
    const char *path;        /* key in the profile, such as "speeds.f32_flops" */
    size_t offset;           /* offset of the field in struct target */
    struct yaml_range range; /* permitted values */
};

#define FIGURE(path, field, low, high)                                                             \
    {                                                                                              \
        path, offsetof(struct target, field), {                                                    \
            low, high                                                                              \
        }                                                                                          \
    }
static const struct figure_row FIGURES[] = {
    FIGURE("speeds.f32_flops", f32_flops, 1e6, 1e18),
    FIGURE("speeds.bf16_flops", bf16_flops, 1e6, 1e18),
    FIGURE("speeds.memory_bandwidth", memory_bandwidth, 1e6, 1e15),
    FIGURE("speeds.host_link_bandwidth", host_link_bandwidth, 1e6, 1e15),
    FIGURE("speeds.peer_link_bandwidth", peer_link_bandwidth, 1e6, 1e15),
    FIGURE("efficiency.matmul", matmul_efficiency, 0.01, 1),
    FIGURE("efficiency.memory", memory_efficiency, 0.01, 1),
    FIGURE("efficiency.link", link_efficiency, 0.01, 1),
};

enum {
    ALIGN_BYTES_MAX = 1 << 20,  /* largest buffer alignment that a profile may set */
    COMPUTE_MAJOR_MAX = 99,     /* largest major compute capability */
    MULTIPROCESSORS_MAX = 4096, /* ten times the number of the largest device */
};

/* The state of reading one profile. */
struct profile_reader {
    struct yaml_document document;
    struct region *region;
    struct fault *fault;
    struct target target; /* the values read so far */
};

/* The path of a key, which is below another key in the file. */
struct dotted_path {
    char text[YAML_PATH_BYTES]; /* such as "memory.device" */
};

static struct dotted_path join_path(const char *parent, const char *key) {
    struct dotted_path path;
    snprintf(path.text, sizeof path.text, "%.200s.%s", parent, key);
    return path;
}

static enum status find_node(struct profile_reader *reader, const char *path,
                             const struct yaml_node **node) {
    const struct yaml_node *found = yaml_find(&reader->document, path);
    if (found != NULL) {
        *node = found;
        return OK;
    }
    char above[YAML_PATH_BYTES];
    snprintf(above, sizeof above, "%s", path);
    const struct yaml_node *nearest = NULL;
    for (char *dot = strrchr(above, '.'); dot != NULL && nearest == NULL;
         dot = strrchr(above, '.')) {
        *dot = '\0';
        nearest = yaml_find(&reader->document, above);
    }
    char subject[sizeof reader->fault->subject];
    nearest = nearest != NULL ? nearest : reader->document.root;
    snprintf(subject, sizeof subject, "%.280s:%d:%d", reader->document.source_name, nearest->line,
             nearest->column);
    return fault_set(reader->fault, STATUS_INPUT, subject, NULL, "%s is missing", path);
}

static enum status read_text(struct profile_reader *reader, const char *path, const char **value) {
    const struct yaml_node *node;
    TRY(find_node(reader, path, &node));
    return yaml_read_text(&reader->document, node, value, reader->fault);
}

static enum status read_integer(struct profile_reader *reader, const char *path,
                                struct yaml_range range, int *value) {
    const struct yaml_node *node;
    int64_t wide;
    TRY(find_node(reader, path, &node));
    TRY(yaml_read_i64(&reader->document, node, range, &wide, reader->fault));
    *value = (int)wide;
    return OK;
}

/* Set *value to the index of the key's text in `names`. */
static enum status read_choice(struct profile_reader *reader, const char *path,
                               const char *const *names, int name_count, int *value) {
    const char *text;
    TRY(read_text(reader, path, &text));
    char remedy[256];
    struct text list = text_over(remedy, sizeof remedy);
    text_add(&list, "one of");
    for (int i = 0; i < name_count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *value = i;
            return OK;
        }
        text_add(&list, "%s %s", i > 0 ? "," : "", names[i]);
    }
    return yaml_fault(&reader->document, yaml_find(&reader->document, path), reader->fault, remedy,
                      "is \"%.80s\", which is unknown", text);
}

static enum status read_figures(struct profile_reader *reader) {
    for (size_t i = 0; i < ARRAY_COUNT(FIGURES); i++) {
        struct target_figure *figure =
            (struct target_figure *)(void *)((char *)&reader->target + FIGURES[i].offset);
        const struct yaml_node *node;
        TRY(find_node(reader, join_path(FIGURES[i].path, "value").text, &node));
        TRY(yaml_read_f64(&reader->document, node, FIGURES[i].range, &figure->value,
                          reader->fault));
        TRY(read_text(reader, join_path(FIGURES[i].path, "source").text, &figure->source));
    }
    return OK;
}

/* Read the key `per`; if it is missing, the use counts once per process. */
static enum status read_use_scope(struct profile_reader *reader, const struct yaml_node *item,
                                  enum target_per *per) {
    const struct dotted_path path = join_path(item->path, "per");
    int value = PER_PROCESS;
    if (yaml_find(&reader->document, path.text) != NULL) {
        TRY(read_choice(reader, path.text, PER_KEYS, ARRAY_COUNT(PER_KEYS), &value));
    }
    *per = (enum target_per)value;
    return OK;
}

static enum status read_declared_use(struct profile_reader *reader, const struct yaml_node *item,
                                     struct target_declared_use *line) {
    const struct yaml_node *bytes;
    if (item->kind != YAML_MAP) {
        return yaml_fault(&reader->document, item, reader->fault, NULL,
                          "must be a map with the keys name, bytes and source");
    }
    TRY(read_text(reader, join_path(item->path, "name").text, &line->name));
    TRY(read_use_scope(reader, item, &line->per));
    TRY(read_text(reader, join_path(item->path, "source").text, &line->source));
    TRY(find_node(reader, join_path(item->path, "bytes").text, &bytes));
    return yaml_read_bytes(&reader->document, bytes, &line->bytes, reader->fault);
}

static enum status read_declared_uses(struct profile_reader *reader, const struct yaml_node *list,
                                      struct target_space *space) {
    if (list->kind != YAML_LIST) {
        return yaml_fault(&reader->document, list, reader->fault, "write [] if there are none",
                          "must be a list of {name, bytes, source}");
    }
    struct target_declared_use *lines =
        region_alloc(reader->region, (size_t)list->child_count + 1, sizeof *lines);
    uint64_t left = space->capacity_bytes;
    int count = 0;
    for (const struct yaml_node *item = list->child; item != NULL; item = item->sibling) {
        TRY(read_declared_use(reader, item, &lines[count]));
        if (lines[count].bytes >= left) {
            return yaml_fault(&reader->document, item, reader->fault, NULL,
                              "leaves no memory of the space for the arena");
        }
        left -= lines[count].bytes;
        count++;
    }
    space->declared = lines;
    space->declared_use_count = count;
    return OK;
}

static enum status read_space(struct profile_reader *reader, enum space index) {
    struct target_space *space = &reader->target.spaces[index];
    const struct dotted_path path = join_path("memory", SPACE_KEYS[index]);
    const struct yaml_node *node;
    if (reader->target.unified && index != SPACE_DEVICE) {
        space->capacity_source = "";
        node = yaml_find(&reader->document, path.text);
        return node == NULL
                   ? OK
                   : yaml_fault(&reader->document, node, reader->fault, "add it to memory.device",
                                "is the same memory as memory.device on a unified target");
    }
    TRY(find_node(reader, join_path(path.text, "capacity").text, &node));
    TRY(yaml_read_bytes(&reader->document, node, &space->capacity_bytes, reader->fault));
    if (space->capacity_bytes == 0) {
        return yaml_fault(&reader->document, node, reader->fault, NULL, "must not be 0");
    }
    TRY(read_text(reader, join_path(path.text, "source").text, &space->capacity_source));
    TRY(find_node(reader, join_path(path.text, "declared").text, &node));
    return read_declared_uses(reader, node, space);
}

static enum status read_alignment(struct profile_reader *reader) {
    int bytes = 0;
    TRY(read_integer(reader, "alignment", (struct yaml_range){ARENA_ALIGN_BYTES, ALIGN_BYTES_MAX},
                     &bytes));
    reader->target.align_bytes = (uint32_t)bytes;
    return (bytes & (bytes - 1)) == 0
               ? OK
               : yaml_fault(&reader->document, yaml_find(&reader->document, "alignment"),
                            reader->fault, NULL, "is %d, not a power of two", bytes);
}

static enum status read_general_keys(struct profile_reader *reader) {
    struct target *target = &reader->target;
    const struct yaml_node *unified;
    int kind = 0;
    TRY(read_text(reader, "name", &target->name));
    TRY(read_text(reader, "description", &target->description));
    TRY(read_choice(reader, "kind", KIND_KEYS, ARRAY_COUNT(KIND_KEYS), &kind));
    target->kind = (enum target_kind)kind;
    TRY(find_node(reader, "unified", &unified));
    TRY(yaml_read_bool(&reader->document, unified, &target->unified, reader->fault));
    TRY(read_alignment(reader));
    return read_integer(reader, "threads", (struct yaml_range){1, THREADS_MAX}, &target->threads);
}

static enum status read_compute_capability(struct profile_reader *reader) {
    const char *text;
    int used = 0;
    int major;
    int minor;
    TRY(read_text(reader, "capabilities.compute_capability", &text));
    if (strlen(text) > 4 || sscanf(text, "%2d.%1d%n", &major, &minor, &used) != 2 ||
        text[used] != '\0' || major < 1 || minor < 0 || major > COMPUTE_MAJOR_MAX) {
        return yaml_fault(
            &reader->document, yaml_find(&reader->document, "capabilities.compute_capability"),
            reader->fault, NULL, "is \"%.80s\"; write MAJOR.MINOR, such as 8.6", text);
    }
    reader->target.compute_major = major;
    reader->target.compute_minor = minor;
    return OK;
}

static enum status read_capabilities(struct profile_reader *reader) {
    static const char *const OF_CUDA[] = {"capabilities.compute_capability",
                                          "capabilities.multiprocessors"};
    static const char *const OF_CPU[] = {"capabilities.isa"};
    bool cuda = reader->target.kind == TARGET_CUDA;
    const char *const *foreign = cuda ? OF_CPU : OF_CUDA;
    size_t foreign_count = cuda ? ARRAY_COUNT(OF_CPU) : ARRAY_COUNT(OF_CUDA);
    for (size_t i = 0; i < foreign_count; i++) {
        const struct yaml_node *node = yaml_find(&reader->document, foreign[i]);
        if (node != NULL) {
            return yaml_fault(&reader->document, node, reader->fault, NULL,
                              "does not apply to a %s target", KIND_KEYS[reader->target.kind]);
        }
    }
    if (cuda) {
        reader->target.isa = "";
        TRY(read_compute_capability(reader));
        return read_integer(reader, "capabilities.multiprocessors",
                            (struct yaml_range){1, MULTIPROCESSORS_MAX},
                            &reader->target.multiprocessor_count);
    }
    int isa = 0;
    TRY(read_choice(reader, "capabilities.isa", ISA_KEYS, ARRAY_COUNT(ISA_KEYS), &isa));
    reader->target.isa = ISA_KEYS[isa];
    return OK;
}

enum status profile_read(const char *text, size_t length, const char *subject,
                         struct region *region, struct target *target, struct fault *fault) {
    struct profile_reader reader = {.region = region, .fault = fault};
    TRY(yaml_open(text, length, subject, region, &reader.document, fault));
    TRY(yaml_reject_unknown_keys(&reader.document, KNOWN, ARRAY_COUNT(KNOWN), fault));
    TRY(read_general_keys(&reader));
    for (int space = 0; space < SPACE_COUNT; space++) {
        TRY(read_space(&reader, (enum space)space));
    }
    TRY(read_figures(&reader));
    TRY(read_capabilities(&reader));
    reader.target.origin = reader.document.source_name;
    *target = reader.target;
    return OK;
}

/* A JSON string is a double-quoted YAML string. */
static void write_space(const struct target_space *space, const char *key, struct text *text) {
    text_add(text, "  %s:\n    capacity: %llu\n    source: ", key,
             (unsigned long long)space->capacity_bytes);
    text_add_json(text, space->capacity_source);
    text_add(text, "\n    declared:%s\n", space->declared_use_count == 0 ? " []" : "");
    for (int i = 0; i < space->declared_use_count; i++) {
        text_add(text, "      - name: ");
        text_add_json(text, space->declared[i].name);
        text_add(text, "\n        bytes: %llu\n        source: ",
                 (unsigned long long)space->declared[i].bytes);
        text_add_json(text, space->declared[i].source);
        if (space->declared[i].per != PER_PROCESS) {
            text_add(text, "\n        per: %s", PER_KEYS[space->declared[i].per]);
        }
        text_add(text, "\n");
    }
}

static void write_figures(const struct target *target, struct text *text) {
    char group[32] = "";
    for (size_t i = 0; i < ARRAY_COUNT(FIGURES); i++) {
        const struct target_figure *figure =
            (const struct target_figure *)(const void *)((const char *)target + FIGURES[i].offset);
        size_t group_length = strcspn(FIGURES[i].path, ".");
        if (strncmp(group, FIGURES[i].path, group_length) != 0) {
            snprintf(group, sizeof group, "%.*s", (int)group_length, FIGURES[i].path);
            text_add(text, "%s:\n", group);
        }
        text_add(text, "  %s: {value: %.9g, source: ", FIGURES[i].path + group_length + 1,
                 figure->value);
        text_add_json(text, figure->source);
        text_add(text, "}\n");
    }
}

void profile_write(const struct target *target, struct text *text) {
    text_add(text, "name: ");
    text_add_json(text, target->name);
    text_add(text, "\ndescription: ");
    text_add_json(text, target->description);
    text_add(text, "\nkind: %s\nunified: %s\nalignment: %u\nthreads: %d\nmemory:\n",
             KIND_KEYS[target->kind], target->unified ? "true" : "false", target->align_bytes,
             target->threads);
    for (int space = 0; space < SPACE_COUNT; space++) {
        if (target->spaces[space].capacity_bytes > 0) {
            write_space(&target->spaces[space], SPACE_KEYS[space], text);
        }
    }
    write_figures(target, text);
    if (target->kind == TARGET_CPU) {
        text_add(text, "capabilities:\n  isa: %s\n", target->isa);
    } else {
        text_add(text, "capabilities:\n  compute_capability: %d.%d\n  multiprocessors: %d\n",
                 target->compute_major, target->compute_minor, target->multiprocessor_count);
    }
}
