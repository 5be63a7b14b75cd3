/* fingerprint: a short summary of a set of token files, which detects changed data without reading
 * the files in full. */
#ifndef SKEP_DATA_FINGERPRINT_H
#define SKEP_DATA_FINGERPRINT_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/data/data.h"

struct fingerprint {
    uint64_t windows, files, bytes; /* Numbers of windows, of files and of bytes in all files. */
    /* First 8 bytes of BLAKE2b-256 over the size, the first and the last 64 KiB of each file. */
    uint64_t hash;
};

enum { FINGERPRINT_VALUE_COUNT = 4 }; /* number of values that a fingerprint has in a snapshot */

/* fingerprint_compute: compute the fingerprint of the files in their order. It does not include
 * file names, so the files may move.
 * memory  a temporary region
 * errors  those of file_read_at; *fingerprint is then unchanged */
MUST_CHECK enum status fingerprint_compute(const struct token_data *data,
                                           struct fingerprint *fingerprint, struct fault *fault);

/* fingerprint_to_values: convert the fingerprint to the values that a snapshot stores. */
void fingerprint_to_values(const struct fingerprint *fingerprint,
                           struct snapshot_value values[static FINGERPRINT_VALUE_COUNT]);

/* fingerprint_check: check that the fingerprint equals the one in the snapshot. Values that the
 * snapshot lacks are not compared.
 * errors  STATUS_INPUT for data.train; the message has the first value that differs */
MUST_CHECK enum status fingerprint_check(const struct fingerprint *fingerprint,
                                         const struct snapshot *snapshot, struct fault *fault);

#endif
