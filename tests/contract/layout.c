#include "tests/contract/layout.h"

#include "base/check.h"

#include <stdbool.h>

const struct layout LAYOUTS[] = {
    {"1 rank", 1, 1},          {"2 shards", 2, 2},        {"2 replicas", 2, 1},
    {"3 shards", 3, 3},        {"4 shards", 4, 4},        {"2 replicas of 2 shards", 4, 2},
    {"4 replicas of 2", 8, 2}, {"2 replicas of 4", 8, 4},
};
const int LAYOUT_COUNT = (int)ARRAY_COUNT(LAYOUTS);

/* Position i of the shuffled world of w: 3 and 5 have no factor with the worlds that they serve. */
static int shuffled(int world, int i) {
    return (i * (world == 3 ? 5 : 3) + 1) % world;
}

static bool is_member(const struct layout *layout, enum layout_group kind, int rank, int other) {
    switch (kind) {
    case GROUP_SHARD:
        return rank / layout->shard == other / layout->shard;
    case GROUP_REPLICATE:
        return rank % layout->shard == other % layout->shard;
    case GROUP_ODD:
        return rank % 2 == 1 && other % 2 == 1;
    case GROUP_WORLD:
    case GROUP_REVERSED:
    case GROUP_SHUFFLED:
    case LAYOUT_GROUPS:
        break;
    }
    return true;
}

static int candidate(const struct layout *layout, enum layout_group kind, int i) {
    if (kind == GROUP_REVERSED || kind == GROUP_ODD) {
        return layout->world - 1 - i;
    }
    return kind == GROUP_SHUFFLED ? shuffled(layout->world, i) : i;
}

void layout_groups_of(const struct layout *layout, int rank, struct layout_groups *out) {
    for (int g = 0; g < LAYOUT_GROUPS; g++) {
        struct collective_group *group = &out->groups[g];
        *group = (struct collective_group){.ranks = out->ranks[g], .index = -1};
        for (int i = 0; i < layout->world; i++) {
            int other = candidate(layout, (enum layout_group)g, i);
            if (is_member(layout, (enum layout_group)g, rank, other)) {
                group->index = other == rank ? group->size : group->index;
                out->ranks[g][group->size++] = other;
            }
        }
    }
}
