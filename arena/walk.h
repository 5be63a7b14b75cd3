/* walk: lowers the peak of a layout by placing its items repeatedly in perturbed sequences. */
#ifndef SKEP_ARENA_WALK_H
#define SKEP_ARENA_WALK_H

#include "arena/greedy.h"

struct walk;

/* walk_init: create a walk that starts from `layout`.
 * memory  in `region`; walk_run_round allocates nothing */
struct walk *walk_init(const struct cluster *cluster, const struct layout *layout,
                       struct region *region);

/* walk_run_round: move the items that end above `target_bytes` forward in the sequence by seeded
 * random draws, and place all items again. `layout` is replaced if its peak becomes lower.
 * source  after Joslin and Clements 1999, "Squeaky wheel optimization" */
void walk_run_round(struct walk *walk, uint64_t target_bytes, struct effort *effort,
                    struct layout *layout);

#endif
