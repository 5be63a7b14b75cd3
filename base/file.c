#include "base/file.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MODE = 0644, FOLDER_MODE = 0755 }; /* permissions of new files and folders */

enum status file_open_read(const char *path, int *fd, int64_t *bytes, struct fault *fault) {
    /* O_NONBLOCK: opening a pipe would wait for its writer. The check below rejects pipes. */
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0) {
        return fault_set_errno(fault, STATUS_INPUT, path, "cannot open", errno);
    }
    struct stat info;
    if (fstat(opened, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(opened);
        return fault_set(fault, STATUS_INPUT, path, "name a file", "is not a regular file");
    }
    *fd = opened;
    *bytes = info.st_size;
    return OK;
}

/* Every call that writes returns STATUS_FIT when a disk, quota or file size limit is exhausted. */
static enum status set_write_fault(const char *path, const char *action, int errno_value,
                                   struct fault *fault) {
    bool full = errno_value == ENOSPC || errno_value == EDQUOT || errno_value == EFBIG;
    return fault_set_errno(fault, full ? STATUS_FIT : STATUS_FAILED, path, action, errno_value);
}

enum status file_open_write(const char *path, int *fd, struct fault *fault) {
    int opened = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
    if (opened < 0) {
        return set_write_fault(path, "cannot create", errno, fault);
    }
    *fd = opened;
    return OK;
}

enum status file_open_append(const char *path, int *fd, int64_t *bytes, struct fault *fault) {
    int opened = open(path, O_WRONLY | O_CLOEXEC);
    struct stat info;
    if (opened < 0 || fstat(opened, &info) != 0) {
        int failure = errno;
        if (opened >= 0) {
            close(opened);
        }
        return set_write_fault(path, "cannot open for writing", failure, fault);
    }
    *fd = opened;
    *bytes = info.st_size;
    return OK;
}

enum status file_read_at(int fd, const char *path, void *buffer, size_t count, int64_t offset,
                         struct fault *fault) {
    size_t done = 0;
    while (done < count) {
        ssize_t bytes_read = pread(fd, (char *)buffer + done, count - done, offset + (int64_t)done);
        if (bytes_read < 0 && errno == EINTR) {
            continue;
        }
        if (bytes_read < 0) {
            return fault_set_errno(fault, STATUS_FAILED, path, "cannot read", errno);
        }
        if (bytes_read == 0) {
            return fault_set(fault, STATUS_INPUT, path, "download the file again",
                             "is truncated: %lld bytes are needed, and the last %zu are missing",
                             (long long)(offset + (int64_t)count), count - done);
        }
        done += (size_t)bytes_read;
    }
    return OK;
}

enum status file_write_at(int fd, const char *path, const void *bytes, size_t count, int64_t offset,
                          struct fault *fault) {
    size_t done = 0;
    while (done < count) {
        ssize_t written =
            pwrite(fd, (const char *)bytes + done, count - done, offset + (int64_t)done);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return set_write_fault(path, "cannot write", written == 0 ? ENOSPC : errno, fault);
        }
        done += (size_t)written;
    }
    return OK;
}

enum status file_sync(int fd, const char *path, struct fault *fault) {
    return fsync(fd) == 0 ? OK : set_write_fault(path, "cannot sync", errno, fault);
}

enum status file_close_synced(int fd, const char *path, struct fault *fault) {
    int failure = fsync(fd) != 0 ? errno : 0;
    if (close(fd) != 0 && failure == 0) {
        failure = errno;
    }
    return failure == 0 ? OK : set_write_fault(path, "cannot sync and close", failure, fault);
}

enum status file_close_written(int fd, const char *path, enum status status, struct fault *fault) {
    if (status != OK) {
        close(fd);
        return status;
    }
    return file_close_synced(fd, path, fault);
}

enum status file_write_new(const char *path, const void *bytes, size_t count, struct fault *fault) {
    int fd = -1;
    TRY(file_open_write(path, &fd, fault));
    enum status status = file_write_at(fd, path, bytes, count, 0, fault);
    return file_close_written(fd, path, status, fault);
}

enum status file_replace(const char *path, const char *temporary, const void *bytes, size_t count,
                         struct fault *fault) {
    enum status status = file_write_new(temporary, bytes, count, fault);
    if (status == OK) {
        status = file_publish(temporary, path, fault);
    }
    if (status != OK) {
        unlink(temporary);
    }
    return status;
}

/* Opens a file that is to be read whole, and sets *length to its size, at most bytes_max. */
static enum status open_bounded_file(const char *path, size_t bytes_max, int *fd, size_t *length,
                                     struct fault *fault) {
    int64_t bytes;
    TRY(file_open_read(path, fd, &bytes, fault));
    if (bytes > (int64_t)bytes_max) {
        close(*fd);
        return fault_set(fault, STATUS_INPUT, path, NULL, "is %lld bytes long; the limit is %zu",
                         (long long)bytes, bytes_max);
    }
    *length = (size_t)bytes;
    return OK;
}

static enum status read_whole_file(int fd, const char *path, char *text, size_t length,
                                   struct fault *fault) {
    enum status status = file_read_at(fd, path, text, length, 0, fault);
    close(fd);
    text[length] = '\0';
    return status;
}

enum status file_read_text(const char *path, char *buffer, size_t capacity, size_t *length,
                           struct fault *fault) {
    int fd;
    size_t bytes;
    TRY(open_bounded_file(path, capacity - 1, &fd, &bytes, fault));
    TRY(read_whole_file(fd, path, buffer, bytes, fault));
    *length = bytes;
    return OK;
}

enum status file_read_into_region(const char *path, size_t bytes_max, struct region *region,
                                  char **text, size_t *length, struct fault *fault) {
    int fd;
    size_t bytes;
    TRY(open_bounded_file(path, bytes_max, &fd, &bytes, fault));
    char *buffer = region_alloc(region, bytes + 1, 1);
    TRY(read_whole_file(fd, path, buffer, bytes, fault));
    *text = buffer;
    *length = bytes;
    return OK;
}

enum status file_sync_folder(const char *path, struct fault *fault) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return fault_set_errno(fault, STATUS_FAILED, path, "cannot open the folder", errno);
    }
    int failure = fsync(fd) != 0 ? errno : 0;
    close(fd);
    return failure == 0 ? OK : set_write_fault(path, "cannot sync", failure, fault);
}

enum status file_publish(const char *from, const char *to, struct fault *fault) {
    if (rename(from, to) != 0) {
        return set_write_fault(to, "cannot rename the finished file", errno, fault);
    }
    char folder[4096];
    file_parent_folder(to, folder, sizeof folder);
    return file_sync_folder(folder, fault);
}

void file_unfinished_path(const char *path, char *out, size_t capacity) {
    int length = snprintf(out, capacity, "%s.new", path);
    ASSERT(length >= 0 && (size_t)length < capacity);
}

enum status file_make_folders(const char *path, struct fault *fault) {
    char part[4096];
    size_t length = strlen(path);
    ASSERT(length < sizeof part);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, FOLDER_MODE) != 0 && errno != EEXIST) {
            return set_write_fault(part, "cannot create the folder", errno, fault);
        }
    }
    if (!file_is_folder(path)) {
        return fault_set(fault, STATUS_FAILED, path, "choose a different folder",
                         "is not a folder");
    }
    return OK;
}

static enum status write_process_id(int fd, const char *path, struct fault *fault) {
    char process[FILE_HOLDER_BYTES];
    int length = snprintf(process, sizeof process, "%d", (int)getpid());
    return ftruncate(fd, 0) == 0
               ? file_write_at(fd, path, process, (size_t)length, 0, fault)
               : fault_set_errno(fault, STATUS_FAILED, path, "cannot write", errno);
}

enum status file_lock(const char *path, int *fd, char holder[static FILE_HOLDER_BYTES],
                      struct fault *fault) {
    int opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    if (opened < 0) {
        return fault_set_errno(fault, STATUS_FAILED, path, "cannot open", errno);
    }
    *fd = -1;
    memset(holder, 0, FILE_HOLDER_BYTES);
    if (flock(opened, LOCK_EX | LOCK_NB) != 0) {
        ssize_t got = pread(opened, holder, FILE_HOLDER_BYTES - 1, 0);
        (void)got;
        close(opened);
        return OK;
    }
    enum status status = write_process_id(opened, path, fault);
    if (status != OK) {
        close(opened);
        return status;
    }
    *fd = opened;
    return OK;
}

bool file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

struct file_stamp file_stamp_of(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) {
        return (struct file_stamp){0};
    }
    return (struct file_stamp){.device = info.st_dev,
                               .inode = info.st_ino,
                               .size = (uint64_t)info.st_size,
                               .changed_ns = (int64_t)info.st_mtim.tv_sec * NS_PER_SECOND +
                                             info.st_mtim.tv_nsec};
}

bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b) {
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->changed_ns == b->changed_ns;
}

struct file_instance file_instance_of(const char *path) {
    struct statx info;
    if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &info) != 0) {
        return (struct file_instance){0};
    }
    const bool has_time = (info.stx_mask & STATX_BTIME) != 0;
    return (struct file_instance){.inode = info.stx_ino,
                                  .created_ns = has_time ? info.stx_btime.tv_sec * NS_PER_SECOND +
                                                               info.stx_btime.tv_nsec
                                                         : 0};
}

bool file_is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

void path_join(const char *folder, const char *name, char *out, size_t capacity) {
    int length = name[0] == '/' || folder[0] == '\0'
                     ? snprintf(out, capacity, "%s", name)
                     : snprintf(out, capacity, "%s%s%s", folder,
                                folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    ASSERT(length >= 0 && (size_t)length < capacity);
}

void file_parent_folder(const char *path, char *out, size_t capacity) {
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    ASSERT(length < capacity && capacity > 1);
    memcpy(out, slash == NULL ? "." : path, slash == NULL ? 1 : length);
    out[slash == NULL ? 1 : length] = '\0';
}
