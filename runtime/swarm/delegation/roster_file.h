/* roster_file: the file with the operator's newest roster epoch. It is beside the allow-list: for
 * the allow-list FILE it is FILE.signed. */
#ifndef SKEP_SWARM_DELEGATION_ROSTER_FILE_H
#define SKEP_SWARM_DELEGATION_ROSTER_FILE_H

#include "base/fault.h"
#include "base/limits.h"
#include "runtime/swarm/ledger/operator_documents.h"

enum { ROSTER_PATH_BYTES = PATH_BYTES + 8 }; /* size of the path of a roster file, with its NUL */

/* A roster epoch with the swarm that it belongs to. */
struct known_roster {
    struct hash swarm;         /* hash of the swarm's manifest */
    struct roster_epoch epoch; /* the roster epoch; serial 0: none is known */
};

/* roster_file_path: write the path of the roster file that belongs to this allow-list. Returns
 * `path`.
 * limits  allow_list is shorter than PATH_BYTES */
const char *roster_file_path(const char *allow_list, char path[static ROSTER_PATH_BYTES]);

/* roster_file_read: read the roster file and verify that the operator with this key signed it.
 * roster_file_write: replace the file atomically and durably.
 * errors  STATUS_INPUT: the file is missing, damaged or not signed by this key; *known is then
 *         unchanged; those of file_replace: the earlier file remains */
MUST_CHECK enum status roster_file_read(const char *path,
                                        const uint8_t operator_key[static KEY_BYTES],
                                        struct known_roster *known, struct fault *fault);
MUST_CHECK enum status roster_file_write(const char *path, const struct known_roster *known,
                                         struct fault *fault);

#endif
