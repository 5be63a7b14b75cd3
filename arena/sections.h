/* sections: the time spans of a cluster that a layout must consider: each begins with a birth
 * and ends with a death. The items alive at any other time are all alive in one of these
 * sections. */
#ifndef SKEP_ARENA_SECTIONS_H
#define SKEP_ARENA_SECTIONS_H

#include "arena/cluster.h"

struct sections {
    int count;  /* number of sections: at most the cluster's count */
    int *first; /* [cluster->count] first section in which each item is alive */
    /* [cluster->count] one past the last section in which each item is alive */
    int *end;
    /* [count] bytes alive in each section, without the cluster's base_bytes */
    uint64_t *live_bytes;
};

/* sections_of_cluster: compute the sections of a cluster.
 * memory  in `region` */
struct sections sections_of_cluster(const struct cluster *cluster, struct region *region);

/* sections_life_peaks: return for every item the most bytes alive in any section of its life.
 * memory  result and scratch in `region` */
uint64_t *sections_life_peaks(const struct sections *sections, int item_count,
                              struct region *region);

#endif
