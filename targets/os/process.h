/* process: the resident memory of this process. */
#ifndef SKEP_TARGETS_OS_PROCESS_H
#define SKEP_TARGETS_OS_PROCESS_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

struct process_memory {
    uint64_t anonymous_bytes; /* private memory without a file: arenas, heap, stacks */
    uint64_t shared_bytes;    /* shared memory that is mapped */
    uint64_t file_bytes;      /* code and mapped files, whose pages the kernel may drop */
};

/* process_memory_read: resident bytes by kind. Never allocates, so it may be called after the seal.
 * errors  false when /proc cannot be read; *memory is then unchanged */
MUST_CHECK bool process_memory_read(struct process_memory *memory);

#endif
