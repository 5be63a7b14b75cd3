/* result_file: all results of a round in one file, each checked by its hash when it is read.
 *
 *     | mark 16 | round 4 | slices 4 | {epoch 4, owner 4, contributors 8, bytes 8, hash 32} ... |
 *     | hash of all that 32 | results, one behind the other |
 *
 * The file is written under another name and renamed, so that it is there whole or not at all. */
#ifndef SKEP_SWARM_REPLICA_RESULT_FILE_H
#define SKEP_SWARM_REPLICA_RESULT_FILE_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/replica/slices.h"

/* What files of one swarm have in common. */
struct result_files {
    struct slices slices;
    uint8_t *head; /* scratch */
    size_t head_bytes;
};

/* result_files_init: memory for heads in `region`; nothing allocates later. */
void result_files_init(const struct slices *slices, struct region *region,
                       struct result_files *files);

/* result_files_bytes: of each file. */
uint64_t result_files_bytes(const struct result_files *files);

/* result_file_write: the results that `entry` names, `results` [slices.bytes] one behind the other.
 * Durable when it comes back.
 * beside  where it is written first; in the same folder
 * errors  STATUS_FIT on a full disk, STATUS_FAILED: nothing is left, an older `path` stays */
MUST_CHECK enum status result_file_write(const struct result_files *files,
                                         const struct entry *entry, const uint8_t *results,
                                         const char *path, const char *beside, struct fault *fault);

/* result_file_read: the results back, and what is known of each (held, epoch, contributors, hash).
 * shapes  results [slices.bytes], reports [slices.count]
 * errors  STATUS_INPUT when the file is absent, damaged or of another round or swarm; results and
 *         reports are then undefined */
MUST_CHECK enum status result_file_read(const struct result_files *files, const char *path,
                                        uint32_t round, uint8_t *results,
                                        struct slice_report *reports, struct fault *fault);

/* result_file_read_slice: one result of such a file, if the file has one of this hash. Not checked:
 * whoever takes it does. Of any thread at any time.
 * shapes  bytes [of the slice] */
MUST_CHECK bool result_file_read_slice(const struct slices *slices, const char *path,
                                       uint32_t round, uint32_t slice, const struct hash *hash,
                                       uint8_t *bytes);

#endif
