/* Finds, checks and loads snapshots. */
#include "base/file.h"
#include "base/log.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/snapshot_files.h"
#include "runtime/checkpoint/snapshot_json.h"

#include <stdlib.h>
#include <string.h>

/* number of bytes of a file that are read and hashed at a time */
enum { HASH_BUFFER_BYTES = 1 << 20 };

static enum status read_json(const char *path, struct region *scratch, struct region *region,
                             struct snapshot *snapshot, struct fault *fault) {
    char json_path[PATH_BYTES];
    char *json;
    size_t length;
    path_join(path, SNAPSHOT_JSON_NAME, json_path, sizeof json_path);
    TRY(file_read_into_region(json_path, SNAPSHOT_JSON_BYTES_MAX - 1, scratch, &json, &length,
                              fault));
    TRY(snapshot_json_parse(json, length, json_path, region, snapshot, fault));
    return snapshot_check_sizes(path, snapshot, fault);
}

enum status snapshot_read(const char *path, struct region *region, struct snapshot *snapshot,
                          struct fault *fault) {
    struct region scratch = {0};
    struct snapshot read;
    enum status status = read_json(path, &scratch, region, &read, fault);
    region_finish(&scratch);
    TRY(status);
    read.path = region_copy_text(region, path);
    *snapshot = read;
    return OK;
}

static enum status check_hash(const char *folder, const struct snapshot_file *file,
                              const struct staging *buffer, struct fault *fault) {
    struct hash hash;
    int64_t bytes;
    TRY(snapshot_hash_file(folder, file->name, buffer, &hash, &bytes, fault));
    if (hash_equal(&hash, &file->hash)) {
        return OK;
    }
    char path[PATH_BYTES];
    path_join(folder, file->name, path, sizeof path);
    return fault_set(fault, STATUS_INPUT, path, NULL,
                     "the file is damaged: its hash differs from the one that was saved");
}

static enum status check_hashes(const struct snapshot *snapshot, struct fault *fault) {
    struct region scratch = {0};
    const struct staging buffer = {region_alloc(&scratch, HASH_BUFFER_BYTES, 1), HASH_BUFFER_BYTES};
    enum status status = OK;
    uint64_t total = 0;
    for (int i = 0; i < snapshot->file_count; i++) {
        total += (uint64_t)snapshot->files[i].bytes;
    }
    activity_begin("verifying the snapshot", total);
    for (int i = 0; i < snapshot->file_count && status == OK; i++) {
        status = check_hash(snapshot->path, &snapshot->files[i], &buffer, fault);
    }
    activity_end(false);
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

static int compare_sequence(const void *a, const void *b) {
    const struct snapshot_list_item *left = a;
    const struct snapshot_list_item *right = b;
    if (left->is_readable != right->is_readable) {
        return left->is_readable ? 1 : -1;
    }
    if (left->is_readable && left->snapshot.sequence != right->snapshot.sequence) {
        return left->snapshot.sequence < right->snapshot.sequence ? -1 : 1;
    }
    return strcmp(left->snapshot.path, right->snapshot.path);
}

/* Whether a folder may hold a snapshot. One named as SNAPSHOT_REPLACED does so only if no folder
 * has the complete name of that step. */
static bool is_candidate(const char *folder, const struct folder_walk *walk) {
    enum snapshot_path_kind kind;
    int64_t step;
    char done[PATH_BYTES];
    if (!walk->is_folder || !snapshot_parse_name(walk->name, &kind, &step)) {
        return false;
    }
    snapshot_path(folder, SNAPSHOT_COMPLETE, step, done);
    return kind == SNAPSHOT_COMPLETE || (kind == SNAPSHOT_REPLACED && !file_exists(done));
}

static enum status add_paths(const char *folder, struct folder_walk *walk, struct region *region,
                             const char **paths, int *count, struct fault *fault) {
    while (folder_walk_next(walk)) {
        char path[PATH_BYTES];
        if (!is_candidate(folder, walk)) {
            continue;
        }
        if (*count == SNAPSHOTS_MAX) {
            return fault_set(fault, STATUS_INPUT, folder,
                             "move older snapshots to a different folder",
                             "contains more than %d snapshots", SNAPSHOTS_MAX);
        }
        path_join(folder, walk->name, path, sizeof path);
        paths[(*count)++] = region_copy_text(region, path);
    }
    return OK;
}

static enum status list_paths(const char *folder, struct region *region, const char **paths,
                              int *count, struct fault *fault) {
    struct folder_walk walk;
    TRY(folder_walk_begin(folder, &walk, fault));
    enum status status = add_paths(folder, &walk, region, paths, count, fault);
    folder_walk_end(&walk);
    return status;
}

enum status snapshot_list(const char *folder, struct region *region,
                          struct snapshot_list_item **listed, int *count, struct fault *fault) {
    const char **paths = region_alloc(region, SNAPSHOTS_MAX, sizeof *paths);
    int found = 0;
    if (file_exists(folder)) {
        TRY(list_paths(folder, region, paths, &found, fault));
    }
    struct snapshot_list_item *list = region_alloc(region, (size_t)found, sizeof *list);
    for (int i = 0; i < found; i++) {
        list[i].is_readable =
            snapshot_read(paths[i], region, &list[i].snapshot, &list[i].fault) == OK;
        list[i].snapshot.path = paths[i];
    }
    if (found > 0) {
        qsort(list, (size_t)found, sizeof *list, compare_sequence);
    }
    *listed = list;
    *count = found;
    return OK;
}

static void log_damaged(const struct snapshot_list_item *listed, const struct fault *fault) {
    log_line(LOG_ERROR, "skipping the snapshot %s: %s: %s", listed->snapshot.path, fault->subject,
             fault->reason);
}

enum status snapshot_find_newest(const char *folder, struct region *region,
                                 struct snapshot *snapshot, bool *found, struct fault *fault) {
    struct snapshot_list_item *listed = NULL;
    int count = 0;
    TRY(snapshot_list(folder, region, &listed, &count, fault));
    for (int i = count - 1; i >= 0; i--) {
        if (!listed[i].is_readable) {
            log_damaged(&listed[i], &listed[i].fault);
        }
    }
    for (int i = count - 1; i >= 0 && listed[i].is_readable; i--) {
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
                         "restore a snapshot from a backup, or start a new run with --fresh",
                         "contains %d snapshots, all of them damaged", count);
    }
    *found = false;
    return OK;
}

enum status snapshot_load(const struct snapshot *snapshot, const struct snapshot_group *groups,
                          int group_count, struct fault *fault) {
    struct region region = {0};
    struct tensor_file files[SNAPSHOT_FILES_MAX];
    int file_count = snapshot_plan_files(groups, group_count, &region, files);
    enum status status = OK;
    uint64_t total = 0;
    for (int i = 0; i < file_count; i++) {
        total += (uint64_t)files[i].bytes;
    }
    activity_begin("loading the snapshot", total);
    for (int i = 0; i < file_count && status == OK; i++) {
        status = tensor_file_read(&files[i], snapshot->path, fault);
    }
    activity_end(false);
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
