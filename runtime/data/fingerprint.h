/* fingerprint: a short summary of a set of token files, which detects other data without a full
 * read. */
#ifndef SKEP_DATA_FINGERPRINT_H
#define SKEP_DATA_FINGERPRINT_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/data/data.h"

struct fingerprint {
    uint64_t windows, files, bytes;
    uint64_t hash; /* first 8 bytes of BLAKE2b-256 over size, first and last 64 KiB of each file */
};

enum { FINGERPRINT_VALUES = 4 };

/* fingerprint_of: the fingerprint of the files in their order. Names are not part of it, so files
 * may move.
 * memory  a temporary region
 * errors  those of file_read_at; *fingerprint is then unchanged */
MUST_CHECK enum status fingerprint_of(const struct token_data *data,
                                      struct fingerprint *fingerprint, struct fault *fault);

/* fingerprint_values: the fingerprint in the form that a snapshot stores. */
void fingerprint_values(const struct fingerprint *fingerprint,
                        struct snapshot_value values[static FINGERPRINT_VALUES]);

/* fingerprint_same: check that the fingerprint is the snapshot's. Values that the snapshot lacks
 * are not compared.
 * errors  STATUS_INPUT at data.train, naming the first value that differs */
MUST_CHECK enum status fingerprint_same(const struct fingerprint *fingerprint,
                                        const struct snapshot *snapshot, struct fault *fault);

#endif
