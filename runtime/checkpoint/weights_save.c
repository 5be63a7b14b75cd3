/* Exports parameters to a Hugging Face model folder, which is laid out once and written often. */
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "runtime/checkpoint/config_text.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/joint_write.h"
#include "runtime/checkpoint/weights.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    /* size of the buffer for the name of a weight file */
    SHARD_NAME_BYTES = 40,
    /* maximum size of a line of the index */
    INDEX_LINE_BYTES = NAME_BYTES * 6 + SHARD_NAME_BYTES + 16,
    COPIED_BYTES = 1 << 20 /* disk space for the files that are copied from the model's folder */
};

static const char INDEX_NAME[] = "model.safetensors.index.json";
static const char CONFIG_NAME[] = "config.json";

/* Files copied from the model's folder: tokenizer, chat template, generation defaults. */
static const char *const COPIED_NAMES[] = {"generation_config.json",
                                           "tokenizer.json",
                                           "tokenizer_config.json",
                                           "tokenizer.model",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "vocab.txt",
                                           "chat_template.jinja",
                                           "chat_template.json"};

static int64_t source_bytes(const struct tensor_source *source) {
    return spec_elements(&source->tensor) * dtype_bytes(source->tensor.dtype);
}

/* Returns the index after the last source of the file that begins with source `first`. The file has
 * as many sources as fit into `bytes_max`, at least one. */
static int file_sources_end(const struct tensor_source *sources, int count, int first,
                            int64_t bytes_max) {
    int64_t bytes = source_bytes(&sources[first]);
    int end = first + 1;
    while (end < count && bytes + source_bytes(&sources[end]) <= bytes_max) {
        bytes += source_bytes(&sources[end]);
        end++;
    }
    return end;
}

static const char *shard_name(struct region *region, int file, int file_count) {
    char buffer[SHARD_NAME_BYTES];
    struct text name = text_over(buffer, sizeof buffer);
    text_add(&name, "model-%05d-of-%05d.safetensors", file + 1, file_count);
    return region_copy_text(region, file_count == 1 ? "model.safetensors" : buffer);
}

static void plan_files(const struct tensor_source *sources, int count, int64_t bytes_max,
                       struct region *region, struct weights_save *save) {
    save->file_count = 0;
    for (int first = 0; first < count; first = file_sources_end(sources, count, first, bytes_max)) {
        save->file_count++;
    }
    save->files = region_alloc(region, (size_t)save->file_count, sizeof *save->files);
    int first = 0;
    for (int file = 0; file < save->file_count; file++) {
        int end = file_sources_end(sources, count, first, bytes_max);
        tensor_file_plan(shard_name(region, file, save->file_count), &sources[first], end - first,
                         region, &save->files[file]);
        save->bytes += save->files[file].bytes;
        first = end;
    }
}

static void plan_index(const struct tensor_source *sources, int count, struct region *region,
                       struct weights_save *save) {
    size_t capacity = (size_t)(count + 4) * INDEX_LINE_BYTES;
    struct text text = text_over(region_alloc(region, capacity, 1), capacity);
    int64_t bytes = 0;
    int64_t elements = 0;
    for (int i = 0; i < count; i++) {
        bytes += source_bytes(&sources[i]);
        elements += spec_elements(&sources[i].tensor);
    }
    text_add(&text,
             "{\n  \"metadata\": {\n    \"total_parameters\": %lld,\n    \"total_size\": %lld\n"
             "  },\n  \"weight_map\": {",
             (long long)elements, (long long)bytes);
    const char *separator = "\n    ";
    for (int file = 0; file < save->file_count; file++) {
        for (int i = 0; i < save->files[file].header.count; i++) {
            text_add(&text, "%s", separator);
            text_add_json(&text, save->files[file].header.entries[i].name);
            text_add(&text, ": \"%s\"", save->files[file].name);
            separator = ",\n    ";
        }
    }
    text_add(&text, "\n  }\n}\n");
    ASSERT(!text.truncated);
    save->index_text = text.bytes;
    save->index_length = text.length;
    save->bytes += (int64_t)text.length;
}

static bool is_export_name(const char *name) {
    for (size_t i = 0; i < ARRAY_COUNT(COPIED_NAMES); i++) {
        if (strcmp(name, COPIED_NAMES[i]) == 0) {
            return true;
        }
    }
    const char *ending = ".safetensors";
    size_t length = strlen(name);
    bool weights = strncmp(name, "model", 5) == 0 && length > strlen(ending) &&
                   strcmp(name + length - strlen(ending), ending) == 0;
    return weights || strcmp(name, INDEX_NAME) == 0 || strcmp(name, CONFIG_NAME) == 0;
}

static bool is_same_folder(const char *a, const char *b) {
    struct stat one;
    struct stat two;
    return stat(a, &one) == 0 && stat(b, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

static enum status check_only_export_files(const char *folder, struct folder_walk *walk,
                                           struct fault *fault) {
    while (folder_walk_next(walk)) {
        if (walk->is_folder || !is_export_name(walk->name)) {
            return fault_set(fault, STATUS_INPUT, folder, "choose a different folder",
                             "contains '%s', which is not part of an exported model; an export "
                             "replaces all files of the folder",
                             walk->name);
        }
    }
    return OK;
}

static bool is_plain_folder(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Checks that save->folder is a folder or does not exist. The new folder is renamed to that path,
 * and the kernel rejects such a rename if a file or a link has the path. */
static enum status check_export_is_folder(const struct weights_save *save, struct fault *fault) {
    struct stat info;
    return lstat(save->folder, &info) != 0 || is_plain_folder(save->folder)
               ? OK
               : fault_set(fault, STATUS_INPUT, save->folder,
                           "remove it, or choose a different folder for the export",
                           S_ISLNK(info.st_mode) ? "is a symbolic link, not a folder"
                                                 : "is a file, not a folder");
}

/* Checks that the folder contains only an earlier export, because an export replaces the whole
 * folder. */
static enum status check_destination(const struct weights_save *save, struct fault *fault) {
    if (!file_exists(save->folder)) {
        /* file_exists is false for a symbolic link without a target, which is rejected here */
        return check_export_is_folder(save, fault);
    }
    if (save->model_folder[0] != '\0' && is_same_folder(save->folder, save->model_folder)) {
        return fault_set(fault, STATUS_INPUT, save->folder, "choose a different folder",
                         "is the folder that the model was read from");
    }
    TRY(check_export_is_folder(save, fault));
    struct folder_walk walk;
    TRY(folder_walk_begin(save->folder, &walk, fault));
    enum status status = check_only_export_files(save->folder, &walk, fault);
    folder_walk_end(&walk);
    return status;
}

/* Checks before the first step that the folder can be created. The export is written only after the
 * last step, when the fault would come too late. */
static enum status check_parent(const struct weights_save *save, struct fault *fault) {
    char parent[PATH_BYTES];
    file_parent_folder(save->folder, parent, sizeof parent);
    enum status status = file_make_folders(parent, fault);
    if (status == OK && access(parent, W_OK) != 0) {
        status = fault_set_errno(fault, STATUS_FAILED, parent, "cannot create files in this folder",
                                 errno);
    }
    if (status == STATUS_FAILED) { /* nothing has changed */
        status = fault->status = STATUS_INPUT;
        snprintf(fault->remedy, sizeof fault->remedy, "choose a different folder for the export");
    }
    return status;
}

/* "/a/b/" becomes "/a/b", so that the temporary folders are next to this folder, not in it. */
static void set_folder_paths(const struct weights_save_args *args, struct weights_save *save) {
    size_t length = strlen(args->folder);
    ASSERT(length > 0 && length < PATH_BYTES);
    memcpy(save->folder, args->folder, length + 1);
    while (length > 1 && save->folder[length - 1] == '/') {
        save->folder[--length] = '\0';
    }
    folder_sibling_path(save->folder, ".tmp-", save->temporary, sizeof save->temporary);
    folder_sibling_path(save->folder, ".old-", save->aside, sizeof save->aside);
}

static enum status plan_export(const struct weights_save_args *args, struct region *region,
                               struct weights_save *save, struct fault *fault) {
    size_t capacity = args->config_length + CONFIG_TEXT_GROWTH;
    char *config = region_alloc(region, capacity, 1);
    TRY(config_text_set_dtype(args->config_text, args->config_length, args->dtype, config, capacity,
                              &save->config_length, fault));
    save->config_text = config;
    save->bytes = (int64_t)save->config_length;
    int count = args->set.tensor_count;
    struct tensor_source *sources = region_alloc(region, (size_t)count, sizeof *sources);
    tensor_sources_init(&args->set, region, sources);
    ASSERT(args->ranks.world > 1 || tensor_sources_cover_tensors(sources, count));
    for (int i = 0; i < count; i++) {
        sources[i].tensor.dtype = args->dtype;
    }
    int64_t bytes_max = args->shard_bytes_max > 0 ? args->shard_bytes_max : WEIGHT_SHARD_BYTES;
    plan_files(sources, count, bytes_max, region, save);
    save->index_text = NULL;
    if (save->file_count > 1) {
        plan_index(sources, count, region, save);
    }
    return OK;
}

static enum status check_folders(const struct weights_save *save, struct fault *fault) {
    TRY(check_destination(save, fault));
    return check_parent(save, fault);
}

enum status weights_save_plan(const struct weights_save_args *args, struct region *region,
                              struct weights_save *save, struct fault *fault) {
    set_folder_paths(args, save);
    save->model_folder = region_copy_text(region, args->model_folder);
    save->ranks = args->ranks;
    enum status status = checkpoint_is_rank0(&args->ranks) ? check_folders(save, fault) : OK;
    if (status == OK) {
        status = plan_export(args, region, save, fault);
    }
    return checkpoint_agree(&args->ranks, status, fault);
}

static enum status publish_folder(const void *context, const struct staging *staging,
                                  bool *replaced, struct fault *fault) {
    const struct weights_save *save = context;
    if (save->index_text != NULL) {
        TRY(folder_write_file(save->temporary, INDEX_NAME, save->index_text, save->index_length,
                              fault));
    }
    TRY(folder_write_file(save->temporary, CONFIG_NAME, save->config_text, save->config_length,
                          fault));
    for (size_t i = 0; i < ARRAY_COUNT(COPIED_NAMES) && save->model_folder[0] != '\0'; i++) {
        TRY(folder_copy_file(save->model_folder, save->temporary, COPIED_NAMES[i], staging->memory,
                             staging->bytes, fault));
    }
    TRY(file_sync_folder(save->temporary, fault));
    return folder_replace(save->temporary, save->folder, save->aside, replaced, fault);
}

/* Removes an earlier export if the disk has no space for the new one beside it. The run's disk
 * budget counts only one export. No parameters are lost if the new export fails, because a snapshot
 * contains them. */
static void free_disk_space(const struct weights_save *save) {
    struct statvfs space;
    struct fault fault;
    enum status status = folder_remove(save->temporary, &fault);
    if (!is_plain_folder(save->folder) || statvfs(save->folder, &space) != 0 ||
        (uint64_t)space.f_bavail * space.f_frsize >= (uint64_t)save->bytes + COPIED_BYTES) {
        return;
    }
    log_line(LOG_INFO, "%s: removing the earlier export, which leaves no space for the new one",
             save->folder);
    status = folder_remove(save->folder, &fault);
    (void)status; /* if a folder cannot be removed, writing reports the full disk */
}

enum status weights_save_run(const struct weights_save *save, const struct staging *staging,
                             struct fault *fault) {
    const struct joint_write joint = {.ranks = &save->ranks,
                                      .folder = save->temporary,
                                      .files = save->files,
                                      .file_count = save->file_count,
                                      .publish_folder = publish_folder,
                                      .context = save};
    if (checkpoint_is_rank0(&save->ranks)) {
        free_disk_space(save);
    }
    activity_begin("writing the model", (uint64_t)save->bytes);
    enum status status = joint_write_run(&joint, staging, fault);
    activity_end(false);
    return status;
}
