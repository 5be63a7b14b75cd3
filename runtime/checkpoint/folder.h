/* folder: lists, copies, replaces and removes folders that contain only plain files. No function
 * allocates, so snapshots and exports can be written after seal. */
#ifndef SKEP_CHECKPOINT_FOLDER_H
#define SKEP_CHECKPOINT_FOLDER_H

#include "base/fault.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>

enum { FOLDER_BUFFER_BYTES = 4096 }; /* size of the buffer for directory entries */

/* Walks the names in a folder, except "." and "..", in the order of the file system. Files that are
 * made or removed during the walk may or may not appear.
 *     struct folder_walk walk;
 *     TRY(folder_walk_begin(path, &walk, fault));
 *     while (folder_walk_next(&walk)) { walk.name }
 *     folder_walk_end(&walk); */
struct folder_walk {
    int fd;           /* descriptor of the folder that is read */
    long filled, at;  /* number of bytes in `buffer`; offset of the next record in `buffer` */
    const char *name; /* name of the current entry */
    bool is_folder;   /* the current entry is a folder */
    _Alignas(8) char buffer[FOLDER_BUFFER_BYTES];
};

MUST_CHECK enum status folder_walk_begin(const char *path, struct folder_walk *walk,
                                         struct fault *fault);
bool folder_walk_next(struct folder_walk *walk);
void folder_walk_end(struct folder_walk *walk);

/* folder_sibling_path: "/a/b" with the prefix ".tmp-" is "/a/.tmp-b". */
void folder_sibling_path(const char *path, const char *prefix, char *out, size_t capacity);

/* folder_make_empty: make the folder `path`, or remove the files in it if it exists. A symbolic
 * link at `path` is replaced with a folder; the link's target is not changed. */
MUST_CHECK enum status folder_make_empty(const char *path, struct fault *fault);

/* folder_remove: remove the files and links in a folder, then the folder. A symbolic link at `path`
 * is removed; its target is not changed. A missing folder is OK; a folder that contains folders is
 * an error. */
MUST_CHECK enum status folder_remove(const char *path, struct fault *fault);

/* folder_replace: rename the folder `from` to `to`. If `to` exists, the two names are exchanged, so
 * that `to` is the whole old or the whole new folder at every instant; on a file system that cannot
 * exchange names, the old folder has the name `displaced` for an instant, and none has the name
 * `to`. Then the parent is made durable and the old folder is removed.
 * *replaced  true once `to` is the new folder, also when a later step fails */
MUST_CHECK enum status folder_replace(const char *from, const char *to, const char *displaced,
                                      bool *replaced, struct fault *fault);

/* folder_write_file: write and sync the file folder/name. */
MUST_CHECK enum status folder_write_file(const char *folder, const char *name, const void *bytes,
                                         size_t count, struct fault *fault);

/* folder_copy_file: copy the file from/name to to/name and sync it. A missing file is OK. */
MUST_CHECK enum status folder_copy_file(const char *from, const char *to, const char *name,
                                        void *buffer, size_t buffer_bytes, struct fault *fault);

#endif
