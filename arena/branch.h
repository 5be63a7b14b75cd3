/* branch: exact search for a layout whose peak stays below a given limit.
 *
 * Items are placed in order of rising offset, each directly on top of placed items, so a layout is
 * a sequence of items. If any layout fits, the one with the smallest sum of offsets is such a
 * sequence, and none of its items could drop into a hole below it. The search skips every partial
 * sequence that breaks this rule. When the remaining items fall into groups that share no time, the
 * groups are searched one after the other; if one group has no solution, the others are skipped.
 *
 * source  canonical placements and their dominance after Moffitt 2023, "MiniMalloc: a lightweight
 *         memory allocator for hardware-accelerated machine learning" */
#ifndef SKEP_ARENA_BRANCH_H
#define SKEP_ARENA_BRANCH_H

#include "arena/greedy.h"
#include "arena/sections.h"

enum {
    BRANCH_ITEMS_MAX = 2000, /* memory grows with the square, to 64 MiB here */
    /* Work charged for each item of a choice. Greedy placement charges one for each placed item
     * that it inspects. */
    BRANCH_WORK_PER_ITEM = 16,
};

enum branch_result {
    BRANCH_FOUND,
    BRANCH_NONE, /* proved: there is no such layout */
    BRANCH_SPENT /* the work limit was reached before either was known */
};

struct branch;

/* branch_init: a search over a cluster of at most BRANCH_ITEMS_MAX items.
 * memory  in `region`; a fit allocates nothing */
struct branch *branch_init(const struct cluster *cluster, struct region *region);

/* branch_conflicts: per item, how often it was among the items that did not fit, over all calls of
 * branch_fit. The next attempt should place items with high counts first. */
const uint64_t *branch_conflicts(const struct branch *branch);

/* branch_fit: a layout whose peak is `ceiling_bytes` or less.
 *   sequence  items by falling priority, which decides between equally low candidates
 *   layout    filled when found, else untouched */
enum branch_result branch_fit(struct branch *branch, uint64_t ceiling_bytes, const int *sequence,
                              struct effort *effort, struct layout *layout);

#endif
