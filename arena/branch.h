/* branch: exact search for a layout whose peak stays below a given limit.
 *
 * Items are placed in ascending order of offset, each directly on top of placed items, so a
 * sequence of items determines a layout. If any layout fits, the one with the smallest sum of
 * offsets is given by such a sequence, and none of its items would fit into a gap below its offset.
 * The search skips every partial sequence that breaks this rule. When the remaining items form
 * groups that do not overlap in time, each group is searched separately; if one group has no
 * solution, the others are skipped.
 *
 * source  canonical placements and their dominance after Moffitt 2023, "MiniMalloc: a lightweight
 *         memory allocator for hardware-accelerated machine learning" */
#ifndef SKEP_ARENA_BRANCH_H
#define SKEP_ARENA_BRANCH_H

#include "arena/greedy.h"
#include "arena/sections.h"

enum {
    /* maximum items of an exact search: memory is quadratic in the items, 64 MiB for 2000 */
    BRANCH_ITEMS_MAX = 2000,
    /* Work that the search counts for each item that it examines for a choice. Greedy placement
     * counts 1 for each placed item that it inspects. */
    BRANCH_WORK_PER_ITEM = 16, /* in units of struct effort */
};

enum branch_result {
    BRANCH_FOUND,      /* a layout within the ceiling was found */
    BRANCH_IMPOSSIBLE, /* proved that no layout within the ceiling exists */
    BRANCH_WORK_LIMIT  /* the work limit was reached before an answer was found */
};

struct branch;

/* branch_init: create a search over a cluster of at most BRANCH_ITEMS_MAX items.
 * memory  in `region`; branch_find_layout allocates nothing */
struct branch *branch_init(const struct cluster *cluster, struct region *region);

/* branch_conflict_counts: return, for each item, the number of times in all calls of
 * branch_find_layout that the item was among those that did not fit. The next attempt should place
 * items with high counts first. */
const uint64_t *branch_conflict_counts(const struct branch *branch);

/* branch_find_layout: find a layout whose peak is at most `ceiling_bytes`.
 *   sequence  all items by descending priority, which decides between candidates of equal offset
 *   layout    filled if a layout is found, else unchanged */
enum branch_result branch_find_layout(struct branch *branch, uint64_t ceiling_bytes,
                                      const int *sequence, struct effort *effort,
                                      struct layout *layout);

#endif
