/* region: memory for objects that are built before the seal, such as graphs, programs and parsed
 * files. A region grows by blocks and is freed as a whole. Growth after process_seal() fails an
 * assertion. */
#ifndef SKEP_BASE_REGION_H
#define SKEP_BASE_REGION_H

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

struct region_block;

/* An empty region is all zeros. */
struct region {
    struct region_block *newest; /* the block allocated last; NULL: none */
    size_t bytes_total;          /* bytes allocated from the C library, including block headers */
};

/* region_alloc: zeroed memory for `count` objects of `size` bytes, 64-byte aligned. When the system
 * has no memory, the process ends with a message; nothing has run yet.
 * limits  count * size < 2^40 */
void *region_alloc(struct region *region, size_t count, size_t size);

/* region_copy_text: a copy of `text` in the region. */
const char *region_copy_text(struct region *region, const char *text);

/* region_format: the formatted text, which lives as long as the region. */
const char *region_format(struct region *region, const char *format, ...) PRINTF_LIKE(2, 3);

/* region_grow: copy an array of `count` objects of `size` bytes to a new one with twice the
 * capacity. *capacity, in objects, is updated; 0 on entry: there is no array yet. */
void *region_grow(struct region *region, const void *array, int count, int *capacity, size_t size);

/* region_finish: free all memory. The region is then empty and can be used again. */
void region_finish(struct region *region);

/* process_seal: forbid growth of all regions until process_unseal, which only tests call, or until
 * the process ends. */
void process_seal(void);
void process_unseal(void);
int process_is_sealed(void);

#endif
