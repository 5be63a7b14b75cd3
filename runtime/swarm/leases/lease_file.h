/* lease_file: the file in a member's state folder with the last lease or resignation that the
 * member gave. The file is durable before the member sends the vote or the resignation, so that the
 * member keeps its promise after a restart.
 *
 * The file has 152 bytes, with little-endian numbers: "SKEPLEAS", format 4, is_resignation 4,
 * round 4, incarnation 4, start 8, swarm 32, state 32, vote 32, and the first 24 bytes of BLAKE2b
 * over all bytes before. */
#ifndef SKEP_SWARM_LEASES_LEASE_FILE_H
#define SKEP_SWARM_LEASES_LEASE_FILE_H

#include "base/fault.h"
#include "base/limits.h"
#include "runtime/swarm/leases/leases.h"

#include <stddef.h>

enum { LEASE_FILE_BYTES = 152 }; /* size of a lease file */

/* lease_bytes_write: encode the content of a lease file.
 * lease_bytes_read: decode the content of a lease file. Returns NULL, or a text that describes the
 * error; *swarm and *lease are then undefined. */
void lease_bytes_write(const struct hash *swarm, const struct lease *lease,
                       uint8_t bytes[static LEASE_FILE_BYTES]);
MUST_CHECK const char *lease_bytes_read(const uint8_t *bytes, size_t count, struct hash *swarm,
                                        struct lease *lease);

/* lease_file_write: replace the file atomically and durably. After an error the old file is
 * unchanged.
 * lease_file_read: read it; *lease is zero if there is no file.
 * path    shorter than PATH_BYTES - 4: the temporary file beside it has ".new" appended
 * errors  write: those of file_replace. read: STATUS_INPUT for a damaged file, or the file of
 *         another swarm; STATUS_FAILED if it cannot be read */
MUST_CHECK enum status lease_file_write(const char *path, const struct hash *swarm,
                                        const struct lease *lease, struct fault *fault);
MUST_CHECK enum status lease_file_read(const char *path, const struct hash *swarm,
                                       struct lease *lease, struct fault *fault);

#endif
