/* region: memory for what is built before seal (graphs, programs, parsed files): grows by blocks,
 * is freed all at once. After process_seal() any growth is a bug and aborts. */
#ifndef SKEP_BASE_REGION_H
#define SKEP_BASE_REGION_H

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

struct region_block;

/* Zero-initialise to start with an empty region. */
struct region {
    struct region_block *newest;
    size_t bytes_total; /* held from the C library, block heads included */
};

/* region_alloc: zeroed memory for `count` objects of `size` bytes, 64-byte aligned.
 * limits  count * size below 2^40
 * errors  none: exhausted host memory ends the process with a message (nothing has been run yet) */
void *region_alloc(struct region *region, size_t count, size_t size);

/* region_copy_text: a copy of `text` that lives as long as the region. */
const char *region_copy_text(struct region *region, const char *text);

/* region_finish: free everything. The region may be used again. */
void region_finish(struct region *region);

/* process_seal: from here to the end of the process (or process_unseal, for tests that build
 * several programs) nothing of ours allocates. */
void process_seal(void);
void process_unseal(void);
int process_is_sealed(void);

#endif
