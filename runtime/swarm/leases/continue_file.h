/* continue_file: the file in the tracker's state folder with which an operator orders a waiting
 * tracker to continue without leases:
 *
 *     {"format": 1, "swarm": HASH, "state": HASH, "incarnation": N, "start": N,
 *      "members": [KEY, ...], "signature": SIGNATURE}
 *
 * The tracker writes it with an all-zero signature when it waits because a fork is possible;
 * `skep track --continue` signs it. An order is valid for one start and one state entry, so the
 * file may remain. */
#ifndef SKEP_SWARM_LEASES_CONTINUE_FILE_H
#define SKEP_SWARM_LEASES_CONTINUE_FILE_H

#include "base/fault.h"
#include "runtime/swarm/leases/leases.h"

/* The content of a file with an order to continue. */
struct continue_file {
    struct hash swarm;           /* hash of the manifest */
    struct hash state;           /* hash of the state entry after which the tracker continues */
    struct tracker_start start;  /* the start of the tracker that continues */
    struct continue_order order; /* the members that continue, and the operator's signature */
};

/* continue_file_write: replace the file atomically and durably.
 * continue_file_read: read the file. The signature is not verified.
 * memory  reading: jansson allocates
 * errors  write: STATUS_FIT, STATUS_FAILED: the earlier file is unchanged. read: STATUS_INPUT: the
 *         file is missing, or has a field that is missing, unknown or invalid */
MUST_CHECK enum status continue_file_write(const char *path, const struct continue_file *file,
                                           struct fault *fault);
MUST_CHECK enum status continue_file_read(const char *path, struct continue_file *file,
                                          struct fault *fault);

#endif
