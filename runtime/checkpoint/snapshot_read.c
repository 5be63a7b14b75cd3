/* Finding, judging and loading snapshots. */
#include "base/file.h"
#include "base/log.h"
#include "runtime/checkpoint/file_hash.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/snapshot_files.h"
#include "runtime/checkpoint/snapshot_json.h"
#include "runtime/checkpoint/snapshot_path.h"

#include <stdlib.h>
#include <string.h>

enum { HASH_BUFFER_BYTES = 1 << 20 };

enum status snapshot_read(const char *path, struct region *region, struct snapshot *snapshot,
                          struct fault *fault) {
    char json_path[PATH_BYTES];
    struct region scratch = {0};
    struct snapshot read;
    size_t length = 0;
    file_join(path, SNAPSHOT_JSON_NAME, json_path, sizeof json_path);
    char *json = region_alloc(&scratch, SNAPSHOT_JSON_BYTES_MAX, 1);
    enum status status = file_read_text(json_path, json, SNAPSHOT_JSON_BYTES_MAX, &length, fault);
    if (status == OK) {
        status = snapshot_json_parse(json, length, json_path, region, &read, fault);
    }
    region_finish(&scratch);
    if (status == OK) {
        status = snapshot_check_sizes(path, &read, fault);
    }
    if (status == OK) {
        read.path = region_copy_text(region, path);
        *snapshot = read;
    }
    return status;
}

static enum status check_hash(const char *path, const struct snapshot_file *file, void *buffer,
                              struct fault *fault) {
    char file_path[PATH_BYTES];
    struct hash hash;
    int64_t bytes = 0;
    file_join(path, file->name, file_path, sizeof file_path);
    TRY(file_hash(file_path, buffer, HASH_BUFFER_BYTES, &hash, &bytes, fault));
    if (!hash_equal(&hash, &file->hash)) {
        return fault_set(fault, STATUS_INPUT, file_path, NULL,
                         "damaged: its bytes do not have the hash they were saved with");
    }
    return OK;
}

static enum status check_hashes(const struct snapshot *snapshot, struct fault *fault) {
    struct region scratch = {0};
    void *buffer = region_alloc(&scratch, HASH_BUFFER_BYTES, 1);
    enum status status = OK;
    for (int i = 0; i < snapshot->file_count && status == OK; i++) {
        status = check_hash(snapshot->path, &snapshot->files[i], buffer, fault);
    }
    region_finish(&scratch);
    return status;
}

enum status snapshot_verify(const char *path, struct region *region, struct snapshot *snapshot,
                            struct fault *fault) {
    struct snapshot read;
    TRY(snapshot_read(path, region, &read, fault));
    TRY(check_hashes(&read, fault));
    *snapshot = read;
    return OK;
}

static int by_sequence(const void *a, const void *b) {
    const struct snapshot_listed *left = a;
    const struct snapshot_listed *right = b;
    if (left->readable != right->readable) {
        return left->readable ? 1 : -1;
    }
    if (left->readable && left->snapshot.sequence != right->snapshot.sequence) {
        return left->snapshot.sequence < right->snapshot.sequence ? -1 : 1;
    }
    return strcmp(left->snapshot.path, right->snapshot.path);
}

/* A snapshot that was set aside counts only while nothing has taken its place. */
static bool is_candidate(const char *folder, const struct folder_walk *walk) {
    enum snapshot_path_kind place;
    int64_t step;
    char done[PATH_BYTES];
    if (!walk->is_folder || !snapshot_parse_name(walk->name, &place, &step)) {
        return false;
    }
    snapshot_path(folder, SNAPSHOT_DONE, step, done);
    return place == SNAPSHOT_DONE || (place == SNAPSHOT_ASIDE && !file_exists(done));
}

static enum status list_paths(const char *folder, struct region *region, const char **paths,
                              int *count, struct fault *fault) {
    struct folder_walk walk;
    enum status status = folder_walk_begin(folder, &walk, fault);
    if (status != OK) {
        return status;
    }
    while (status == OK && folder_walk_next(&walk)) {
        if (!is_candidate(folder, &walk)) {
            continue;
        }
        if (*count == SNAPSHOTS_MAX) {
            status = fault_set(fault, STATUS_INPUT, folder, "move older snapshots elsewhere",
                               "holds more than %d snapshots", SNAPSHOTS_MAX);
        } else {
            char path[PATH_BYTES];
            file_join(folder, walk.name, path, sizeof path);
            paths[(*count)++] = region_copy_text(region, path);
        }
    }
    folder_walk_end(&walk);
    return status;
}

enum status snapshot_list(const char *folder, struct region *region,
                          struct snapshot_listed **listed, int *count, struct fault *fault) {
    const char **paths = region_alloc(region, SNAPSHOTS_MAX, sizeof *paths);
    int found = 0;
    if (file_exists(folder)) {
        TRY(list_paths(folder, region, paths, &found, fault));
    }
    struct snapshot_listed *list = region_alloc(region, (size_t)found, sizeof *list);
    for (int i = 0; i < found; i++) {
        list[i].readable = snapshot_read(paths[i], region, &list[i].snapshot, &list[i].fault) == OK;
        list[i].snapshot.path = paths[i];
    }
    if (found > 0) {
        qsort(list, (size_t)found, sizeof *list, by_sequence);
    }
    *listed = list;
    *count = found;
    return OK;
}

static void log_damaged(const struct snapshot_listed *listed, const struct fault *fault) {
    log_line(LOG_ERROR, "snapshot %s is not used: %s: %s", listed->snapshot.path, fault->subject,
             fault->reason);
}

enum status snapshot_find_newest(const char *folder, struct region *region,
                                 struct snapshot *snapshot, bool *found, struct fault *fault) {
    struct snapshot_listed *listed = NULL;
    int count = 0;
    TRY(snapshot_list(folder, region, &listed, &count, fault));
    for (int i = count - 1; i >= 0; i--) {
        if (!listed[i].readable) {
            log_damaged(&listed[i], &listed[i].fault);
        }
    }
    for (int i = count - 1; i >= 0 && listed[i].readable; i--) {
        struct fault damage;
        if (check_hashes(&listed[i].snapshot, &damage) == OK) {
            *snapshot = listed[i].snapshot;
            *found = true;
            return OK;
        }
        log_damaged(&listed[i], &damage);
    }
    if (count > 0) {
        return fault_set(fault, STATUS_INPUT, folder,
                         "restore one from a copy, or start again with --fresh",
                         "holds %d snapshots, none of them good", count);
    }
    *found = false;
    return OK;
}

enum status snapshot_load(const struct snapshot *snapshot, const struct snapshot_group *groups,
                          int group_count, struct fault *fault) {
    struct region region = {0};
    struct tensor_file *files = region_alloc(&region, SNAPSHOT_FILES_MAX, sizeof *files);
    int file_count = snapshot_plan_files(groups, group_count, &region, files);
    enum status status = OK;
    for (int i = 0; i < file_count && status == OK; i++) {
        status = tensor_file_read(&files[i], snapshot->path, fault);
    }
    region_finish(&region);
    return status;
}

bool snapshot_find_value(const struct snapshot *snapshot, const char *name, uint64_t *value) {
    for (int i = 0; i < snapshot->value_count; i++) {
        if (strcmp(snapshot->values[i].name, name) == 0) {
            *value = snapshot->values[i].value;
            return true;
        }
    }
    return false;
}
