/* allow_list: the operator's file of keys that may join a swarm, roster.yaml.
 *
 *     # YAML comments are kept
 *     open: false              true: every key may join, for a closed network
 *     members:
 *       - key: p2kvh...        as `skep keys` prints it
 *         name: ada            shown to people; optional
 */
#ifndef SKEP_SWARM_TRACKER_ALLOW_LIST_H
#define SKEP_SWARM_TRACKER_ALLOW_LIST_H

#include "base/fault.h"
#include "base/region.h"
#include "base/yaml.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ALLOW_LIST_MAX = 1024,  /* keys; the file then has as many nodes as base/yaml.h can read */
    MEMBER_NAME_BYTES = 64, /* letters, digits, - _ . */
};

struct allow_list_row {
    struct public_keys keys;
    char name[MEMBER_NAME_BYTES]; /* "" for none */
};

/* Two states of a file have different stamps. */
struct file_stamp {
    uint64_t device, inode, bytes;
    int64_t changed_ns;
};

/* Zero it before the first allow_list_read. */
struct allow_list {
    bool open;
    uint32_t count;
    struct allow_list_row rows[ALLOW_LIST_MAX];
    struct file_stamp stamp; /* of the file that was read; zero: the file was missing */
};

/* allow_list_read: read the whole file. A missing file is an empty list.
 * memory  reading YAML allocates, and releases all of it
 * errors  STATUS_INPUT at file:line:column: an unknown field, a key that is invalid or given twice,
 *         an invalid name; *list is then unchanged except for its stamp */
MUST_CHECK enum status allow_list_read(const char *path, struct allow_list *list,
                                       struct fault *fault);

/* allow_list_is_stale: the file has changed since it was read. Allocates nothing. */
bool allow_list_is_stale(const char *path, const struct allow_list *list);

/* allow_list_is_missing: the file was read before, and is missing now. Allocates nothing. */
bool allow_list_is_missing(const char *path, const struct allow_list *list);

/* public_keys_equal: both keys are the same. */
bool public_keys_equal(const struct public_keys *a, const struct public_keys *b);

/* allow_list_find: the row with both keys, or NULL. */
const struct allow_list_row *allow_list_find(const struct allow_list *list,
                                             const struct public_keys *keys);

/* allow_list_has_curve: whether a row has this channel key. Nothing else is known of a process
 * before it introduces itself. */
bool allow_list_has_curve(const struct allow_list *list, const uint8_t curve[static KEY_BYTES]);

/* allow_list_permits: the list is open, or has both keys. */
bool allow_list_permits(const struct allow_list *list, const struct public_keys *keys);

/* member_name_error: the error in a member's name, else NULL. */
MUST_CHECK const char *member_name_error(const char *name);

/* allow_list_add: add a row at the end of the file, which is created if missing.
 * allow_list_remove: remove the row with this key or name.
 * Comments in the file are kept. A reader finds either the old or the new file, and a second editor
 * waits for the first.
 * name    NULL or "": none
 * errors  STATUS_INPUT: those of allow_list_read, a key that is in the file (with its line), a key
 *         or name that is not in it, a full list; STATUS_FIT, STATUS_FAILED: the file cannot be
 *         written, and is unchanged */
MUST_CHECK enum status allow_list_add(const char *path, const char *key, const char *name,
                                      struct fault *fault);
MUST_CHECK enum status allow_list_remove(const char *path, const char *key_or_name,
                                         struct fault *fault);

/* allow_list_read: the rows of a parsed allow-list, for its reader and its editor. */

/* allow_list_rows: all rows of a parsed file; row r is item r of its members.
 * errors  those of allow_list_read; open, count and rows are then undefined */
MUST_CHECK enum status allow_list_rows(const struct yaml_document *document,
                                       struct allow_list *list, struct fault *fault);

/* allow_list_append: add a row at the end. allow_list_erase: remove row `index`.
 * limits  fewer than ALLOW_LIST_MAX rows; index < list->count */
void allow_list_append(struct allow_list *list, const struct allow_list_row *row);
void allow_list_erase(struct allow_list *list, uint32_t index);

/* allow_list_watch: the allow-list as its file says now. A file that disappears or that cannot be
 * read changes nothing. */

struct allow_list_watch {
    const char *path;
    struct allow_list list;
    bool is_missing; /* the file was read before, and does not exist now */
    int64_t poll_ms; /* when the next look at the file is due */
};

/* allow_list_watch_open: read the file for the first time. `path` is kept.
 * errors  those of allow_list_read */
MUST_CHECK enum status allow_list_watch_open(const char *path, struct region *region,
                                             struct allow_list_watch **watch, struct fault *fault);

/* allow_list_watch_poll: read the file if it has changed. True when the list is a new one. */
MUST_CHECK bool allow_list_watch_poll(struct allow_list_watch *watch, int64_t now_ms);

#endif
