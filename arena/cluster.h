/* cluster: extents of one space as plain arrays, and their split into parts that share no
 * program step, so that each part can be packed alone. */
#ifndef SKEP_ARENA_CLUSTER_H
#define SKEP_ARENA_CLUSTER_H

#include "arena/arena.h"
#include "base/bytes.h"
#include "base/region.h"

#include <stdint.h>

/* Maximum rounds of reduction: twice the nesting depth of lives (program, segment, microbatch,
 * layer). */
enum { CLUSTER_DEPTH_MAX = 8 };

/* One packing problem. Item i of a cluster is extent source[i] of the arena problem. */
struct cluster {
    int count;            /* number of items */
    uint64_t *bytes;      /* [count] size of each item */
    uint64_t *align;      /* [count] alignment of the offset, a power of two */
    uint32_t *first;      /* [count] first program step in which the item is alive */
    uint32_t *end;        /* [count] one past the last program step in which the item is alive */
    int *source;          /* [count] index of the extent in the arena problem */
    uint64_t base_bytes;  /* no item may lie below this offset */
    uint64_t bound_bytes; /* base_bytes plus the most bytes alive at one program step */
    uint32_t bound_step;  /* first program step at which the most bytes are alive */
    struct cluster *next; /* the next cluster of the worklist; NULL: none */
};

struct cluster_list {
    int count;                /* number of clusters */
    struct cluster *clusters; /* [count] */
};

/* cluster_of_space: return the extents of `space` as a cluster with base 0, and compute its bound.
 * memory  arrays in `region`
 * errors  none: a malformed extent, or a total of 2^62 bytes or more, is the caller's bug */
struct cluster cluster_of_space(const struct arena_problem *problem, enum space space,
                                struct region *region);

/* cluster_round_sizes: round all sizes up to the smallest alignment, and compute the bound again.
 * Except above the highest item, no other item could use the added bytes, so the new bound exceeds
 * a reachable peak by less than one alignment.
 * memory  scratch in `region` */
void cluster_round_sizes(struct cluster *cluster, struct region *region);

/* cluster_reduce: place the items that need no search, and divide the others into parts, sorted by
 * descending bound. Items that are alive for the whole span can be moved to the bottom of any
 * layout, so they are stacked there and their offsets are written to `offsets`. The other items are
 * divided at every step where no item stays alive. Each part is reduced in the same way again, in
 * at most CLUSTER_DEPTH_MAX rounds.
 *   offsets  (extents of the arena problem) indexed by extent, not by item
 * accuracy  exact if every alignment divides every size; else the peak grows by less than one
 *           alignment per level
 * memory    arrays in `region` */
struct cluster_list cluster_reduce(const struct cluster *whole, uint64_t *offsets,
                                   struct region *region);

#endif
