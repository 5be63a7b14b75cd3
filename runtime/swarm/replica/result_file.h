/* result_file: all results of a round in one file; the reader checks each result against its hash.
 * With a sparse codec the results have different lengths.
 *
 *     | mark 16 | round 4 | slices 4 | {epoch 4, owner 4, contributors 8, bytes 8, hash 32} ... |
 *     | hash of all preceding bytes 32 | results, concatenated |
 *
 * The file is written under another name and then renamed, so it is either complete or absent. */
#ifndef SKEP_SWARM_REPLICA_RESULT_FILE_H
#define SKEP_SWARM_REPLICA_RESULT_FILE_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/swarm/protocol/protocol.h"
#include "runtime/swarm/replica/replica.h"

#include <stdbool.h>
#include <stddef.h>

/* The layout of result files, which is the same for all rounds of a swarm. */
struct result_files {
    struct slices slices; /* division of the parameters into slices */
    uint8_t *header;      /* Scratch memory for the fields from the mark to the hash. */
    size_t header_bytes;  /* size of `header` */
};

/* result_files_init: initialize the layout, with scratch memory from `region`. The other functions
 * allocate nothing. */
void result_files_init(const struct slices *slices, struct region *region,
                       struct result_files *files);

/* result_files_bytes: return the size of the largest result file. */
uint64_t result_files_bytes(const struct result_files *files);

/* result_file_write: write the results that `entry` lists. The file is durable on return.
 * shapes          results [slices_results_bytes]
 * temporary_path  path of a temporary file in the same folder, which is renamed to `path` when
 *                 complete
 * errors          STATUS_FIT on a full disk, STATUS_FAILED. The temporary file is then removed, and
 *                 an older file at `path` is unchanged */
MUST_CHECK enum status result_file_write(const struct result_files *files,
                                         const struct entry *entry, const uint8_t *results,
                                         const char *path, const char *temporary_path,
                                         struct fault *fault);

/* result_file_read: read the results of a round, and fill in has_result, epoch, contributors and
 * hash of each report.
 * shapes  results [slices_results_bytes], reports [slices.count]
 * errors  STATUS_INPUT when the file is missing or damaged, or belongs to another round or swarm;
 *         results and reports are then undefined */
MUST_CHECK enum status result_file_read(const struct result_files *files, const char *path,
                                        uint32_t round, uint8_t *results,
                                        struct slice_report *reports, struct fault *fault);

/* result_file_read_slice: read one result; false when the file lists no result with this hash or
 * cannot be read. The receiver must check the bytes. Any thread may call it at any time.
 * shapes  bytes [size of the longest result of the slice] */
MUST_CHECK bool result_file_read_slice(const struct slices *slices, const char *path,
                                       uint32_t round, uint32_t slice, const struct hash *hash,
                                       uint8_t *bytes);

/* result_index: for each result that a replica has in memory, its owner, contributors and
 * signature, with which this member can send the result to members that lack it.
 *
 *     round 7 | s0 | s1 |    | s3 |      RESULT_ROUNDS rows: the open and the previous round
 *     round 8 | s0 |    |    |    |      a new round reuses the row of the oldest round */

struct stored_result {
    bool is_stored; /* the bytes of the result are in the replica */
    /* number of times the slice had changed its owner when this result was computed */
    uint32_t epoch;
    uint64_t contributors;      /* seats whose contributions are in the sum */
    struct hash hash;           /* hash of the encoded result */
    struct identity owner;      /* member that computed the result */
    struct signature signature; /* the owner's signature of the result */
};

struct result_index {
    uint32_t slice_count;           /* number of slices of each round */
    uint32_t rounds[RESULT_ROUNDS]; /* Round of each row; 0: the row is empty. */
    struct stored_result *results;  /* [RESULT_ROUNDS * slice_count]: results by row, slice */
};

/* result_index_memory_bytes: return the size of the table. result_index_init: initialize an empty
 * index with its table in `memory`. */
size_t result_index_memory_bytes(uint32_t slice_count);
void result_index_init(struct result_index *index, void *memory, uint32_t slice_count);

/* result_index_clear_row: mark the result of a slice as not stored, because its bytes are about to
 * change. Returns its row, which the caller fills in when the bytes are complete. */
struct stored_result *result_index_clear_row(struct result_index *index, uint32_t round,
                                             uint32_t slice);

/* result_index_find: return the stored result of a round and slice if it has this hash, else
 * NULL. */
const struct stored_result *result_index_find(const struct result_index *index, uint32_t round,
                                              uint32_t slice, const struct hash *hash);

#endif
