/* folder: listing, copying, replacing and removing flat folders of plain files, without memory of
 * its own, so that snapshots and exports can be written after seal. */
#ifndef SKEP_CHECKPOINT_FOLDER_H
#define SKEP_CHECKPOINT_FOLDER_H

#include "base/fault.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>

enum { FOLDER_BUFFER_BYTES = 4096 };

/* Walks the names in a folder, "." and ".." left out, in the file system's order. Names of files
 * that are made or removed during the walk may or may not appear.
 *     struct folder_walk walk;
 *     for (status = folder_walk_begin(path, &walk, fault); folder_walk_next(&walk); ) { walk.name }
 *     folder_walk_end(&walk); */
struct folder_walk {
    int fd;
    long filled, at;
    const char *name;
    bool is_folder;
    _Alignas(8) char buffer[FOLDER_BUFFER_BYTES];
};

MUST_CHECK enum status folder_walk_begin(const char *path, struct folder_walk *walk,
                                         struct fault *fault);
bool folder_walk_next(struct folder_walk *walk);
void folder_walk_end(struct folder_walk *walk);

/* folder_sibling: "/a/b" with the prefix ".tmp-" is "/a/.tmp-b". */
void folder_sibling(const char *path, const char *prefix, char *out, size_t capacity);

/* folder_make_empty: `path` exists and is empty; what an interrupted run left in it is removed. A
 * link in its place is removed, and what it leads to stays. */
MUST_CHECK enum status folder_make_empty(const char *path, struct fault *fault);

/* folder_remove: its plain files and links, then itself; of a link the link alone; OK when it is
 * not there. A folder in it is an error. */
MUST_CHECK enum status folder_remove(const char *path, struct fault *fault);

/* folder_replace: put the folder `from` in the place of `to`, which may exist: at every instant
 * `to` is the whole old or the whole new folder (on file systems that can exchange two names; on
 * others the old one stands as `aside` for an instant). The parent is made durable, the old folder
 * removed.
 * *replaced  true once `to` is the new folder, also when a later step fails */
MUST_CHECK enum status folder_replace(const char *from, const char *to, const char *aside,
                                      bool *replaced, struct fault *fault);

/* folder_write_file: folder/name with these bytes, durable. */
MUST_CHECK enum status folder_write_file(const char *folder, const char *name, const void *bytes,
                                         size_t count, struct fault *fault);

/* folder_copy_file: from/name to to/name, durable; *copied false when it is not there. */
MUST_CHECK enum status folder_copy_file(const char *from, const char *to, const char *name,
                                        void *buffer, size_t buffer_bytes, bool *copied,
                                        struct fault *fault);

#endif
