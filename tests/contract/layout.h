/* layout: who is in which group: the axes of a site, and groups that are permuted or partial. */
#ifndef SKEP_TESTS_CONTRACT_LAYOUT_H
#define SKEP_TESTS_CONTRACT_LAYOUT_H

#include "transport/collectives/collectives.h"

enum { WORLD_MAX = 8 };

enum layout_group {
    GROUP_SHARD,     /* neighbours: world index = replicate index * shard size + shard index */
    GROUP_REPLICATE, /* those with one shard index */
    GROUP_WORLD,
    GROUP_REVERSED, /* the world from the last rank to the first */
    GROUP_SHUFFLED, /* the world in no order */
    GROUP_ODD,      /* odd ranks, downwards; the others are in no such group */
    LAYOUT_GROUPS
};

struct layout {
    const char *name;
    int world, shard; /* ranks; ranks in a shard group, a divisor */
};

/* One rank's groups with the memory of their tables. */
struct layout_groups {
    struct collective_group groups[LAYOUT_GROUPS];
    int ranks[LAYOUT_GROUPS][WORLD_MAX];
};

extern const struct layout LAYOUTS[];
extern const int LAYOUT_COUNT;

void layout_groups_of(const struct layout *layout, int rank, struct layout_groups *out);

#endif
