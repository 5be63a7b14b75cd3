#include "runtime/corpus/corpus_folder.h"

#include "base/file.h"
#include "base/log.h"
#include "runtime/corpus/corpus.h"
#include "runtime/corpus/corpus_progress.h"
#include "transport/site/stop.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAIT_MS = 200 }; /* milliseconds between two attempts to lock a folder */

static const char LOCK_NAME[] = "lock";
static const char SUFFIX[] = ".new";

static void lock_path(const struct corpus_folder *folder, char *out, size_t capacity) {
    path_join(folder->unfinished_path, LOCK_NAME, out, capacity);
}

/* Sets final_path and unfinished_path, without '/' at the end of the folder's name. */
static enum status set_folder_paths(struct corpus_folder *folder, const char *path,
                                    struct fault *fault) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    if (length == 0 || length + NAME_BYTES >= PATH_BYTES) {
        return fault_set(fault, STATUS_INPUT, "-o", "use a shorter path",
                         "the path has %zu characters", length);
    }
    snprintf(folder->final_path, sizeof folder->final_path, "%.*s", (int)length, path);
    snprintf(folder->unfinished_path, sizeof folder->unfinished_path, "%.*s%s", (int)length, path,
             SUFFIX);
    return OK;
}

bool corpus_has_progress(const char *folder) {
    struct corpus_folder paths;
    struct corpus_progress progress;
    struct fault ignored;
    return set_folder_paths(&paths, folder, &ignored) == OK &&
           corpus_progress_read(paths.unfinished_path, &progress);
}

static bool is_dot(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_empty_folder(const char *path) {
    DIR *listing = opendir(path);
    bool is_empty = listing != NULL;
    if (listing == NULL) {
        return false;
    }
    const struct dirent *entry = readdir(listing);
    while (entry != NULL && is_empty) {
        is_empty = is_dot(entry->d_name);
        entry = readdir(listing);
    }
    closedir(listing);
    return is_empty;
}

static bool is_link(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* A folder cannot be renamed to a symbolic link, so a link is rejected before any work. */
static enum status check_final_path(const struct corpus_folder *folder, struct fault *fault) {
    if (is_link(folder->final_path)) {
        return fault_set(fault, STATUS_INPUT, folder->final_path,
                         "pass the folder that it points to, or remove the link",
                         "is a symbolic link, not a folder");
    }
    if (!file_exists(folder->final_path) || is_empty_folder(folder->final_path)) {
        return OK;
    }
    return fault_set(fault, STATUS_INPUT, folder->final_path, "remove it, or pass another folder",
                     "exists already%s",
                     file_is_folder(folder->final_path) ? " and is not empty" : "");
}

/* Checks the folders that contain the path: each may be missing, but must not be a file. */
static enum status check_parents(const struct corpus_folder *folder, struct fault *fault) {
    char part[PATH_BYTES];
    for (size_t i = 1; folder->final_path[i] != '\0'; i++) {
        snprintf(part, sizeof part, "%.*s", (int)i, folder->final_path);
        if (folder->final_path[i] == '/' && file_exists(part) && !file_is_folder(part)) {
            return fault_set(fault, STATUS_INPUT, part, "choose a different folder",
                             "is a file, so %.200s cannot be a folder in it", folder->final_path);
        }
    }
    return OK;
}

static enum status make_unfinished_folder(const struct corpus_folder *folder, struct fault *fault) {
    const enum status status = file_make_folders(folder->unfinished_path, fault);
    if (status != STATUS_FAILED) {
        return status;
    }
    if (fault->remedy[0] == '\0') {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "choose a different folder, or make it writable");
    }
    fault->status = STATUS_INPUT;
    return STATUS_INPUT;
}

/* Whether the file that this process has locked is still the one at the path `lock`. After this
 * process opened the file, and before it locked it, another process may have removed it together
 * with the folder. */
static bool holds_lock(const struct corpus_folder *folder, const char *lock) {
    struct stat held, found;
    return fstat(folder->lock_fd, &held) == 0 && stat(lock, &found) == 0 &&
           held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

/* Makes and locks the unfinished folder. folder->lock_fd is -1 if another process has locked the
 * folder; `holder` is then the id of that process, or "". */
static enum status lock_folder(struct corpus_folder *folder, char holder[static FILE_HOLDER_BYTES],
                               struct fault *fault) {
    char lock[2 * PATH_BYTES];
    *holder = '\0';
    TRY(check_final_path(folder, fault));
    TRY(make_unfinished_folder(folder, fault));
    lock_path(folder, lock, sizeof lock);
    const enum status status = file_lock(lock, &folder->lock_fd, holder, fault);
    if (status != OK && !file_is_folder(folder->unfinished_path)) {
        return OK; /* another process has removed or published the folder */
    }
    TRY(status);
    if (folder->lock_fd >= 0 && !holds_lock(folder, lock)) {
        close(folder->lock_fd);
        folder->lock_fd = -1;
    }
    return OK;
}

static enum status busy_fault(const struct corpus_folder *folder, const char *holder,
                              struct fault *fault) {
    return fault_set(
        fault, STATUS_INPUT, folder->unfinished_path, "wait for that process, or stop it",
        "another process is writing this folder%s%s", *holder == '\0' ? "" : ", process ", holder);
}

static enum status wait_for_writer(const struct corpus_folder *folder, struct fault *fault) {
    /* waits WAIT_MS, because poll cannot wait for a lock; a signal ends the wait early */
    (void)poll(NULL, 0, WAIT_MS);
    return stop_requested() ? fault_set(fault, STATUS_STOPPED, folder->final_path,
                                        "run the same command to continue", "stopped by request")
                            : OK;
}

static enum status open_folder(const char *path, bool waits, struct corpus_folder *folder,
                               struct fault *fault) {
    char holder[FILE_HOLDER_BYTES];
    bool has_reported = false;
    TRY(set_folder_paths(folder, path, fault));
    TRY(check_final_path(folder, fault));
    TRY(check_parents(folder, fault));
    TRY(lock_folder(folder, holder, fault));
    while (folder->lock_fd < 0) { /* each iteration waits for the process that writes the folder */
        if (!waits) {
            return busy_fault(folder, holder, fault);
        }
        if (!has_reported) {
            log_line(LOG_INFO, "waiting for %s%s, which is writing %s",
                     *holder == '\0' ? "another process" : "process ", holder,
                     folder->unfinished_path);
        }
        has_reported = true;
        TRY(wait_for_writer(folder, fault));
        TRY(lock_folder(folder, holder, fault));
    }
    return OK;
}

/* Whether `name` is that of a file that this program writes. */
static bool is_ours(const char *name) {
    const size_t length = strlen(name);
    const bool is_shard = length > 4 && strcmp(name + length - 4, ".bin") == 0;
    const bool is_mask = length > 5 && strcmp(name + length - 5, ".mask") == 0;
    return is_shard || is_mask || strcmp(name, "data.json") == 0 ||
           strcmp(name, "data.json.new") == 0 || strcmp(name, "progress.json") == 0 ||
           strcmp(name, "progress.json.new") == 0;
}

/* Removes the files of this program from a folder. */
static void remove_files(const char *path) {
    DIR *listing = opendir(path);
    if (listing == NULL) {
        return;
    }
    const struct dirent *entry = readdir(listing);
    while (entry != NULL) {
        if (is_ours(entry->d_name)) {
            (void)unlinkat(dirfd(listing), entry->d_name, 0);
        }
        entry = readdir(listing);
    }
    closedir(listing);
}

void corpus_folder_clear(const struct corpus_folder *folder) {
    remove_files(folder->unfinished_path);
}

void corpus_remove(const char *folder) {
    remove_files(folder);
    (void)rmdir(folder); /* rmdir fails, as intended, unless the folder is empty */
}

/* Discards the progress of an interrupted call, because the inputs have changed since. */
static enum status start_over(const struct corpus_folder *folder, bool has_stdin,
                              struct fault *fault) {
    corpus_folder_clear(folder);
    if (has_stdin) {
        return fault_set(fault, STATUS_INPUT, "standard input", "run the command again",
                         "differs from the text of the interrupted call, which is now discarded");
    }
    log_line(LOG_WARNING, "the inputs have changed since the interrupted call; starting over");
    return OK;
}

/* Releases the lock, whose file is in the folder at `path`. */
static void unlock(struct corpus_folder *folder, const char *path) {
    char lock[2 * PATH_BYTES];
    path_join(path, LOCK_NAME, lock, sizeof lock);
    unlink(lock);
    close(folder->lock_fd);
    folder->lock_fd = -1;
}

/* The folder gets its final name before the lock is released, so that no other process can write to
 * it in between. */
enum status corpus_folder_publish(struct corpus_folder *folder, struct fault *fault) {
    char parent[PATH_BYTES];
    char remedy[sizeof fault->remedy];
    folder->is_complete = true;
    corpus_progress_remove(folder->unfinished_path);
    TRY(file_sync_folder(folder->unfinished_path, fault));
    if (rename(folder->unfinished_path, folder->final_path) != 0) {
        const int error = errno;
        snprintf(remedy, sizeof remedy, "rename the complete folder %.250s yourself",
                 folder->unfinished_path);
        return fault_set(fault, STATUS_FAILED, folder->final_path, remedy,
                         "cannot rename to it: %s", strerror(error));
    }
    unlock(folder, folder->final_path);
    file_parent_folder(folder->final_path, parent, sizeof parent);
    return file_sync_folder(parent, fault);
}

/* Releases the lock. The unfinished folder is removed unless it is complete, or contains the
 * progress from which a later call can continue. */
static void close_folder(struct corpus_folder *folder) {
    struct corpus_progress progress;
    if (folder->lock_fd < 0) {
        return;
    }
    if (!folder->is_complete && !corpus_progress_read(folder->unfinished_path, &progress)) {
        corpus_folder_clear(folder);
    }
    unlock(folder, folder->unfinished_path);
    (void)rmdir(folder->unfinished_path); /* rmdir fails, as intended, unless the folder is empty */
}

static enum status attempt_twice(struct corpus_folder *folder, bool has_stdin,
                                 corpus_attempt *attempt, void *context, struct fault *fault) {
    bool has_changed = false;
    TRY(attempt(context, folder, true, &has_changed, fault));
    if (!has_changed) {
        return OK;
    }
    TRY(start_over(folder, has_stdin, fault));
    return attempt(context, folder, false, &has_changed, fault);
}

enum status corpus_folder_write(const struct corpus_folder_options *options,
                                corpus_attempt *attempt, void *context, struct fault *fault) {
    struct region scratch = {0};
    struct corpus_folder *folder = region_alloc(&scratch, 1, sizeof *folder);
    folder->lock_fd = -1;
    enum status status = open_folder(options->path, options->waits, folder, fault);
    if (status == OK) {
        status = attempt_twice(folder, options->has_stdin, attempt, context, fault);
    }
    close_folder(folder);
    region_finish(&scratch);
    return status;
}
