/* Writing snapshots: laid out before seal, written, made durable, put in place and thinned out
 * after it, without an allocation. */
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/checkpoint/file_hash.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/joint_write.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/checkpoint/snapshot_files.h"
#include "runtime/checkpoint/snapshot_json.h"
#include "runtime/checkpoint/snapshot_path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* An interrupted save leaves .tmp- folders, and on file systems that cannot exchange names perhaps
 * the replaced snapshot aside. */
static enum status clear_one(const char *folder, enum snapshot_path_kind place, int64_t step,
                             struct fault *fault) {
    char path[PATH_BYTES];
    char done[PATH_BYTES];
    snapshot_path(folder, place, step, path);
    snapshot_path(folder, SNAPSHOT_DONE, step, done);
    if (place == SNAPSHOT_ASIDE && !file_exists(done)) {
        return file_publish(path, done, fault);
    }
    return folder_remove(path, fault);
}

/* One folder at a time, as clearing changes what is walked. */
static enum status clear_leftovers(const char *folder, struct fault *fault) {
    for (bool again = true; again;) {
        struct folder_walk walk;
        TRY(folder_walk_begin(folder, &walk, fault));
        enum snapshot_path_kind place = SNAPSHOT_DONE;
        int64_t step = 0;
        again = false;
        while (!again && folder_walk_next(&walk)) {
            again = walk.is_folder && snapshot_parse_name(walk.name, &place, &step) &&
                    place != SNAPSHOT_DONE;
        }
        folder_walk_end(&walk);
        if (again) {
            TRY(clear_one(folder, place, step, fault));
        }
    }
    return OK;
}

/* What the folder holds, so that retention goes on where an earlier run ended. Unreadable snapshots
 * are neither counted nor removed. */
static enum status note_existing(struct snapshot_writer *writer, struct fault *fault) {
    struct region region = {0};
    struct snapshot_listed *listed = NULL;
    int count = 0;
    enum status status = snapshot_list(writer->args.folder, &region, &listed, &count, fault);
    for (int i = 0; status == OK && i < count; i++) {
        if (listed[i].readable) {
            writer->kept[writer->kept_count++] =
                (struct snapshot_retained){listed[i].snapshot.step, listed[i].snapshot.sequence};
        }
    }
    region_finish(&region);
    return status;
}

/* What is going to be written must be readable: texts from outside may not be. */
static enum status try_json(const struct snapshot_writer *writer, struct fault *fault) {
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

/* What rank 0 makes sure of before the first save. */
static enum status take_over(struct snapshot_writer *writer, struct fault *fault) {
    TRY(file_make_folders(writer->args.folder, fault));
    TRY(clear_leftovers(writer->args.folder, fault));
    TRY(note_existing(writer, fault));
    return try_json(writer, fault);
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
    made.begun = region_alloc(region, PATH_BYTES, 1);
    made.done = region_alloc(region, PATH_BYTES, 1);
    made.aside = region_alloc(region, PATH_BYTES, 1);
    made.kept = region_alloc(region, SNAPSHOTS_MAX, sizeof *made.kept);
    made.bytes = (int64_t)(made.json_capacity + args->config_length);
    for (int i = 0; i < made.file_count; i++) {
        made.bytes += made.files[i].bytes;
        ASSERT(args->site.world > 1 ||
               tensor_sources_are_whole(made.files[i].sources, made.files[i].header.count));
    }
    enum status status = checkpoint_is_rank0(&args->site) ? take_over(&made, fault) : OK;
    status = checkpoint_site_agree(&args->site, status, fault);
    if (status == OK) {
        *writer = made;
    }
    return status;
}

static enum status note_file(const char *folder, const char *name, const struct staging *staging,
                             struct snapshot *snapshot, struct fault *fault) {
    struct snapshot_file *file = &snapshot->files[snapshot->file_count++];
    char path[PATH_BYTES];
    ASSERT(strlen(name) < sizeof file->name);
    memcpy(file->name, name, strlen(name) + 1);
    file_join(folder, name, path, sizeof path);
    return file_hash(path, staging->memory, staging->bytes, &file->hash, &file->bytes, fault);
}

static enum status note_files(const struct snapshot_writer *writer, const struct staging *staging,
                              struct snapshot *snapshot, struct fault *fault) {
    TRY(folder_write_file(writer->begun, SNAPSHOT_CONFIG_NAME, writer->args.config_text,
                          writer->args.config_length, fault));
    for (int i = 0; i < writer->file_count; i++) {
        TRY(note_file(writer->begun, writer->files[i].name, staging, snapshot, fault));
    }
    return note_file(writer->begun, SNAPSHOT_CONFIG_NAME, staging, snapshot, fault);
}

/* A reader takes SNAPSHOTS_MAX; so many are there when older ones could not be removed. */
static enum status check_room(const struct snapshot_writer *writer, int64_t step,
                              struct fault *fault) {
    bool again = false;
    for (int i = 0; i < writer->kept_count; i++) {
        again = again || writer->kept[i].step == step;
    }
    if (again || writer->kept_count < SNAPSHOTS_MAX) {
        return OK;
    }
    return fault_set(fault, STATUS_FAILED, writer->args.folder,
                     "make the folder writable, or move older snapshots elsewhere",
                     "holds %d snapshots, of which none could be removed", writer->kept_count);
}

static uint64_t next_sequence(const struct snapshot_writer *writer) {
    return writer->kept_count == 0 ? 1 : writer->kept[writer->kept_count - 1].sequence + 1;
}

static struct snapshot describe(const struct snapshot_writer *writer,
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
    for (int i = 0; i < state->value_count; i++) {
        snapshot.values[i] = state->values[i];
    }
    return snapshot;
}

/* What the files must be, as the last file; then all of it is durable. *length: of its text. */
static enum status conclude(const struct snapshot_writer *writer, const struct staging *staging,
                            struct snapshot *snapshot, size_t *length, struct fault *fault) {
    TRY(note_files(writer, staging, snapshot, fault));
    struct text text = text_over(writer->json, writer->json_capacity);
    snapshot_json_write(snapshot, &text);
    ASSERT(!text.truncated);
    *length = text.length;
    TRY(folder_write_file(writer->begun, SNAPSHOT_JSON_NAME, text.bytes, text.length, fault));
    return file_sync_folder(writer->begun, fault);
}

/* Before anything older goes: what stands in place is all there. */
static enum status check_complete(const struct snapshot_writer *writer, size_t json_length,
                                  const struct snapshot *snapshot, const struct staging *staging,
                                  struct fault *fault) {
    char path[PATH_BYTES];
    struct hash wanted = hash_of(writer->json, json_length);
    struct hash found;
    int64_t bytes = 0;
    file_join(writer->done, SNAPSHOT_JSON_NAME, path, sizeof path);
    TRY(file_hash(path, staging->memory, staging->bytes, &found, &bytes, fault));
    if (!hash_equal(&found, &wanted)) {
        return fault_set(fault, STATUS_FAILED, path, "check the disk", "is not what was written");
    }
    return snapshot_check_sizes(writer->done, snapshot, fault);
}

static void note_saved(struct snapshot_writer *writer, const struct snapshot *snapshot) {
    int left = 0;
    for (int i = 0; i < writer->kept_count; i++) {
        if (writer->kept[i].step != snapshot->step) {
            writer->kept[left++] = writer->kept[i];
        }
    }
    ASSERT(left < SNAPSHOTS_MAX);
    writer->kept[left++] = (struct snapshot_retained){snapshot->step, snapshot->sequence};
    writer->kept_count = left;
}

/* First out of its place, at once, so that no half of it ever looks like a snapshot; what an error
 * left aside goes before it, or would be taken for it. */
static enum status remove_one(struct snapshot_writer *writer, int64_t step, struct fault *fault) {
    const char *folder = writer->args.folder;
    snapshot_path(folder, SNAPSHOT_BEGUN, step, writer->begun);
    snapshot_path(folder, SNAPSHOT_DONE, step, writer->done);
    snapshot_path(folder, SNAPSHOT_ASIDE, step, writer->aside);
    TRY(folder_remove(writer->begun, fault));
    TRY(folder_remove(writer->aside, fault));
    if (rename(writer->done, writer->begun) != 0) {
        return errno == ENOENT
                   ? OK
                   : fault_set_errno(fault, STATUS_FAILED, writer->done, "cannot remove", errno);
    }
    return folder_remove(writer->begun, fault);
}

/* A snapshot that cannot be removed costs disk, not the run: it is tried again at the next save. */
static void thin_out(struct snapshot_writer *writer) {
    struct fault fault;
    while (writer->kept_count > writer->args.keep) {
        if (remove_one(writer, writer->kept[0].step, &fault) != OK) {
            log_line(LOG_WARNING, "%s: %s", fault.subject, fault.reason);
            return;
        }
        writer->kept_count--;
        memmove(writer->kept, writer->kept + 1, (size_t)writer->kept_count * sizeof *writer->kept);
    }
}

/* One save, for put_in_place. */
struct saving {
    struct snapshot_writer *writer;
    const struct snapshot_state *state;
};

static enum status put_in_place(const void *context, const struct staging *staging, bool *replaced,
                                struct fault *fault) {
    const struct saving *saving = context;
    struct snapshot_writer *writer = saving->writer;
    struct snapshot snapshot = describe(writer, saving->state);
    size_t json_length = 0;
    enum status status = check_room(writer, snapshot.step, fault);
    if (status == OK) {
        status = conclude(writer, staging, &snapshot, &json_length, fault);
    }
    if (status == OK) {
        status = folder_replace(writer->begun, writer->done, writer->aside, replaced, fault);
    }
    if (*replaced) {
        note_saved(writer, &snapshot);
    }
    if (status == OK) {
        status = check_complete(writer, json_length, &snapshot, staging, fault);
    }
    if (status == OK) {
        thin_out(writer);
    }
    return status;
}

enum status snapshot_save(struct snapshot_writer *writer, const struct snapshot_state *state,
                          const struct staging *staging, struct fault *fault) {
    const char *folder = writer->args.folder;
    const struct saving saving = {writer, state};
    snapshot_path(folder, SNAPSHOT_BEGUN, state->step, writer->begun);
    snapshot_path(folder, SNAPSHOT_DONE, state->step, writer->done);
    snapshot_path(folder, SNAPSHOT_ASIDE, state->step, writer->aside);
    const struct joint_write joint = {.site = &writer->args.site,
                                      .folder = writer->begun,
                                      .files = writer->files,
                                      .file_count = writer->file_count,
                                      .put_in_place = put_in_place,
                                      .context = &saving};
    return joint_write_run(&joint, staging, fault);
}
