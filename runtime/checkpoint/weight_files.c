/* Which files hold a model's weights, with their tables. */
#include "runtime/checkpoint/weight_files.h"

#include "base/file.h"
#include "base/json.h"
#include "runtime/checkpoint/weights.h"

#include <string.h>
#include <unistd.h>

static const char SINGLE_NAME[] = "model.safetensors";
static const char INDEX_NAME[] = "model.safetensors.index.json";

struct reading {
    const char *folder;
    struct region *region;
    struct weight_files *files;
    struct fault *fault;
};

static const char *path_in(struct reading *reading, const char *name) {
    char path[PATH_BYTES];
    file_join(reading->folder, name, path, sizeof path);
    return region_copy_text(reading->region, path);
}

/* The index comes from outside: it may name files of its own folder only. */
static bool is_plain_name(const char *name) {
    size_t length = strlen(name);
    return length > 0 && length < NAME_BYTES && name[0] != '.' && strchr(name, '/') == NULL;
}

static int file_of(const struct reading *reading, const char *path) {
    for (int i = reading->files->count - 1; i >= 0; i--) { /* an index names a file in long runs */
        if (strcmp(reading->files->tables[i].path, path) == 0) {
            return i;
        }
    }
    return -1;
}

static enum status list_member(struct reading *reading, const struct json_node *member) {
    const char *name = NULL;
    TRY(json_as_text(member, &name, reading->fault));
    if (!is_plain_name(name)) {
        return json_fault(member, reading->fault, "name a file of the model folder",
                          "is not a file's name");
    }
    char path[PATH_BYTES];
    file_join(reading->folder, name, path, sizeof path);
    if (file_of(reading, path) >= 0) {
        return OK;
    }
    if (reading->files->count == WEIGHT_FILES_MAX) {
        return json_fault(member, reading->fault, NULL, "more than %d files", WEIGHT_FILES_MAX);
    }
    reading->files->tables[reading->files->count++].path = region_copy_text(reading->region, path);
    return OK;
}

static enum status open_tables(struct reading *reading) {
    for (int i = 0; i < reading->files->count; i++) {
        struct safetensors *file = &reading->files->tables[i];
        TRY(safetensors_open(file->path, reading->region, file, reading->fault));
        safetensors_close(file);
    }
    return OK;
}

/* Every name of the index must be where the index says. */
static enum status check_index(struct reading *reading, const struct json_node *map) {
    struct json_walk walk = json_walk_over(map);
    while (json_walk_next(&walk)) {
        const char *name = NULL;
        TRY(json_as_text(&walk.member, &name, reading->fault));
        char path[PATH_BYTES];
        file_join(reading->folder, name, path, sizeof path);
        const struct safetensors *file = &reading->files->tables[file_of(reading, path)];
        if (safetensors_find(file, walk.member.key) == NULL) {
            return json_fault(&walk.member, reading->fault, "fetch the model again",
                              "names %s, which has no such tensor", name);
        }
    }
    return OK;
}

static enum status read_index_map(struct reading *reading, const struct json_document *document) {
    struct json_node map;
    bool present = false;
    enum status status =
        json_get_object(&document->root, "weight_map", &map, &present, reading->fault);
    if (status != OK) {
        return status;
    }
    if (!present) {
        return json_fault_member(&document->root, "weight_map", reading->fault, "is missing");
    }
    struct json_walk walk = json_walk_over(&map);
    while (status == OK && json_walk_next(&walk)) {
        status = list_member(reading, &walk.member);
    }
    if (status == OK) {
        status = open_tables(reading);
    }
    return status == OK ? check_index(reading, &map) : status;
}

static enum status read_index(struct reading *reading, const char *path) {
    int fd = -1;
    int64_t bytes = 0;
    TRY(file_open_read(path, &fd, &bytes, reading->fault));
    close(fd);
    if (bytes > WEIGHT_INDEX_BYTES_MAX) {
        return fault_set(reading->fault, STATUS_INPUT, path, NULL,
                         "%lld bytes, at most %d are read", (long long)bytes,
                         WEIGHT_INDEX_BYTES_MAX);
    }
    size_t length = 0;
    char *text = region_alloc(reading->region, (size_t)bytes + 2, 1);
    struct json_document document;
    enum status status = file_read_text(path, text, (size_t)bytes + 2, &length, reading->fault);
    if (status == OK) {
        status = json_parse(text, length, WEIGHT_INDEX_BYTES_MAX, path, &document, reading->fault);
    }
    if (status == OK) {
        status = read_index_map(reading, &document);
        json_finish(&document);
    }
    return status;
}

static enum status find_files(struct reading *reading) {
    const char *single = path_in(reading, SINGLE_NAME);
    const char *index = path_in(reading, INDEX_NAME);
    if (file_exists(single)) {
        reading->files->tables[reading->files->count++].path = single;
        return open_tables(reading);
    }
    if (file_exists(index)) {
        return read_index(reading, index);
    }
    bool pickled = file_exists(path_in(reading, "pytorch_model.bin")) ||
                   file_exists(path_in(reading, "pytorch_model.bin.index.json"));
    if (pickled) {
        return fault_set(reading->fault, STATUS_INPUT, reading->folder,
                         "convert it once: save_pretrained of transformers writes safetensors",
                         "pytorch_model.bin is pickled Python, which is never run; weights are "
                         "read from safetensors");
    }
    return fault_set(reading->fault, STATUS_INPUT, reading->folder,
                     "fetch the weights, or start from init=random", "has no %s and no %s",
                     SINGLE_NAME, INDEX_NAME);
}

enum status weight_files_open(const char *folder, struct region *region, struct weight_files *files,
                              struct fault *fault) {
    struct weight_files found = {.tables =
                                     region_alloc(region, WEIGHT_FILES_MAX, sizeof *found.tables)};
    struct reading reading = {folder, region, &found, fault};
    TRY(find_files(&reading));
    *files = found;
    return OK;
}
