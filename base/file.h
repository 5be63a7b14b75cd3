/* file: whole reads and writes, and the atomic publication of files and folders. Nothing here
 * allocates. Interrupted calls are taken up again.
 * errors  STATUS_FIT when a disk, quota or file size limit is exhausted; STATUS_FAILED when
 *         anything else goes wrong in writing */
#ifndef SKEP_BASE_FILE_H
#define SKEP_BASE_FILE_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* file_open_read: open for reading; *bytes is the size. Only regular files; errors name `path`. */
MUST_CHECK enum status file_open_read(const char *path, int *fd, int64_t *bytes,
                                      struct fault *fault);
/* file_open_write: create or empty `path`, mode 0644. */
MUST_CHECK enum status file_open_write(const char *path, int *fd, struct fault *fault);
/* file_open_append: open a file that exists for writing behind its end; *bytes is its size. */
MUST_CHECK enum status file_open_append(const char *path, int *fd, int64_t *bytes,
                                        struct fault *fault);
/* file_read_at: exactly `count` bytes from `offset`; a shorter file is STATUS_INPUT. */
MUST_CHECK enum status file_read_at(int fd, const char *path, void *buffer, size_t count,
                                    int64_t offset, struct fault *fault);
MUST_CHECK enum status file_write_at(int fd, const char *path, const void *bytes, size_t count,
                                     int64_t offset, struct fault *fault);
/* file_sync: make what was written durable; the file stays open. */
MUST_CHECK enum status file_sync(int fd, const char *path, struct fault *fault);
/* file_close_synced: fsync, then close. The descriptor is closed whatever happens. */
MUST_CHECK enum status file_close_synced(int fd, const char *path, struct fault *fault);
/* file_read_text: the whole file, NUL-terminated, into the caller's buffer; larger is refused. */
MUST_CHECK enum status file_read_text(const char *path, char *buffer, size_t capacity,
                                      size_t *length, struct fault *fault);
/* file_publish: rename `from`, whose bytes were synced, to `to`; fsync the folder that holds it. */
MUST_CHECK enum status file_publish(const char *from, const char *to, struct fault *fault);
/* file_sync_folder: make the entries of a folder durable. */
MUST_CHECK enum status file_sync_folder(const char *path, struct fault *fault);
/* file_make_folders: mkdir -p. */
MUST_CHECK enum status file_make_folders(const char *path, struct fault *fault);
bool file_exists(const char *path);
bool file_is_folder(const char *path);
/* file_join: folder + "/" + name into `out`; an absolute `name` stands alone.
 * limits  the whole, with its end, fits `capacity` */
void file_join(const char *folder, const char *name, char *out, size_t capacity);
/* file_folder_of: everything before the last '/', or "." . */
void file_folder_of(const char *path, char *out, size_t capacity);

#endif
