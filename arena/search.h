/* search: lower the peak of a layout by placing its items again in changed orders. */
#ifndef SKEP_ARENA_SEARCH_H
#define SKEP_ARENA_SEARCH_H

#include "arena/greedy.h"

/* search_improve: items that stick out above `target_bytes` are moved forward in the order of
 * placement, until the peak is there or the effort is spent. The layout only ever gets better.
 * Deterministic as long as effort has no deadline.
 * memory  scratch in `region`
 * source  after Joslin and Clements 1999, "Squeaky wheel optimization" */
void search_improve(const struct cluster *cluster, uint64_t target_bytes, struct effort *effort,
                    struct region *region, struct layout *layout);

#endif
