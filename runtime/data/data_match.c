#include "runtime/data/data_match.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "runtime/data/cache_folder.h"
#include "runtime/data/data.h"
#include "runtime/data/token_file.h"
#include "runtime/swarm/ledger/merkle.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* number of bytes of a file that are read and hashed at a time */
enum { STAGING_BYTES = LEAF_BYTES };

/* The list of local data files. */
struct local_files {
    /* [count] descriptions of the files; a root is set once the file has been hashed */
    struct manifest_file *files;
    const char **paths;     /* [count]: paths of the files */
    int count, train_count; /* Number of all files; number of training files, which come first. */
    /* manifest to which the files are compared; NULL: a new swarm without one */
    const struct manifest *manifest;
    struct region *region;
    struct fault *fault;
    char *staging;        /* [STAGING_BYTES]: buffer for reading */
    uint64_t total_bytes; /* size in bytes of all files together */
};

static const char *format_name(enum token_format format) {
    static const char *const NAMES[] = {[TOKENS_BYTES] = "bytes",
                                        [TOKENS_U16] = "u16",
                                        [TOKENS_U32] = "u32",
                                        [TOKENS_LLMC_U16] = "llmc-u16",
                                        [TOKENS_LLMC_U32] = "llmc-u32"};
    ASSERT((size_t)format < ARRAY_COUNT(NAMES));
    return NAMES[format];
}

static const char *file_name_of_path(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static enum status add_file(struct local_files *local, const struct settings *settings,
                            const char *path, enum manifest_file_kind data) {
    struct token_file file;
    TRY(token_file_open(path, settings->data_format, &file, local->fault));
    enum status status = settings->text_needs_tokenizer
                             ? token_file_reject_text(&file, settings->data_format, local->fault)
                             : OK;
    if (status != OK) {
        token_file_close(&file);
        return status;
    }
    local->paths[local->count] = path;
    local->files[local->count] =
        (struct manifest_file){.kind = data,
                               .name = region_copy_text(local->region, file_name_of_path(path)),
                               .bytes = (uint64_t)file.bytes,
                               .format = format_name(file.format)};
    local->total_bytes += (uint64_t)file.bytes;
    local->count++;
    token_file_close(&file);
    return OK;
}

static enum status no_data_fault(const struct settings *settings, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, settings->run_file, "set data.train to token files",
                     "no data files are set");
}

/* Returns the files of a kind (training or validation) that the settings list. */
static const struct path_list *files_of_kind(const struct settings *settings,
                                             enum manifest_file_kind kind) {
    return kind == MANIFEST_TRAINING_FILE ? &settings->train_files : &settings->validation_files;
}

/* Returns file number `index` of a kind (training or validation) in the manifest, or NULL. */
static const struct manifest_file *manifest_file_at(const struct manifest *manifest,
                                                    enum manifest_file_kind kind, int index) {
    for (int i = 0; i < manifest->file_count; i++) {
        if (manifest->files[i].kind == kind && index-- == 0) {
            return &manifest->files[i];
        }
    }
    return NULL;
}

/* Rewrites the fault of a missing file, with a remedy: a member should get the file from the
 * swarm's operator, and the operator should correct the path in the run file. */
static void explain_missing_file(const struct settings *settings, enum manifest_file_kind kind,
                                 int index, const struct local_files *local) {
    struct fault *fault = local->fault;
    char path[sizeof fault->subject];
    char remedy[sizeof fault->remedy];
    const struct manifest_file *wanted =
        local->manifest == NULL ? NULL : manifest_file_at(local->manifest, kind, index);
    if (wanted == NULL) {
        data_explain_missing_file(settings, files_of_kind(settings, kind), fault);
    } else if (!file_exists(fault->subject)) {
        memcpy(path, fault->subject, sizeof path);
        snprintf(remedy, sizeof remedy,
                 "save the operator's file %.80s (%llu bytes) under this path, or correct the path",
                 wanted->name, (unsigned long long)wanted->bytes);
        (void)fault_set(fault, STATUS_INPUT, manifest_file_kind_key(kind), remedy,
                        "%.200s does not exist", path);
    }
}

/* Lists all files with their sizes and formats, without reading their tokens. */
static enum status list_data_files(const struct settings *settings, bool validation,
                                   struct local_files *local) {
    struct path_list lists[2] = {{.count = 0}, {.count = 0}};
    if (settings->train_files.count == 0) {
        return no_data_fault(settings, local->fault);
    }
    enum status status =
        path_list_expand(&settings->train_files, local->region, &lists[0], local->fault);
    if (status == OK && validation) {
        status =
            path_list_expand(&settings->validation_files, local->region, &lists[1], local->fault);
    }
    if (status != OK) {
        return status;
    }
    size_t count = (size_t)lists[0].count + (size_t)lists[1].count;
    local->files = region_alloc(local->region, count, sizeof *local->files);
    local->paths = region_alloc(local->region, count, sizeof *local->paths);
    local->train_count = lists[0].count;
    for (int list = 0; list < 2; list++) {
        for (int i = 0; i < lists[list].count && status == OK; i++) {
            const enum manifest_file_kind kind =
                list == 0 ? MANIFEST_TRAINING_FILE : MANIFEST_VALIDATION_FILE;
            status = add_file(local, settings, lists[list].paths[i], kind);
            if (status == STATUS_INPUT) {
                explain_missing_file(settings, kind, i, local);
            }
        }
    }
    return status;
}

static enum status hash_file(struct local_files *local, int index, int fd) {
    struct manifest_file *file = &local->files[index];
    struct merkle_stream stream;
    enum status status = OK;
    merkle_begin(&stream);
    for (uint64_t at = 0; at < file->bytes && status == OK; at += STAGING_BYTES) {
        uint64_t left = file->bytes - at;
        size_t some = min_u64(left, STAGING_BYTES);
        status =
            file_read_at(fd, local->paths[index], local->staging, some, (int64_t)at, local->fault);
        if (status == OK) {
            merkle_add(&stream, local->staging, some);
            activity_advance(some);
        }
        if (status == OK && stop_requested()) {
            status = fault_set(local->fault, STATUS_STOPPED, "data", NULL, "stopped by request");
        }
    }
    if (status == OK) {
        file->root = merkle_end(&stream);
    }
    return status;
}

static enum status hash_listed_file(struct local_files *local, int index) {
    const char *path = local->paths[index];
    int64_t bytes = 0;
    int fd = -1;
    TRY(file_open_read(path, &fd, &bytes, local->fault));
    enum status status = (uint64_t)bytes == local->files[index].bytes
                             ? hash_file(local, index, fd)
                             : fault_set(local->fault, STATUS_INPUT, path, "start again",
                                         "changed while it was read");
    close(fd);
    return status;
}

static enum status hash_listed_files(struct local_files *local) {
    enum status status = OK;
    activity_begin("hashing the data", local->total_bytes);
    for (int i = 0; i < local->count && status == OK; i++) {
        status = hash_listed_file(local, i);
    }
    activity_end(false);
    return status;
}

static void init_local_files(struct local_files *local, struct region *region,
                             struct fault *fault) {
    *local = (struct local_files){.region = region, .fault = fault};
}

enum status data_match_hash_files(const struct settings *settings, struct region *region,
                                  const struct manifest_file **files, int *count,
                                  struct fault *fault) {
    struct region scratch = {0};
    struct local_files local;
    init_local_files(&local, region, fault);
    local.staging = region_alloc(&scratch, STAGING_BYTES, 1);
    enum status status = list_data_files(settings, settings->validation_files.count > 0, &local);
    if (status == OK) {
        status = hash_listed_files(&local);
    }
    region_finish(&scratch);
    if (status == OK) {
        *files = local.files;
        *count = local.count;
    }
    return status;
}

/* ---- finding ---- */

static bool is_file_of_size(const char *path, uint64_t bytes) {
    struct fault fault;
    int64_t found = 0;
    int fd = -1;
    if (file_open_read(path, &fd, &found, &fault) != OK) {
        return false;
    }
    close(fd);
    return (uint64_t)found == bytes;
}

static const char *find_file(const struct manifest_file *file, struct region *region) {
    char folder[PATH_BYTES];
    char path[2 * PATH_BYTES];
    if (is_file_of_size(file->name, file->bytes)) {
        return region_copy_text(region, file->name);
    }
    if (!cache_folder_path("data", folder, sizeof folder)) {
        return NULL;
    }
    path_join(folder, file->name, path, sizeof path);
    return is_file_of_size(path, file->bytes) ? region_copy_text(region, path) : NULL;
}

static void find_listed_files(const struct manifest *manifest, enum manifest_file_kind data,
                              struct region *region, struct path_list *list) {
    struct path_list found = {.count = 0};
    if (list->count > 0) {
        return;
    }
    found.paths = region_alloc(region, (size_t)manifest->file_count, sizeof *found.paths);
    for (int i = 0; i < manifest->file_count; i++) {
        if (manifest->files[i].kind != data) {
            continue;
        }
        const char *path = find_file(&manifest->files[i], region);
        if (path == NULL) {
            return;
        }
        found.paths[found.count++] = path;
    }
    *list = found;
}

void data_match_find_files(const struct manifest *manifest, struct region *region,
                           struct settings *settings) {
    find_listed_files(manifest, MANIFEST_TRAINING_FILE, region, &settings->train_files);
    find_listed_files(manifest, MANIFEST_VALIDATION_FILE, region, &settings->validation_files);
}

/* ---- comparing ---- */

static int count_train_files(const struct manifest *manifest) {
    int count = 0;
    for (int i = 0; i < manifest->file_count; i++) {
        count += manifest->files[i].kind == MANIFEST_TRAINING_FILE;
    }
    return count;
}

static enum status missing_data_fault(const struct manifest *manifest, struct fault *fault) {
    const struct manifest_file *first = &manifest->files[0];
    char bytes[24];
    char remedy[sizeof fault->remedy];
    snprintf(remedy, sizeof remedy,
             "copy the files to the working directory or ~/.cache/skep/data, or give their paths "
             "with data.train=PATH");
    return fault_set(fault, STATUS_INPUT, "data.train", remedy,
                     "the swarm's data files are missing: %d file%s; the first is %.80s of %s",
                     count_train_files(manifest), count_train_files(manifest) == 1 ? "" : "s",
                     first->name, text_format_bytes(first->bytes, bytes));
}

static enum status file_count_fault(const struct manifest *manifest, enum manifest_file_kind data,
                                    int here, int wanted, struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, manifest_file_kind_key(data),
                     "list the files in the order of the swarm's manifest",
                     "found %d file%s; the manifest of swarm %.63s has %d", here,
                     here == 1 ? "" : "s", manifest->name, wanted);
}

static enum status check_file_counts(const struct local_files *local,
                                     const struct manifest *manifest) {
    int train = count_train_files(manifest);
    int held_out = manifest->file_count - train;
    int held_out_found = local->count - local->train_count;
    if (local->train_count != train) {
        return file_count_fault(manifest, MANIFEST_TRAINING_FILE, local->train_count, train,
                                local->fault);
    }
    return held_out_found == 0 || held_out_found == held_out
               ? OK
               : file_count_fault(manifest, MANIFEST_VALIDATION_FILE, held_out_found, held_out,
                                  local->fault);
}

/* Returns the remedy for a file that differs. If the run lists several files of the same kind, they
 * may be in the wrong order. */
static const char *mismatch_remedy(const struct local_files *local,
                                   const struct manifest_file *wanted) {
    const int count = wanted->kind == MANIFEST_TRAINING_FILE ? local->train_count
                                                             : local->count - local->train_count;
    return count == 1 ? "get the file again from the operator"
                      : "list the files in the order of the swarm's manifest, and get those that "
                        "differ again from the operator";
}

static enum status file_mismatch_fault(const struct local_files *local, int index,
                                       const struct manifest_file *wanted, const char *difference) {
    int number = index - (wanted->kind == MANIFEST_TRAINING_FILE ? 0 : local->train_count) + 1;
    return fault_set(local->fault, STATUS_INPUT, local->paths[index],
                     mismatch_remedy(local, wanted),
                     "does not match file %d of the swarm's %s, %.80s: %s", number,
                     manifest_file_kind_key(wanted->kind), wanted->name, difference);
}

static enum status check_size_and_format(const struct local_files *local, int index,
                                         const struct manifest_file *wanted) {
    const struct manifest_file *here = &local->files[index];
    char difference[128];
    if (here->bytes != wanted->bytes) {
        snprintf(difference, sizeof difference, "%llu bytes, but the manifest has %llu",
                 (unsigned long long)here->bytes, (unsigned long long)wanted->bytes);
        return file_mismatch_fault(local, index, wanted, difference);
    }
    if (strcmp(here->format, wanted->format) != 0) {
        snprintf(difference, sizeof difference, "format %s, but the manifest has %s", here->format,
                 wanted->format);
        return file_mismatch_fault(local, index, wanted, difference);
    }
    return OK;
}

static enum status check_file_root(const struct local_files *local, int index,
                                   const struct manifest_file *wanted) {
    const struct manifest_file *here = &local->files[index];
    return hash_equal(&here->root, &wanted->root)
               ? OK
               : file_mismatch_fault(local, index, wanted,
                                     "its content differs from that of the operator's file");
}

static enum status check_all_contents(struct local_files *local, const struct manifest *manifest) {
    enum status status = OK;
    activity_begin("hashing the data", local->total_bytes);
    for (int i = 0; i < local->count && status == OK; i++) {
        status = hash_listed_file(local, i);
        if (status == OK) {
            status = check_file_root(local, i, &manifest->files[i]);
        }
    }
    activity_end(false);
    return status;
}

static enum status check_all_sizes(const struct local_files *local,
                                   const struct manifest *manifest) {
    TRY(check_file_counts(local, manifest));
    for (int i = 0; i < local->count; i++) {
        TRY(check_size_and_format(local, i, &manifest->files[i]));
    }
    return OK;
}

/* Checks the sizes and formats of all files before their contents, which take long to read. */
static enum status check_files(const struct settings *settings, const struct manifest *manifest,
                               bool reads_contents, struct fault *fault) {
    struct region scratch = {0};
    struct local_files local;
    if (settings->train_files.count == 0) {
        return missing_data_fault(manifest, fault);
    }
    bool held_out =
        settings->validation_files.count > 0 && count_train_files(manifest) < manifest->file_count;
    init_local_files(&local, &scratch, fault);
    local.staging = region_alloc(&scratch, STAGING_BYTES, 1);
    local.manifest = manifest;
    enum status status = list_data_files(settings, held_out, &local);
    if (status == OK) {
        status = check_all_sizes(&local, manifest);
    }
    if (status == OK && reads_contents) {
        status = check_all_contents(&local, manifest);
    }
    region_finish(&scratch);
    return status;
}

enum status data_match_check(const struct settings *settings, const struct manifest *manifest,
                             struct fault *fault) {
    return check_files(settings, manifest, true, fault);
}

enum status data_match_check_sizes(const struct settings *settings, const struct manifest *manifest,
                                   struct fault *fault) {
    return check_files(settings, manifest, false, fault);
}
