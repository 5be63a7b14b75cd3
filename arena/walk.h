/* walk: lower the peak of a layout by placing its items again and again in changed orders. */
#ifndef SKEP_ARENA_WALK_H
#define SKEP_ARENA_WALK_H

#include "arena/greedy.h"

struct walk;

/* walk_init: a walk that begins at `layout`.
 * memory  in `region`; a round allocates nothing */
struct walk *walk_init(const struct cluster *cluster, const struct layout *layout,
                       struct region *region);

/* walk_round: the items that stick out above `target_bytes` move forward in the order of placement,
 * by seeded draws, and everything is placed anew; `layout` is replaced if that lowers its peak.
 * source  after Joslin and Clements 1999, "Squeaky wheel optimization" */
void walk_round(struct walk *walk, uint64_t target_bytes, struct effort *effort,
                struct layout *layout);

#endif
