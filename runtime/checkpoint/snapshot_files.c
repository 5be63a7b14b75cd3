#include "runtime/checkpoint/snapshot_files.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

#include <string.h>
#include <unistd.h>

enum { STEP_DIGITS = 9 }; /* minimum digits of the step in a folder name */

static const char *const PREFIXES[] = {[SNAPSHOT_COMPLETE] = "step-",
                                       [SNAPSHOT_INCOMPLETE] = ".tmp-step-",
                                       [SNAPSHOT_REPLACED] = ".old-step-"};

void snapshot_path(const char *folder, enum snapshot_path_kind kind, int64_t step,
                   char out[static PATH_BYTES]) {
    struct text text = text_over(out, PATH_BYTES);
    text_add(&text, "%s/%s%0*lld", folder, PREFIXES[kind], STEP_DIGITS, (long long)step);
    ASSERT(!text.truncated && step >= 0);
}

bool snapshot_parse_name(const char *name, enum snapshot_path_kind *kind, int64_t *step) {
    for (size_t i = 0; i < ARRAY_COUNT(PREFIXES); i++) {
        size_t length = strlen(PREFIXES[i]);
        const char *digits = name + length;
        if (strncmp(name, PREFIXES[i], length) == 0 && strlen(digits) >= STEP_DIGITS &&
            strspn(digits, "0123456789") == strlen(digits) && text_parse_i64(digits, step)) {
            *kind = (enum snapshot_path_kind)i;
            return true;
        }
    }
    return false;
}

static enum status hash_bytes(int fd, const char *path, int64_t bytes, const struct staging *buffer,
                              struct hash_state *state, struct fault *fault) {
    for (int64_t done = 0; done < bytes; done += (int64_t)buffer->bytes) {
        size_t chunk = min_u64((uint64_t)(bytes - done), buffer->bytes);
        TRY(file_read_at(fd, path, buffer->memory, chunk, done, fault));
        hash_add(state, buffer->memory, chunk);
        activity_advance(chunk);
    }
    return OK;
}

enum status snapshot_hash_file(const char *folder, const char *name, const struct staging *buffer,
                               struct hash *hash, int64_t *bytes, struct fault *fault) {
    char path[PATH_BYTES];
    int fd;
    int64_t total;
    struct hash_state state;
    path_join(folder, name, path, sizeof path);
    TRY(file_open_read(path, &fd, &total, fault));
    hash_begin(&state);
    enum status status = hash_bytes(fd, path, total, buffer, &state, fault);
    close(fd);
    TRY(status);
    *hash = hash_end(&state);
    *bytes = total;
    return OK;
}

static const char *prefixed_name(struct region *region, const char *prefix, const char *name) {
    char buffer[2 * NAME_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    text_add(&text, "%s%s", prefix, name);
    ASSERT(!text.truncated);
    return prefix[0] == '\0' ? name : region_copy_text(region, buffer);
}

static void add_tensor_sources(const struct snapshot_group *group, struct region *region,
                               struct tensor_source *sources) {
    tensor_sources_init(&group->set, region, sources);
    for (int i = 0; i < group->set.tensor_count; i++) {
        struct tensor_spec *tensor = &sources[i].tensor;
        tensor->name = prefixed_name(region, group->prefix, tensor->name);
        for (int piece = 0; piece < sources[i].piece_count; piece++) {
            ASSERT(sources[i].pieces[piece].dtype == tensor->dtype);
        }
    }
}

int snapshot_plan_files(const struct snapshot_group *groups, int group_count, struct region *region,
                        struct tensor_file *files) {
    int file_count = 0;
    for (int first = 0, end = 0; first < group_count; first = end) {
        int tensors = 0;
        for (end = first; end < group_count && strcmp(groups[end].file, groups[first].file) == 0;
             end++) {
            tensors += groups[end].set.tensor_count;
        }
        struct tensor_source *sources = region_alloc(region, (size_t)tensors, sizeof *sources);
        int count = 0;
        for (int i = first; i < end; i++) {
            add_tensor_sources(&groups[i], region, sources + count);
            count += groups[i].set.tensor_count;
        }
        ASSERT(file_count < SNAPSHOT_FILES_MAX - 1);
        tensor_file_plan(groups[first].file, sources, count, region, &files[file_count++]);
    }
    return file_count;
}

enum status snapshot_check_sizes(const char *folder, const struct snapshot *snapshot,
                                 struct fault *fault) {
    for (int i = 0; i < snapshot->file_count; i++) {
        const struct snapshot_file *file = &snapshot->files[i];
        char path[PATH_BYTES];
        int fd = -1;
        int64_t bytes = 0;
        path_join(folder, file->name, path, sizeof path);
        TRY(file_open_read(path, &fd, &bytes, fault));
        close(fd);
        if (bytes != file->bytes) {
            return fault_set(
                fault, STATUS_INPUT, path, NULL,
                "the file is damaged: it is %lld bytes long, but was %lld when it was saved",
                (long long)bytes, (long long)file->bytes);
        }
    }
    return OK;
}
