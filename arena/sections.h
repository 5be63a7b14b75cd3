/* sections: a cluster's time cut at every birth and death, so that searches walk over stretches in
 * which nothing changes instead of over steps. */
#ifndef SKEP_ARENA_SECTIONS_H
#define SKEP_ARENA_SECTIONS_H

#include "arena/cluster.h"

struct sections {
    int count;            /* below 2 x cluster count */
    int *first;           /* (cluster count) section in which item i is born */
    int *last;            /* (cluster count) section at whose start it is dead: first < last */
    uint64_t *live_bytes; /* (count) bytes alive, base not included */
};

/* sections_of: memory  in `region` */
struct sections sections_of(const struct cluster *cluster, struct region *region);

/* sections_crowding: for every item, the most bytes alive in one section of its life.
 * memory  result and scratch in `region` */
uint64_t *sections_crowding(const struct sections *sections, int item_count, struct region *region);

#endif
