/* sections: the spans of a cluster's time that a layout must consider: those that begin with a
 * birth and end with a death. The items alive in any other span are also alive in one of these. */
#ifndef SKEP_ARENA_SECTIONS_H
#define SKEP_ARENA_SECTIONS_H

#include "arena/cluster.h"

struct sections {
    int count;            /* at most the cluster's count */
    int *first;           /* (cluster count) first section in which item i is alive */
    int *last;            /* (cluster count) one past the last: first < last */
    uint64_t *live_bytes; /* (count) bytes alive, base not included */
};

/* sections_of: the sections of a cluster, divided at every birth and death.
 * memory  in `region` */
struct sections sections_of(const struct cluster *cluster, struct region *region);

/* sections_crowding: for every item, the most bytes alive in one section of its life.
 * memory  result and scratch in `region` */
uint64_t *sections_crowding(const struct sections *sections, int item_count, struct region *region);

#endif
