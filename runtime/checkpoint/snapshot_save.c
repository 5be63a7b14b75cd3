/* Saves snapshots. The files are laid out before seal; saving allocates nothing. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/joint_write.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/snapshot_files.h"
#include "runtime/checkpoint/snapshot_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Removes a folder that an interrupted save has left. On file systems that cannot exchange names,
 * the replaced snapshot may still have its SNAPSHOT_REPLACED name, and no folder the complete one:
 * then this snapshot gets the complete name back. */
static enum status clear_leftover(const char *folder, enum snapshot_path_kind kind, int64_t step,
                                  struct fault *fault) {
    char path[PATH_BYTES];
    char done[PATH_BYTES];
    snapshot_path(folder, kind, step, path);
    snapshot_path(folder, SNAPSHOT_COMPLETE, step, done);
    if (kind == SNAPSHOT_REPLACED && !file_exists(done)) {
        return file_publish(path, done, fault);
    }
    return folder_remove(path, fault);
}

/* Removes what interrupted saves have left in `folder`. Every removal changes the folder, so the
 * walk starts again after each. */
static enum status clear_leftovers(const char *folder, struct fault *fault) {
    for (bool found = true; found;) {
        struct folder_walk walk;
        TRY(folder_walk_begin(folder, &walk, fault));
        enum snapshot_path_kind kind = SNAPSHOT_COMPLETE;
        int64_t step = 0;
        found = false;
        while (!found && folder_walk_next(&walk)) {
            found = walk.is_folder && snapshot_parse_name(walk.name, &kind, &step) &&
                    kind != SNAPSHOT_COMPLETE;
        }
        folder_walk_end(&walk);
        if (found) {
            TRY(clear_leftover(folder, kind, step, fault));
        }
    }
    return OK;
}

/* Lists the snapshots of earlier runs, which count as retained. Unreadable snapshots do not count
 * and are never removed. */
static enum status list_retained(struct snapshot_writer *writer, struct fault *fault) {
    struct region region = {0};
    struct snapshot_list_item *listed = NULL;
    int count = 0;
    enum status status = snapshot_list(writer->args.folder, &region, &listed, &count, fault);
    for (int i = 0; status == OK && i < count; i++) {
        if (listed[i].is_readable) {
            writer->retained[writer->retained_count++] =
                (struct snapshot_retained){listed[i].snapshot.step, listed[i].snapshot.sequence};
        }
    }
    region_finish(&region);
    return status;
}

/* Names of settings and the model folder come from the user, so this checks that snapshot.json
 * still parses with these texts in it. */
static enum status check_json_parses(const struct snapshot_writer *writer, struct fault *fault) {
    struct region region = {0};
    struct snapshot written = {.keys = writer->args.keys,
                               .model_folder = writer->args.model_folder};
    struct snapshot read;
    struct text text = text_over(writer->json, writer->json_capacity);
    snapshot_json_write(&written, &text);
    ASSERT(!text.truncated);
    enum status status =
        snapshot_json_parse(text.bytes, text.length, SNAPSHOT_JSON_NAME, &region, &read, fault);
    region_finish(&region);
    return status;
}

static enum status prepare_snapshots_folder(struct snapshot_writer *writer, struct fault *fault) {
    TRY(file_make_folders(writer->args.folder, fault));
    TRY(clear_leftovers(writer->args.folder, fault));
    TRY(list_retained(writer, fault));
    return check_json_parses(writer, fault);
}

enum status snapshot_writer_init(const struct snapshot_args *args, struct region *region,
                                 struct snapshot_writer *writer, struct fault *fault) {
    struct snapshot_writer made = {.args = *args};
    ASSERT(args->keep >= 1 && args->keep < SNAPSHOTS_MAX &&
           strlen(args->keys) < SNAPSHOT_KEYS_BYTES_MAX);
    made.files = region_alloc(region, SNAPSHOT_FILES_MAX, sizeof *made.files);
    made.file_count = snapshot_plan_files(args->groups, args->group_count, region, made.files);
    made.json_capacity = snapshot_json_bytes(args->keys, args->model_folder);
    made.json = region_alloc(region, made.json_capacity, 1);
    made.incomplete_path = region_alloc(region, PATH_BYTES, 1);
    made.complete_path = region_alloc(region, PATH_BYTES, 1);
    made.replaced_path = region_alloc(region, PATH_BYTES, 1);
    made.retained = region_alloc(region, SNAPSHOTS_MAX, sizeof *made.retained);
    made.bytes = (int64_t)(made.json_capacity + args->config_length);
    for (int i = 0; i < made.file_count; i++) {
        made.bytes += made.files[i].bytes;
        ASSERT(args->ranks.world > 1 ||
               tensor_sources_cover_tensors(made.files[i].sources, made.files[i].header.count));
    }
    enum status status =
        checkpoint_is_rank0(&args->ranks) ? prepare_snapshots_folder(&made, fault) : OK;
    TRY(checkpoint_agree(&args->ranks, status, fault));
    *writer = made;
    return OK;
}

static enum status list_written_file(const char *folder, const char *name,
                                     const struct staging *staging, struct snapshot *snapshot,
                                     struct fault *fault) {
    struct snapshot_file *file = &snapshot->files[snapshot->file_count++];
    ASSERT(strlen(name) < sizeof file->name);
    memcpy(file->name, name, strlen(name) + 1);
    return snapshot_hash_file(folder, name, staging, &file->hash, &file->bytes, fault);
}

static enum status list_written_files(const struct snapshot_writer *writer,
                                      const struct staging *staging, struct snapshot *snapshot,
                                      struct fault *fault) {
    TRY(folder_write_file(writer->incomplete_path, SNAPSHOT_CONFIG_NAME, writer->args.config_text,
                          writer->args.config_length, fault));
    for (int i = 0; i < writer->file_count; i++) {
        TRY(list_written_file(writer->incomplete_path, writer->files[i].name, staging, snapshot,
                              fault));
    }
    return list_written_file(writer->incomplete_path, SNAPSHOT_CONFIG_NAME, staging, snapshot,
                             fault);
}

/* Checks that a new snapshot does not exceed SNAPSHOTS_MAX, the maximum that readers accept. The
 * folder can exceed this maximum only if earlier saves could not remove the oldest ones. */
static enum status check_snapshot_count(const struct snapshot_writer *writer, int64_t step,
                                        struct fault *fault) {
    bool replaces = false;
    for (int i = 0; i < writer->retained_count; i++) {
        replaces = replaces || writer->retained[i].step == step;
    }
    if (replaces || writer->retained_count < SNAPSHOTS_MAX) {
        return OK;
    }
    return fault_set(fault, STATUS_FAILED, writer->args.folder,
                     "make the folder writable, or move older snapshots to a different folder",
                     "contains %d snapshots, none of which could be removed",
                     writer->retained_count);
}

static uint64_t next_sequence(const struct snapshot_writer *writer) {
    return writer->retained_count == 0 ? 1
                                       : writer->retained[writer->retained_count - 1].sequence + 1;
}

static struct snapshot describe_snapshot(const struct snapshot_writer *writer,
                                         const struct snapshot_state *state) {
    struct snapshot snapshot = {.step = state->step,
                                .sequence = next_sequence(writer),
                                .seed = state->seed,
                                .saved_at = clock_unix_s(),
                                .plan_hash = writer->args.plan_hash,
                                .keys = writer->args.keys,
                                .model_folder = writer->args.model_folder,
                                .value_count = state->value_count};
    ASSERT(state->step >= 0 && state->value_count <= SNAPSHOT_VALUES_MAX);
    memcpy(snapshot.values, state->values, (size_t)state->value_count * sizeof *state->values);
    return snapshot;
}

/* Writes the last files and makes the folder durable. *length is the size of snapshot.json. */
static enum status write_json_file(const struct snapshot_writer *writer,
                                   const struct staging *staging, struct snapshot *snapshot,
                                   size_t *length, struct fault *fault) {
    TRY(list_written_files(writer, staging, snapshot, fault));
    struct text text = text_over(writer->json, writer->json_capacity);
    snapshot_json_write(snapshot, &text);
    ASSERT(!text.truncated);
    *length = text.length;
    TRY(folder_write_file(writer->incomplete_path, SNAPSHOT_JSON_NAME, text.bytes, text.length,
                          fault));
    return file_sync_folder(writer->incomplete_path, fault);
}

/* Checks the written files, before any older snapshot is removed. */
static enum status check_written_files(const struct snapshot_writer *writer, size_t json_length,
                                       const struct snapshot *snapshot,
                                       const struct staging *staging, struct fault *fault) {
    char path[PATH_BYTES];
    struct hash expected = hash_of(writer->json, json_length);
    struct hash found;
    int64_t bytes;
    TRY(snapshot_hash_file(writer->complete_path, SNAPSHOT_JSON_NAME, staging, &found, &bytes,
                           fault));
    if (hash_equal(&found, &expected)) {
        return snapshot_check_sizes(writer->complete_path, snapshot, fault);
    }
    path_join(writer->complete_path, SNAPSHOT_JSON_NAME, path, sizeof path);
    return fault_set(fault, STATUS_FAILED, path, "check the disk for errors",
                     "the disk returned bytes that differ from the bytes that were written");
}

static void add_retained(struct snapshot_writer *writer, const struct snapshot *snapshot) {
    int count = 0;
    for (int i = 0; i < writer->retained_count; i++) {
        if (writer->retained[i].step != snapshot->step) {
            writer->retained[count++] = writer->retained[i];
        }
    }
    ASSERT(count < SNAPSHOTS_MAX);
    writer->retained[count++] = (struct snapshot_retained){snapshot->step, snapshot->sequence};
    writer->retained_count = count;
}

static void set_paths(struct snapshot_writer *writer, int64_t step) {
    snapshot_path(writer->args.folder, SNAPSHOT_INCOMPLETE, step, writer->incomplete_path);
    snapshot_path(writer->args.folder, SNAPSHOT_COMPLETE, step, writer->complete_path);
    snapshot_path(writer->args.folder, SNAPSHOT_REPLACED, step, writer->replaced_path);
}

/* Renames the snapshot's folder, then removes it, so that a partly removed folder never has the
 * name of a snapshot. Folders that an error has left for this step are removed first, or a reader
 * would use them in place of the removed snapshot. */
static enum status remove_snapshot(struct snapshot_writer *writer, int64_t step,
                                   struct fault *fault) {
    set_paths(writer, step);
    TRY(folder_remove(writer->incomplete_path, fault));
    TRY(folder_remove(writer->replaced_path, fault));
    if (rename(writer->complete_path, writer->incomplete_path) != 0) {
        return errno == ENOENT ? OK
                               : fault_set_errno(fault, STATUS_FAILED, writer->complete_path,
                                                 "cannot remove", errno);
    }
    return folder_remove(writer->incomplete_path, fault);
}

/* Removes the oldest snapshots beyond `keep`. A snapshot that cannot be removed does not stop the
 * run: the next save retries the removal. */
static void remove_oldest(struct snapshot_writer *writer) {
    struct fault fault;
    while (writer->retained_count > writer->args.keep) {
        if (remove_snapshot(writer, writer->retained[0].step, &fault) != OK) {
            log_line(LOG_WARNING, "%s: %s", fault.subject, fault.reason);
            return;
        }
        writer->retained_count--;
        memmove(writer->retained, writer->retained + 1,
                (size_t)writer->retained_count * sizeof *writer->retained);
    }
}

/* The context that publish_folder receives. */
struct save_context {
    struct snapshot_writer *writer;
    const struct snapshot_state *state;
};

static enum status publish_folder(const void *context, const struct staging *staging,
                                  bool *replaced, struct fault *fault) {
    const struct save_context *job = context;
    struct snapshot_writer *writer = job->writer;
    struct snapshot snapshot = describe_snapshot(writer, job->state);
    size_t json_length = 0;
    TRY(check_snapshot_count(writer, snapshot.step, fault));
    TRY(write_json_file(writer, staging, &snapshot, &json_length, fault));
    enum status status = folder_replace(writer->incomplete_path, writer->complete_path,
                                        writer->replaced_path, replaced, fault);
    if (*replaced) {
        add_retained(writer, &snapshot);
    }
    TRY(status);
    TRY(check_written_files(writer, json_length, &snapshot, staging, fault));
    remove_oldest(writer);
    return OK;
}

enum status snapshot_save(struct snapshot_writer *writer, const struct snapshot_state *state,
                          const struct staging *staging, struct fault *fault) {
    const struct save_context job = {writer, state};
    const struct joint_write joint = {.ranks = &writer->args.ranks,
                                      .folder = writer->incomplete_path,
                                      .files = writer->files,
                                      .file_count = writer->file_count,
                                      .publish_folder = publish_folder,
                                      .context = &job};
    set_paths(writer, state->step);
    /* twice the bytes, because each file is written, then read again for its hash */
    activity_begin("saving a snapshot", 2 * (uint64_t)writer->bytes);
    enum status status = joint_write_run(&joint, staging, fault);
    activity_end(true);
    return status;
}
