/* roster: the file that says whose processes a swarm lets in.
 *
 *     # any YAML comments
 *     open: false              true: whoever connects, for a closed network
 *     members:
 *       - key: p2kvh...        as `skep keys` prints it
 *         name: ada            for people; may be missing
 */
#ifndef SKEP_SWARM_TRACKER_ALLOW_LIST_H
#define SKEP_SWARM_TRACKER_ALLOW_LIST_H

#include "base/fault.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ALLOW_LIST_MAX = 1024,  /* keys in it; a file of as many nodes as base/yaml.h reads */
    MEMBER_NAME_BYTES = 64, /* letters, digits, - _ . */
};

struct allow_list_row {
    struct public_keys keys;
    char name[MEMBER_NAME_BYTES]; /* "" for none */
};

/* What tells one state of a file from another. */
struct file_stamp {
    uint64_t device, inode, bytes;
    int64_t changed_ns;
};

/* Zero it before its first reading. */
struct allow_list {
    bool open;
    uint32_t count;
    struct allow_list_row rows[ALLOW_LIST_MAX];
    struct file_stamp stamp; /* of the file that was read; zero: there was none */
};

/* allow_list_read: the whole file; none is an empty roster.
 * memory  reading YAML allocates, and gives all of it back
 * errors  STATUS_INPUT at file:line:column: an unknown field, a key that is none or stands there
 *         twice, a name that is none; *roster is then untouched but for its stamp */
MUST_CHECK enum status allow_list_read(const char *path, struct allow_list *roster,
                                       struct fault *fault);

/* allow_list_is_stale: the file is another one than was read. Allocates nothing. */
bool allow_list_is_stale(const char *path, const struct allow_list *roster);

/* allow_list_is_missing: a file was read, and is not there now. Allocates nothing. */
bool allow_list_is_missing(const char *path, const struct allow_list *roster);

/* public_keys_equal: both keys are the same. */
bool public_keys_equal(const struct public_keys *a, const struct public_keys *b);

/* allow_list_find: the row with both keys, or NULL. */
const struct allow_list_row *allow_list_find(const struct allow_list *roster,
                                             const struct public_keys *keys);

/* allow_list_has_curve: whether a row has this channel key: all that is known of who has not
 * introduced itself. */
bool allow_list_has_curve(const struct allow_list *roster, const uint8_t curve[static KEY_BYTES]);

/* allow_list_permits: the roster is open, or has both keys. */
bool allow_list_permits(const struct allow_list *roster, const struct public_keys *keys);

/* member_name_error: why a name cannot be one, else NULL. */
MUST_CHECK const char *member_name_error(const char *name);

/* allow_list_add: one more row at the end; the file is made when there is none. Comments stay.
 * allow_list_remove: the row of that key or name goes.
 * Whoever reads the file meanwhile finds the old one or the new one; a second editor waits.
 * name    NULL or "": none
 * errors  STATUS_INPUT: what allow_list_read refuses, a key that is there already (with its line),
 *         a key or name that is not there, a full roster; STATUS_FIT, STATUS_FAILED: the file
 *         cannot be written, and is as it was */
MUST_CHECK enum status allow_list_add(const char *path, const char *key, const char *name,
                                      struct fault *fault);
MUST_CHECK enum status allow_list_remove(const char *path, const char *key_or_name,
                                         struct fault *fault);

#endif
