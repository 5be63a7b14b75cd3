/* allow_list: the operator's file of keys that may join a swarm, roster.yaml.
 *
 *     # YAML comments are kept
 *     open: false              true: other keys may join as guests; three members must vote
 *     members:
 *       - key: p2kvh...        as `skep keys` prints it
 *         name: ada            shown to people; optional
 */
#ifndef SKEP_SWARM_TRACKER_ALLOW_LIST_H
#define SKEP_SWARM_TRACKER_ALLOW_LIST_H

#include "base/fault.h"
#include "base/file.h"
#include "base/region.h"
#include "base/yaml.h"
#include "runtime/swarm/delegation/roster_file.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ALLOW_LIST_MAX = ROSTER_KEYS_MAX, /* maximum number of keys in the list */
    MEMBER_NAME_BYTES = 64,           /* size of the longest name with its NUL: A-Z a-z 0-9 - _ . */
};

/* One process that may join. */
struct allow_list_row {
    struct public_keys keys;      /* public keys of the member */
    char name[MEMBER_NAME_BYTES]; /* name of the member; "" for none */
};

/* The content of an allow-list file. Zero-initialise it before the first allow_list_read. */
struct allow_list {
    bool is_open;   /* every key may join; keys without a row join as guests */
    uint32_t count; /* number of rows in use */
    struct allow_list_row rows[ALLOW_LIST_MAX]; /* [count]: keys and names, in the file's order */
    struct file_stamp stamp; /* version of the file that was read; zero: file missing */
};

/* allow_list_read: reads the whole file. A missing file counts as an empty list.
 * memory  allocates, and releases all of it
 * errors  STATUS_INPUT at file:line:column: an unknown field, a key that is invalid or given twice,
 *         an invalid name; *list is then unchanged except for its stamp */
MUST_CHECK enum status allow_list_read(const char *path, struct allow_list *list,
                                       struct fault *fault);

/* allow_list_read_complete: reads the file for a tracker, which needs a complete list. A list that
 * an operator still edits may be incomplete.
 * errors  also STATUS_INPUT at file:line:column: `open: true` with fewer than ROSTER_VOTERS_MIN
 *         members; *list is then unchanged except for its stamp */
MUST_CHECK enum status allow_list_read_complete(const char *path, struct allow_list *list,
                                                struct fault *fault);

/* allow_list_is_stale: whether the file has changed since it was read. Does not allocate. */
bool allow_list_is_stale(const char *path, const struct allow_list *list);

/* allow_list_is_missing: whether the file was read before and is missing now. Does not allocate. */
bool allow_list_is_missing(const char *path, const struct allow_list *list);

/* allow_list_find: returns the row with these keys, or NULL. */
const struct allow_list_row *allow_list_find(const struct allow_list *list,
                                             const struct public_keys *keys);

/* allow_list_has_channel_key: whether a row has this channel key, the only key of a process that is
 * known before it introduces itself. */
bool allow_list_has_channel_key(const struct allow_list *list,
                                const uint8_t curve[static KEY_BYTES]);

/* allow_list_permits: whether these keys may join: the list is open or contains them. */
bool allow_list_permits(const struct allow_list *list, const struct public_keys *keys);

/* member_name_error: returns the error in a member's name, or NULL if it is valid. */
MUST_CHECK const char *member_name_error(const char *name);

/* allow_list_add: adds a row at the end of the file, which is created if missing.
 * allow_list_remove: removes the row with this key or name. Both keep the comments in the file,
 * replace it atomically, and hold a lock, so that concurrent edits are done one after the other.
 * name    may be NULL or ""
 * errors  STATUS_INPUT: those of allow_list_read, a key to add that is already in the file, a key
 *         or name to remove that is not, or that is one of the last three of an open list, a full
 *         list; STATUS_FIT, STATUS_FAILED: the file cannot be written, and is unchanged */
MUST_CHECK enum status allow_list_add(const char *path, const char *key, const char *name,
                                      struct fault *fault);
MUST_CHECK enum status allow_list_remove(const char *path, const char *key_or_name,
                                         struct fault *fault);

/* The functions below are for the code that reads or edits the allow-list file. */

/* allow_list_parse_rows: reads all rows of a parsed file. Row r is item r of the file's `members`.
 * errors  those of allow_list_read; is_open, count and rows are then undefined */
MUST_CHECK enum status allow_list_parse_rows(const struct yaml_document *document,
                                             struct allow_list *list, struct fault *fault);

/* allow_list_append: adds a row at the end.
 * limits  list->count is less than ALLOW_LIST_MAX
 * allow_list_erase: removes the row with this index.
 * limits  index is less than list->count */
void allow_list_append(struct allow_list *list, const struct allow_list_row *row);
void allow_list_erase(struct allow_list *list, uint32_t index);

/* allow_list_watch: the allow-list, kept up to date with its file. If the file disappears or cannot
 * be read, the list does not change. */

/* The operator of a swarm, as the signer of its list. */
struct allow_list_authority {
    struct hash swarm;                /* hash of the manifest */
    struct public_keys operator_keys; /* public keys of the operator */
    const char *operator_key_path;    /* file that may have the operator's secret keys */
};

/* The allow-list of a running tracker. */
struct allow_list_watch {
    const char *path; /* path of the allow-list file */
    /* operator, who signs the list; NULL: the list is not signed */
    const struct allow_list_authority *authority;
    struct roster_epoch epoch;      /* the operator's newest signed list; serial 0: none */
    struct file_stamp signed_stamp; /* version of the file with the signed list */
    struct allow_list list;         /* content of the file when it was last read */
    bool is_missing;                /* the file was read before and is now missing */
    int64_t poll_ms;                /* when the file is checked next */
};

/* allow_list_watch_open: reads the file for the first time. `path` and `authority` are kept by
 * reference. A list that the operator has not signed is signed, if the operator's secret key is on
 * this machine.
 * errors  those of allow_list_read_complete */
MUST_CHECK enum status allow_list_watch_open(const char *path,
                                             const struct allow_list_authority *authority,
                                             struct region *region, struct allow_list_watch **watch,
                                             struct fault *fault);

/* allow_list_watch_update_epoch: read the operator's signed list again. If the allow-list differs
 * from it, sign the allow-list, if the operator's secret key is on this machine.
 * allow_list_watch_use_epoch: use this roster epoch of the ledger, if it is newer.
 * allow_list_watch_check_epoch: whether there is a roster epoch, without which no round can open.
 * errors  STATUS_INPUT: the operator has never signed the list
 * allow_list_watch_permits: whether these keys may join: by the list, and by the operator's newest
 * signed list, if there is one.
 * allow_list_matches_epoch: whether the operator has signed exactly this list. */
void allow_list_watch_update_epoch(struct allow_list_watch *watch);
void allow_list_watch_use_epoch(struct allow_list_watch *watch, const struct roster_epoch *epoch);
MUST_CHECK enum status allow_list_watch_check_epoch(const struct allow_list_watch *watch,
                                                    struct fault *fault);
bool allow_list_watch_permits(const struct allow_list_watch *watch, const struct public_keys *keys);
bool allow_list_matches_epoch(const struct allow_list *list, const struct roster_epoch *epoch);

/* allow_list_sign: sign the list as the next roster epoch, and write it to its file.
 * errors  STATUS_INPUT: an open list with fewer than three named members; those of
 *         roster_file_write */
MUST_CHECK enum status allow_list_sign(const char *path, const struct allow_list *list,
                                       const struct hash *swarm,
                                       const struct key_pairs *operator_keys, struct fault *fault);

/* allow_list_sign_file: read the list and sign it. The first OPEN of a ledger contains a roster
 * epoch, so a list is signed when its swarm is created.
 * errors  those of allow_list_read_complete and allow_list_sign */
MUST_CHECK enum status allow_list_sign_file(const char *path, const struct hash *swarm,
                                            const struct key_pairs *operator_keys,
                                            struct fault *fault);

/* allow_list_watch_poll: reads the file if it has changed. Returns true when there is a new
 * list. A list with an error is not used, and a warning is logged. */
MUST_CHECK bool allow_list_watch_poll(struct allow_list_watch *watch, int64_t now_ms);

#endif
