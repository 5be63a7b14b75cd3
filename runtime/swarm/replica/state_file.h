/* state_file: stores an outer state in one file, so that a rollback can return to it. The leaves
 * are stored as members send them, so that one leaf can be read and sent without the others.
 *
 *     "skep state 1" LF NUL .. | round 4 | commits 4 | parameters 8 | root 32      64 bytes
 *     the hash of each leaf 32 ..
 *     leaf 0 | leaf 1 | ..                                     each of LEAF_BYTES except the last
 *
 * All integers are little-endian. A reader checks leaves against their hashes, and the hashes
 * against the root. */
#ifndef SKEP_SWARM_REPLICA_STATE_FILE_H
#define SKEP_SWARM_REPLICA_STATE_FILE_H

#include "runtime/swarm/replica/replica.h"

/* The header of a state file, which describes the state in it. */
struct state_file_header {
    char mark[16];            /* name and version of the format */
    uint32_t round;           /* round of the commit that led to the state */
    uint32_t commits;         /* number of commits in the chain, up to that commit */
    uint64_t parameter_count; /* number of parameters of the model */
    struct hash root;         /* root of the state */
};

/* state_file_bytes: the size of a state file. */
uint64_t state_file_bytes(const struct slices *slices);

/* state_file_header_of: the header for the replica's state, which is that after the commit of
 * `round`, the commit number `commits`. */
struct state_file_header state_file_header_of(const struct replica *replica, uint32_t round,
                                              uint32_t commits);

/* state_file_write: write the replica's state. The file is durable on return, and complete or
 * missing.
 * limits  replica->root is header->root
 * errors  STATUS_FIT on a full disk, STATUS_FAILED */
MUST_CHECK enum status state_file_write(const struct replica *replica,
                                        const struct state_file_header *header, const char *path,
                                        const char *temporary_path, struct fault *fault);

/* state_file_read_header: read and check the header and the size of a file.
 * errors  STATUS_INPUT when it is not a state file of a model of this size */
MUST_CHECK enum status state_file_read_header(const char *path, const struct slices *slices,
                                              struct state_file_header *header,
                                              struct fault *fault);

/* state_file_read_hashes: read the hashes of `count` leaves from leaf `first`, without verifying
 * them. state_file_read_leaf: read leaf `index` without verifying it; returns its length, or 0 on
 * failure. Both fail when there is no such file or it has another root. Any thread may call them.
 * shapes  hashes [count]; bytes [LEAF_BYTES]
 * limits  first + count and index + 1 are at most the number of leaves */
MUST_CHECK bool state_file_read_hashes(const char *path, const struct hash *root, uint64_t first,
                                       uint64_t count, struct hash *hashes);
size_t state_file_read_leaf(const char *path, const struct slices *slices, const struct hash *root,
                            uint64_t index, uint8_t *bytes);

#endif
