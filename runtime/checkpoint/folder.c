#include "runtime/checkpoint/folder.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FOLDER_MODE = 0755 }; /* permissions of a new folder */

/* A record of getdents64(2). readdir(3) would allocate. */
struct directory_record {
    uint64_t inode; /* number of the file in the file system */
    int64_t next;   /* position of the next record */
    uint16_t bytes; /* size of this record in bytes */
    uint8_t type;   /* DT_DIR, DT_REG and so on */
    char name[];    /* name of the file in the folder */
};

static enum status walk_begin(const char *path, int flags, struct folder_walk *walk,
                              struct fault *fault) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (fd < 0) {
        return fault_set_errno(fault, STATUS_FAILED, path, "cannot open the folder", errno);
    }
    walk->fd = fd;
    walk->filled = 0;
    walk->at = 0;
    return OK;
}

enum status folder_walk_begin(const char *path, struct folder_walk *walk, struct fault *fault) {
    return walk_begin(path, 0, walk, fault);
}

static bool is_folder_at(int fd, const char *name) {
    struct stat info;
    return fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

bool folder_walk_next(struct folder_walk *walk) {
    for (;;) {
        if (walk->at >= walk->filled) {
            walk->filled = syscall(SYS_getdents64, walk->fd, walk->buffer, sizeof walk->buffer);
            walk->at = 0;
            if (walk->filled <= 0) {
                return false;
            }
        }
        const struct directory_record *record =
            (const struct directory_record *)(const void *)(walk->buffer + walk->at);
        walk->at += record->bytes;
        if (strcmp(record->name, ".") != 0 && strcmp(record->name, "..") != 0) {
            walk->name = record->name;
            walk->is_folder = is_folder_at(walk->fd, record->name);
            return true;
        }
    }
}

void folder_walk_end(struct folder_walk *walk) {
    close(walk->fd);
    walk->fd = -1;
}

void folder_sibling_path(const char *path, const char *prefix, char *out, size_t capacity) {
    char parent[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    file_parent_folder(path, parent, sizeof parent);
    struct text text = text_over(out, capacity);
    text_add(&text, "%s/%s%s", parent, prefix, slash == NULL ? path : slash + 1);
    ASSERT(!text.truncated);
}

/* Removes the files that one walk finds, and sets *removed if there was any. Returns STATUS_FAILED
 * at the first file that cannot be removed. */
static enum status remove_files(const char *path, struct folder_walk *walk, bool *removed,
                                struct fault *fault) {
    *removed = false;
    while (folder_walk_next(walk)) {
        if (unlinkat(walk->fd, walk->name, 0) == 0) {
            *removed = true;
        } else if (errno != ENOENT) {
            return fault_set_errno(fault, STATUS_FAILED, path, "cannot empty the folder", errno);
        }
    }
    return OK;
}

/* Removes all files of a folder. A walk may skip names while files are removed, so walks are
 * repeated until one finds no file. */
static enum status empty_folder(const char *path, struct fault *fault) {
    for (bool removed = true; removed;) {
        struct folder_walk walk;
        TRY(walk_begin(path, O_NOFOLLOW, &walk, fault));
        enum status status = remove_files(path, &walk, &removed, fault);
        folder_walk_end(&walk);
        TRY(status);
    }
    return OK;
}

static enum status remove_fault(const char *path, struct fault *fault) {
    return fault_set_errno(fault, STATUS_FAILED, path, "cannot remove", errno);
}

static bool is_link(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

enum status folder_remove(const char *path, struct fault *fault) {
    if (is_link(path)) {
        return unlinkat(AT_FDCWD, path, 0) == 0 ? OK : remove_fault(path, fault);
    }
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        return OK;
    }
    TRY(empty_folder(path, fault));
    return rmdir(path) == 0 ? OK : remove_fault(path, fault);
}

enum status folder_make_empty(const char *path, struct fault *fault) {
    if (is_link(path) && unlinkat(AT_FDCWD, path, 0) != 0) {
        return remove_fault(path, fault);
    }
    if (mkdir(path, FOLDER_MODE) == 0) {
        return OK;
    }
    if (errno != EEXIST) {
        return fault_set_errno(fault, errno == ENOSPC ? STATUS_FIT : STATUS_FAILED, path,
                               "cannot create the folder", errno);
    }
    return empty_folder(path, fault);
}

static enum status rename_fault(const char *to, struct fault *fault) {
    return fault_set_errno(fault, STATUS_FAILED, to, "cannot rename the new folder to this path",
                           errno);
}

/* Replaces a folder in two steps, for file systems that cannot exchange two names. */
static enum status replace_in_two_steps(const char *from, const char *to, const char *displaced,
                                        struct fault *fault) {
    TRY(folder_remove(displaced, fault));
    if (rename(to, displaced) != 0) {
        return rename_fault(to, fault);
    }
    if (rename(from, to) == 0) {
        return OK;
    }
    enum status status = rename_fault(to, fault);
    /* ignored: if this rename fails too, readers find the old folder at `displaced` */
    int restored = rename(displaced, to);
    (void)restored;
    return status;
}

static enum status replace_folder(const char *from, const char *to, const char *displaced,
                                  struct fault *fault) {
    if (rename(from, to) == 0) {
        return OK;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
        return rename_fault(to, fault);
    }
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0
               ? OK
               : replace_in_two_steps(from, to, displaced, fault);
}

enum status folder_replace(const char *from, const char *to, const char *displaced, bool *replaced,
                           struct fault *fault) {
    char parent[PATH_BYTES];
    file_parent_folder(to, parent, sizeof parent);
    enum status status = replace_folder(from, to, displaced, fault);
    *replaced = status == OK;
    TRY(status);
    TRY(file_sync_folder(parent, fault));
    TRY(folder_remove(from, fault));
    return folder_remove(displaced, fault);
}

enum status folder_write_file(const char *folder, const char *name, const void *bytes, size_t count,
                              struct fault *fault) {
    char path[PATH_BYTES];
    path_join(folder, name, path, sizeof path);
    return file_write_new(path, bytes, count, fault);
}

static enum status copy_bytes(int from, const char *from_path, int to, const char *to_path,
                              int64_t bytes, void *buffer, size_t buffer_bytes,
                              struct fault *fault) {
    for (int64_t done = 0; done < bytes; done += (int64_t)buffer_bytes) {
        size_t chunk = bytes - done < (int64_t)buffer_bytes ? (size_t)(bytes - done) : buffer_bytes;
        TRY(file_read_at(from, from_path, buffer, chunk, done, fault));
        TRY(file_write_at(to, to_path, buffer, chunk, done, fault));
    }
    return OK;
}

enum status folder_copy_file(const char *from, const char *to, const char *name, void *buffer,
                             size_t buffer_bytes, struct fault *fault) {
    char from_path[PATH_BYTES];
    char to_path[PATH_BYTES];
    int source;
    int target;
    int64_t bytes;
    path_join(from, name, from_path, sizeof from_path);
    path_join(to, name, to_path, sizeof to_path);
    if (!file_exists(from_path)) {
        return OK;
    }
    TRY(file_open_read(from_path, &source, &bytes, fault));
    enum status status = file_open_write(to_path, &target, fault);
    if (status == OK) {
        status = copy_bytes(source, from_path, target, to_path, bytes, buffer, buffer_bytes, fault);
        status = file_close_written(target, to_path, status, fault);
    }
    close(source);
    return status;
}
