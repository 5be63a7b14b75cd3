/* file: complete reads and writes, and the atomic publication of files and folders. No function
 * allocates, except file_read_into_region. Interrupted system calls are repeated.
 * errors  STATUS_FIT when a disk, quota or file size limit is exhausted; STATUS_FAILED for any
 *         other write error */
#ifndef SKEP_BASE_FILE_H
#define SKEP_BASE_FILE_H

#include "base/fault.h"
#include "base/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FILE_HOLDER_BYTES = 32 }; /* size of a process id as text, with its NUL */

/* file_open_read: open a regular file for reading; *bytes is its size. */
MUST_CHECK enum status file_open_read(const char *path, int *fd, int64_t *bytes,
                                      struct fault *fault);
/* file_open_write: create `path` with mode 0644, or truncate it to length 0. */
MUST_CHECK enum status file_open_write(const char *path, int *fd, struct fault *fault);
/* file_open_append: open an existing file for appending; *bytes is its size. */
MUST_CHECK enum status file_open_append(const char *path, int *fd, int64_t *bytes,
                                        struct fault *fault);
/* file_read_at: read exactly `count` bytes from `offset`.
 * errors  STATUS_INPUT when the file is shorter than offset + count */
MUST_CHECK enum status file_read_at(int fd, const char *path, void *buffer, size_t count,
                                    int64_t offset, struct fault *fault);
MUST_CHECK enum status file_write_at(int fd, const char *path, const void *bytes, size_t count,
                                     int64_t offset, struct fault *fault);
/* file_sync: make all written bytes durable (fsync). */
MUST_CHECK enum status file_sync(int fd, const char *path, struct fault *fault);
/* file_close_synced: fsync, then close. The descriptor is closed after a failure too. */
MUST_CHECK enum status file_close_synced(int fd, const char *path, struct fault *fault);
/* file_close_written: close a file after writing: by file_close_synced when `status` is OK, else by
 * close alone. Returns `status` if it is not OK, else the status of file_close_synced. */
MUST_CHECK enum status file_close_written(int fd, const char *path, enum status status,
                                          struct fault *fault);
/* file_write_new: create `path`, or truncate it, write `count` bytes to it, and sync it. */
MUST_CHECK enum status file_write_new(const char *path, const void *bytes, size_t count,
                                      struct fault *fault);
/* file_replace: replace the contents of `path` atomically and durably: write the bytes to
 * `temporary`, a path in the same folder, and rename it. `temporary` is removed on an error. */
MUST_CHECK enum status file_replace(const char *path, const char *temporary, const void *bytes,
                                    size_t count, struct fault *fault);
/* file_read_text: read the whole file into `buffer` and append a NUL.
 * errors  STATUS_INPUT when the file and the NUL exceed `capacity` */
MUST_CHECK enum status file_read_text(const char *path, char *buffer, size_t capacity,
                                      size_t *length, struct fault *fault);
/* file_read_into_region: read the whole file into memory in `region` and append a NUL.
 * errors  STATUS_INPUT when the file is larger than `bytes_max`; *text and *length are unchanged */
MUST_CHECK enum status file_read_into_region(const char *path, size_t bytes_max,
                                             struct region *region, char **text, size_t *length,
                                             struct fault *fault);
/* file_publish: rename `from`, a file that the caller has synced, to `to`, and fsync its folder. */
MUST_CHECK enum status file_publish(const char *from, const char *to, struct fault *fault);
/* file_unfinished_path: write `path` + ".new" to `out`: the name of a file until file_publish
 * renames it, so that the file `path` is complete at any moment. */
void file_unfinished_path(const char *path, char *out, size_t capacity);
/* file_sync_folder: make the directory entries of a folder durable. */
MUST_CHECK enum status file_sync_folder(const char *path, struct fault *fault);
/* file_make_folders: create the folder `path` and its missing parents, like mkdir -p. */
MUST_CHECK enum status file_make_folders(const char *path, struct fault *fault);
/* file_lock: create or open `path`, lock it, and write the id of this process to it. Closing *fd
 * releases the lock. When another process has locked the file, *fd is -1 and `holder` is the id of
 * that process. */
MUST_CHECK enum status file_lock(const char *path, int *fd, char holder[static FILE_HOLDER_BYTES],
                                 struct fault *fault);
bool file_exists(const char *path);
/* file_stamp: identifies one version of a file: the stamp differs after every change.
 * file_stamp_of: the stamp of the file at `path`; zero if there is none. */
struct file_stamp {
    uint64_t device, inode, size; /* numbers and size of the file, as stat returns them */
    int64_t changed_ns;           /* time of the last change of the file */
};
struct file_stamp file_stamp_of(const char *path);
bool file_stamp_equal(const struct file_stamp *a, const struct file_stamp *b);
/* file_instance: identifies a file as long as it exists. A copy is another instance.
 * file_instance_of: the instance of the file at `path`; zero if there is none. */
struct file_instance {
    uint64_t inode;     /* number of the file, as stat returns it */
    int64_t created_ns; /* time of creation; 0 if the file system does not store it */
};
struct file_instance file_instance_of(const char *path);
bool file_is_folder(const char *path);
/* path_join: write folder + "/" + name to `out`, or only `name` when `name` is absolute.
 * limits  the result and its NUL fit in `capacity` bytes */
void path_join(const char *folder, const char *name, char *out, size_t capacity);
/* file_parent_folder: the folder that contains `path`: the part before the last '/', or ".". */
void file_parent_folder(const char *path, char *out, size_t capacity);

#endif
