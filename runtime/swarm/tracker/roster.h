/* roster: the file that says whose processes a swarm lets in.
 *
 *     # any YAML comments
 *     open: false              true: whoever connects, for a closed network
 *     members:
 *       - key: p2kvh...        as `skep keys` prints it
 *         name: ada            for people; may be missing
 */
#ifndef SKEP_SWARM_TRACKER_ROSTER_H
#define SKEP_SWARM_TRACKER_ROSTER_H

#include "base/fault.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ROSTER_MAX = 1024,      /* keys in it; a file of as many nodes as base/yaml.h reads */
    ROSTER_NAME_BYTES = 64, /* letters, digits, - _ . */
};

struct roster_row {
    struct public_keys keys;
    char name[ROSTER_NAME_BYTES]; /* "" for none */
};

/* What tells one state of a file from another. */
struct roster_stamp {
    uint64_t device, inode, bytes;
    int64_t changed_ns;
};

/* Zero it before its first reading. */
struct roster {
    bool open;
    uint32_t count;
    struct roster_row rows[ROSTER_MAX];
    struct roster_stamp stamp; /* of the file that was read; zero: there was none */
};

/* roster_read: the whole file; none is an empty roster.
 * memory  reading YAML allocates, and gives all of it back
 * errors  STATUS_INPUT at file:line:column: an unknown field, a key that is none or stands there
 *         twice, a name that is none; *roster is then untouched but for its stamp */
MUST_CHECK enum status roster_read(const char *path, struct roster *roster, struct fault *fault);

/* roster_is_stale: the file is another one than was read. Allocates nothing. */
bool roster_is_stale(const char *path, const struct roster *roster);

/* roster_is_lost: a file was read, and is not there now. Allocates nothing. */
bool roster_is_lost(const char *path, const struct roster *roster);

/* roster_find: the row with both keys, or NULL. */
const struct roster_row *roster_find(const struct roster *roster, const struct public_keys *keys);

/* roster_has_curve: whether a row has this channel key: all that is known of who has not introduced
 * itself. */
bool roster_has_curve(const struct roster *roster, const uint8_t curve[static KEY_BYTES]);

/* roster_lets_in: the roster is open, or has both keys. */
bool roster_lets_in(const struct roster *roster, const struct public_keys *keys);

/* roster_name_wrong: why a name cannot be one, else NULL. */
MUST_CHECK const char *roster_name_wrong(const char *name);

/* roster_add: one more row at the end; the file is made when there is none. Comments stay.
 * roster_remove: the row of that key or name goes.
 * Whoever reads the file meanwhile finds the old one or the new one; a second editor waits.
 * name    NULL or "": none
 * errors  STATUS_INPUT: what roster_read refuses, a key that is there already (with its line), a
 *         key or name that is not there, a full roster; STATUS_FIT, STATUS_FAILED: the file cannot
 *         be written, and is as it was */
MUST_CHECK enum status roster_add(const char *path, const char *key, const char *name,
                                  struct fault *fault);
MUST_CHECK enum status roster_remove(const char *path, const char *key_or_name,
                                     struct fault *fault);

#endif
