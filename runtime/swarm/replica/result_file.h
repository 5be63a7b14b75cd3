/* result_file: all results of a round in one file; the reader checks each by its hash.
 *
 *     | mark 16 | round 4 | slices 4 | {epoch 4, owner 4, contributors 8, bytes 8, hash 32} ... |
 *     | hash of all the above 32 | results, concatenated |
 *
 * The file is written under another name and then renamed, so it is either complete or absent. */
#ifndef SKEP_SWARM_REPLICA_RESULT_FILE_H
#define SKEP_SWARM_REPLICA_RESULT_FILE_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/replica/slices.h"

/* The layout that all files of a swarm share. */
struct result_files {
    struct slices slices;
    uint8_t *head; /* scratch: mark to hash */
    size_t head_bytes;
};

/* result_files_init: takes the scratch memory from `region`; the other functions allocate nothing.
 * */
void result_files_init(const struct slices *slices, struct region *region,
                       struct result_files *files);

/* result_files_bytes: size of each file. */
uint64_t result_files_bytes(const struct result_files *files);

/* result_file_write: write the results that `entry` lists. The file is durable on return.
 * shapes          results [slices.bytes], concatenated
 * temporary_path  in the same folder; renamed to `path` at the end
 * errors          STATUS_FIT on a full disk, STATUS_FAILED: the temporary file is removed, and an
 *                 older file at `path` stays */
MUST_CHECK enum status result_file_write(const struct result_files *files,
                                         const struct entry *entry, const uint8_t *results,
                                         const char *path, const char *temporary_path,
                                         struct fault *fault);

/* result_file_read: read the results, and fill has_result, epoch, contributors and hash of each
 * report.
 * shapes  results [slices.bytes], reports [slices.count]
 * errors  STATUS_INPUT when the file is absent, damaged or of another round or swarm; results and
 *         reports are then undefined */
MUST_CHECK enum status result_file_read(const struct result_files *files, const char *path,
                                        uint32_t round, uint8_t *results,
                                        struct slice_report *reports, struct fault *fault);

/* result_file_read_slice: read one result; false when the file lists no result with this hash, or
 * cannot be read. The bytes are not checked: the receiver does that. Any thread may call it at any
 * time.
 * shapes  bytes [encoded bytes of the slice] */
MUST_CHECK bool result_file_read_slice(const struct slices *slices, const char *path,
                                       uint32_t round, uint32_t slice, const struct hash *hash,
                                       uint8_t *bytes);

#endif
