/* rollback_file: the operator's order to roll back, as a file in the tracker's state folder:
 *
 *     {"format": 1, "swarm": HASH, "root": HASH, "newest": HASH, "signature": SIGNATURE}
 *
 * `skep track --rollback` writes it. The tracker reads it when it starts and when it changes. An
 * order is valid once (ledger/rollback.h), so the file may remain. */
#ifndef SKEP_SWARM_TRACKER_ROLLBACK_FILE_H
#define SKEP_SWARM_TRACKER_ROLLBACK_FILE_H

#include "base/fault.h"
#include "base/file.h"
#include "runtime/swarm/ledger/rollback.h"

#include <stdbool.h>

/* The content of a file with an order to roll back. */
struct rollback_file {
    struct hash swarm;           /* hash of the manifest */
    struct hash root;            /* root of the state to return to */
    struct rollback_order order; /* newest entry at the time of the order, and the signature */
};

/* rollback_file_write: replace the file atomically and durably.
 * errors  STATUS_FIT, STATUS_FAILED: the earlier file is unchanged */
MUST_CHECK enum status rollback_file_write(const char *path, const struct rollback_file *file,
                                           struct fault *fault);

/* rollback_file_read: read the file. The signature is not verified.
 * memory  jansson allocates
 * errors  STATUS_INPUT: the file is missing, or has a field that is missing, unknown or invalid */
MUST_CHECK enum status rollback_file_read(const char *path, struct rollback_file *file,
                                          struct fault *fault);

/* file_watch: detects that a file of the operator is new or has changed. Zero it, except for
 * `path`, before the first call.
 * file_watch_poll: whether the file exists and has changed since the last call that returned true.
 * The file is checked at most twice a second. */
struct file_watch {
    const char *path;        /* path of the file */
    struct file_stamp stamp; /* version of the file that was detected last; zero: none */
    int64_t poll_ms;         /* when the file is checked next */
};
bool file_watch_poll(struct file_watch *watch, int64_t now_ms);

#endif
