/* file_hash: the BLAKE2b of a file, read in pieces. */
#ifndef SKEP_CHECKPOINT_FILE_HASH_H
#define SKEP_CHECKPOINT_FILE_HASH_H

#include "base/fault.h"
#include "base/hash.h"

/* file_hash: of the whole file; *bytes is its size.
 * memory  `buffer`; nothing is allocated
 * errors  STATUS_INPUT or STATUS_FAILED from the file; outputs untouched */
MUST_CHECK enum status file_hash(const char *path, void *buffer, size_t buffer_bytes,
                                 struct hash *hash, int64_t *bytes, struct fault *fault);

#endif
