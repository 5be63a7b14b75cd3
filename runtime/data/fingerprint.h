/* fingerprint: what tells one set of token files from another without reading all of them. */
#ifndef SKEP_DATA_FINGERPRINT_H
#define SKEP_DATA_FINGERPRINT_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/data/data.h"

struct fingerprint {
    uint64_t windows, files, bytes;
    uint64_t
        hash; /* the first 8 bytes of BLAKE2b-256 over each file's size, first and last 64 KiB */
};

enum { FINGERPRINT_VALUES = 4 };

/* fingerprint_of: the files in their order, their names left out: a data set may move.
 * memory  scratch of its own, given back
 * errors  those of file_read_at; *fingerprint is then untouched */
MUST_CHECK enum status fingerprint_of(const struct token_data *data,
                                      struct fingerprint *fingerprint, struct fault *fault);

/* fingerprint_values: what a snapshot keeps of it. */
void fingerprint_values(const struct fingerprint *fingerprint,
                        struct snapshot_value values[static FINGERPRINT_VALUES]);

/* fingerprint_same: the data are those of the snapshot's run. What a snapshot does not have is not
 * compared.
 * errors  STATUS_INPUT at data.train, saying what differs */
MUST_CHECK enum status fingerprint_same(const struct fingerprint *fingerprint,
                                        const struct snapshot *snapshot, struct fault *fault);

#endif
