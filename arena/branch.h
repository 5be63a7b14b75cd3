/* branch: exact search for a layout below a given peak.
 *
 * Items are placed in order of rising offset, each directly on what lies below it, so that a layout
 * is a sequence of items. Of all layouts that fit, one with the least sum of offsets is such a
 * sequence, and no item of it could be dropped into a hole beneath; whatever breaks that is cut
 * off. When what is left to place falls apart in time, the parts are searched one after the other,
 * and a part without a solution ends its siblings too.
 *
 * source  canonical placements and their dominance after Moffitt 2023, "MiniMalloc: a lightweight
 *         memory allocator for hardware-accelerated machine learning" */
#ifndef SKEP_ARENA_BRANCH_H
#define SKEP_ARENA_BRANCH_H

#include "arena/greedy.h"
#include "arena/sections.h"

enum {
    BRANCH_ITEMS_MAX = 2000, /* memory grows with the square, to 64 MiB here */
    /* A choice takes as long for each item as greedy placement does to look at this many. */
    BRANCH_WORK_PER_ITEM = 16,
};

enum branch_result {
    BRANCH_FOUND,
    BRANCH_NONE, /* proved: there is no such layout */
    BRANCH_SPENT /* the effort was spent before either was known */
};

struct branch;

/* branch_init: a search over a cluster of at most BRANCH_ITEMS_MAX items.
 * memory  in `region`; a fit allocates nothing */
struct branch *branch_init(const struct cluster *cluster, struct region *region);

/* branch_conflicts: for every item, how often it was among those for which there was no room, over
 * all fits so far: what a next fit should place first. */
const uint64_t *branch_conflicts(const struct branch *branch);

/* branch_fit: a layout whose peak is `ceiling_bytes` or less.
 *   sequence  items by falling priority: which of equally low ones is tried first
 *   layout    filled when found, else untouched */
enum branch_result branch_fit(struct branch *branch, uint64_t ceiling_bytes, const int *sequence,
                              struct effort *effort, struct layout *layout);

#endif
