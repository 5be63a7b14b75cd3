#include "runtime/checkpoint/weight_files.h"

#include "base/file.h"
#include "base/json.h"
#include "runtime/checkpoint/weights.h"

#include <stdio.h>
#include <string.h>

static const char SINGLE_NAME[] = "model.safetensors";
static const char INDEX_NAME[] = "model.safetensors.index.json";

struct file_finder {
    const char *folder;
    struct region *region;
    struct weight_files *files;
    struct fault *fault;
};

static const char *path_in_folder(struct file_finder *finder, const char *name) {
    char path[PATH_BYTES];
    path_join(finder->folder, name, path, sizeof path);
    return region_copy_text(finder->region, path);
}

/* Whether `name` is a file name without a folder. The index is untrusted, so it may refer only to
 * files in its own folder. */
static bool is_plain_name(const char *name) {
    size_t length = strlen(name);
    return length > 0 && length < NAME_BYTES && name[0] != '.' && strchr(name, '/') == NULL;
}

static int find_file(const struct file_finder *finder, const char *path) {
    /* backwards: the newest file is the likeliest, as an index lists a file's tensors together */
    for (int i = finder->files->count - 1; i >= 0; i--) {
        if (strcmp(finder->files->tables[i].path, path) == 0) {
            return i;
        }
    }
    return -1;
}

static enum status add_member_file(struct file_finder *finder, const struct json_node *member) {
    const char *name = NULL;
    TRY(json_as_text(member, &name, finder->fault));
    if (!is_plain_name(name)) {
        return json_fault(member, finder->fault, "the index must list files in the model folder",
                          "is not a plain file name");
    }
    char path[PATH_BYTES];
    path_join(finder->folder, name, path, sizeof path);
    if (find_file(finder, path) >= 0) {
        return OK;
    }
    if (finder->files->count == WEIGHT_FILES_MAX) {
        return json_fault(member, finder->fault, NULL, "more than %d files", WEIGHT_FILES_MAX);
    }
    finder->files->tables[finder->files->count++].path = region_copy_text(finder->region, path);
    return OK;
}

static enum status open_tables(struct file_finder *finder) {
    for (int i = 0; i < finder->files->count; i++) {
        struct safetensors *file = &finder->files->tables[i];
        enum status status = safetensors_open(file->path, finder->region, file, finder->fault);
        if (status != OK && finder->fault->remedy[0] == '\0') {
            snprintf(finder->fault->remedy, sizeof finder->fault->remedy,
                     "download the model again: the download is incomplete");
        }
        TRY(status);
        safetensors_close(file);
    }
    return OK;
}

/* Checks that every tensor of the index is in the file that the index specifies for it. */
static enum status check_index(struct file_finder *finder, const struct json_node *map) {
    struct json_walk walk = json_walk_over(map);
    while (json_walk_next(&walk)) {
        const char *name = NULL;
        TRY(json_as_text(&walk.member, &name, finder->fault));
        char path[PATH_BYTES];
        path_join(finder->folder, name, path, sizeof path);
        const struct safetensors *file = &finder->files->tables[find_file(finder, path)];
        if (safetensors_find(file, walk.member.key) == NULL) {
            return json_fault(&walk.member, finder->fault, "download the model again",
                              "refers to %s, which does not contain this tensor", name);
        }
    }
    return OK;
}

static enum status read_weight_index_map(struct file_finder *finder,
                                         const struct json_document *document) {
    struct json_node map;
    TRY(json_require(&document->root, "weight_map", &map, finder->fault));
    TRY(json_as_object(&map, finder->fault));
    struct json_walk walk = json_walk_over(&map);
    while (json_walk_next(&walk)) {
        TRY(add_member_file(finder, &walk.member));
    }
    TRY(open_tables(finder));
    return check_index(finder, &map);
}

static enum status read_weight_index(struct file_finder *finder, const char *path) {
    size_t length = 0;
    char *text;
    struct json_document document;
    TRY(file_read_into_region(path, WEIGHT_INDEX_BYTES_MAX, finder->region, &text, &length,
                              finder->fault));
    TRY(json_parse(text, length, WEIGHT_INDEX_BYTES_MAX, path, &document, finder->fault));
    enum status status = read_weight_index_map(finder, &document);
    json_finish(&document);
    return status;
}

static enum status find_files(struct file_finder *finder) {
    const char *single = path_in_folder(finder, SINGLE_NAME);
    const char *index = path_in_folder(finder, INDEX_NAME);
    if (file_exists(single)) {
        finder->files->tables[finder->files->count++].path = single;
        return open_tables(finder);
    }
    if (file_exists(index)) {
        return read_weight_index(finder, index);
    }
    bool pickled = file_exists(path_in_folder(finder, "pytorch_model.bin")) ||
                   file_exists(path_in_folder(finder, "pytorch_model.bin.index.json"));
    if (pickled) {
        return fault_set(finder->fault, STATUS_INPUT, finder->folder,
                         "convert it once: save_pretrained of transformers writes safetensors",
                         "pytorch_model.bin is pickled Python, which Skep never runs; weights are "
                         "read from safetensors");
    }
    return fault_set(finder->fault, STATUS_INPUT, finder->folder,
                     "download the weights, or start from random ones with init=random",
                     "has no %s and no %s", SINGLE_NAME, INDEX_NAME);
}

enum status weight_files_open(const char *folder, struct region *region, struct weight_files *files,
                              struct fault *fault) {
    struct weight_files found = {.tables =
                                     region_alloc(region, WEIGHT_FILES_MAX, sizeof *found.tables)};
    struct file_finder finder = {folder, region, &found, fault};
    TRY(find_files(&finder));
    *files = found;
    return OK;
}
