#include "tests/unit/checkpoint/disk_double.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRACKED_MAX = 64, TRACKED_PATH_BYTES = 256 };

static struct {
    enum disk_mode mode;
    int at, calls, violations, allocations;
    int64_t read_bytes, allocated_bytes;
    bool active, can_exchange, rename_pending;
    char dirty[TRACKED_MAX][TRACKED_PATH_BYTES]; /* "" for a free row */
} disk;

void disk_begin(enum disk_mode mode, int at, bool can_exchange) {
    memset(&disk, 0, sizeof disk);
    disk.mode = mode;
    disk.at = at;
    disk.can_exchange = can_exchange;
    disk.active = true;
}

int disk_end(void) {
    disk.active = false;
    return disk.calls;
}

int disk_violations(void) {
    return disk.violations;
}

int64_t disk_read_bytes(void) {
    return disk.read_bytes;
}

int disk_allocations(void) {
    return disk.allocations;
}

int64_t disk_allocated_bytes(void) {
    return disk.allocated_bytes;
}

/* Counts a call; true when it must fail. */
static bool strike(void) {
    if (!disk.active || ++disk.calls != disk.at) {
        return false;
    }
    if (disk.mode == DISK_KILL || disk.mode == DISK_TEAR) {
        _exit(DISK_KILLED);
    }
    return disk.mode == DISK_ERROR;
}

static int failed(int error) {
    errno = error;
    return -1;
}

static char *find_dirty(const char *path) {
    for (int i = 0; i < TRACKED_MAX; i++) {
        if (strcmp(disk.dirty[i], path) == 0) {
            return disk.dirty[i];
        }
    }
    return NULL;
}

static void set_dirty(const char *path, bool dirty) {
    if (!disk.active) {
        return;
    }
    char *row = find_dirty(path);
    if (!dirty && row != NULL) {
        row[0] = '\0';
    }
    if (dirty && row == NULL) {
        row = find_dirty("");
        ASSERT(row != NULL && strlen(path) < TRACKED_PATH_BYTES);
        memcpy(row, path, strlen(path) + 1);
    }
}

static void set_parent_dirty(const char *path) {
    char parent[TRACKED_PATH_BYTES] = {0};
    const char *slash = strrchr(path, '/');
    ASSERT(slash != NULL && slash - path < TRACKED_PATH_BYTES);
    memcpy(parent, path, (size_t)(slash - path));
    set_dirty(parent, true);
}

static void path_of(int fd, char path[static TRACKED_PATH_BYTES]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, TRACKED_PATH_BYTES - 1);
    path[length > 0 ? length : 0] = '\0';
}

static bool is_commit(const char *to) {
    const char *slash = strrchr(to, '/');
    return disk.active && slash != NULL && strncmp(slash, "/step-", 6) == 0;
}

/* A power cut may keep a rename and lose what was not synced before it. */
static void check_commit(const char *from, const char *to) {
    for (int i = 0; i < TRACKED_MAX && is_commit(to); i++) {
        disk.violations += strncmp(disk.dirty[i], from, strlen(from)) == 0;
    }
}

static void note_commit(const char *to) {
    if (is_commit(to)) {
        set_parent_dirty(to);
        disk.rename_pending = true;
    }
}

static void check_removal(void) {
    disk.violations += disk.active && disk.rename_pending;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, unsigned mode);
int __wrap_open64(const char *path, int flags, unsigned mode) {
    if (strike()) {
        return failed(flags & O_CREAT ? ENOSPC : EIO);
    }
    if (flags & O_CREAT) {
        set_dirty(path, true);
        set_parent_dirty(path);
    }
    return __real_open64(path, flags, mode);
}

ssize_t __real_pwrite64(int fd, const void *bytes, size_t count, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t count, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t count, off_t offset) {
    char path[TRACKED_PATH_BYTES];
    if (disk.active && disk.mode == DISK_TEAR && disk.calls + 1 == disk.at) {
        ssize_t torn = __real_pwrite64(fd, bytes, count / 2, offset);
        (void)torn;
    }
    if (strike()) {
        return failed(ENOSPC);
    }
    path_of(fd, path);
    set_dirty(path, true);
    return __real_pwrite64(fd, bytes, count, offset);
}

ssize_t __real_pread64(int fd, void *bytes, size_t count, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t count, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t count, off_t offset) {
    ssize_t got = __real_pread64(fd, bytes, count, offset);
    disk.read_bytes += got > 0 ? got : 0;
    return got;
}

int __wrap_fallocate64(int fd, int mode, off_t offset, off_t bytes);
int __real_fallocate64(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t bytes) {
    return strike() ? failed(ENOSPC) : __real_fallocate64(fd, mode, offset, bytes);
}

/* Nothing is really cut off here, so nothing need really be synced: thousands of cases stay
 * quick. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd) {
    char path[TRACKED_PATH_BYTES];
    if (strike()) {
        return failed(EIO);
    }
    path_of(fd, path);
    set_dirty(path, false);
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) && find_dirty(path) == NULL) {
        disk.rename_pending = disk.rename_pending && strstr(path, "step-") != NULL;
    }
    return 0;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
    if (strike()) {
        return failed(EIO);
    }
    check_commit(from, to);
    int result = __real_rename(from, to);
    if (result == 0) {
        note_commit(to);
    }
    return result;
}

int __real_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags);
int __wrap_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    if (strike()) {
        return failed(EIO);
    }
    if (disk.active && !disk.can_exchange) {
        return failed(EINVAL);
    }
    check_commit(from, to);
    int result = __real_renameat2(from_fd, from, to_fd, to, flags);
    if (result == 0) {
        note_commit(to);
    }
    return result;
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode) {
    return strike() ? failed(ENOSPC) : __real_mkdir(path, mode);
}

int __real_rmdir(const char *path);
int __wrap_rmdir(const char *path);
int __wrap_rmdir(const char *path) {
    if (strike()) {
        return failed(EIO);
    }
    check_removal();
    return __real_rmdir(path);
}

int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags) {
    if (strike()) {
        return failed(EIO);
    }
    check_removal();
    return __real_unlinkat(fd, name, flags);
}

/* Ours stand before the C library's for the whole process, its own inner calls included. Sanitizers
 * bring theirs. */
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
static void note_allocation(size_t bytes) {
    disk.allocations++;
    disk.allocated_bytes += (int64_t)bytes;
}

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

__attribute__((visibility("default"))) void *malloc(size_t bytes) {
    note_allocation(bytes);
    return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes) {
    note_allocation(count * bytes);
    return __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t bytes) {
    note_allocation(bytes);
    return __libc_realloc(memory, bytes);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t align, size_t bytes) {
    note_allocation(bytes);
    return __libc_memalign(align, bytes);
}
#endif
