/* cluster: extents of one space as plain arrays, and their split into parts that share no
 * program step, so that each part can be packed alone. */
#ifndef SKEP_ARENA_CLUSTER_H
#define SKEP_ARENA_CLUSTER_H

#include "arena/arena.h"
#include "base/bytes.h"
#include "base/region.h"

#include <stdint.h>

enum { CLUSTER_DEPTH_MAX = 8 }; /* program, segment, microbatch, layer, and as many again */

/* One packing problem. Item i of a cluster is extent source[i] of the arena problem. */
struct cluster {
    int count;
    uint64_t *bytes; /* (count) each */
    uint64_t *align;
    uint32_t *first;
    uint32_t *last;
    int *source;
    uint64_t base_bytes;  /* no item may lie below */
    uint64_t bound_bytes; /* base + the most bytes of items alive at one step */
    uint32_t bound_step;  /* first step at which that many are alive */
    struct cluster *next; /* the next cluster of a worklist */
};

struct cluster_list {
    int count;
    struct cluster *clusters;
};

/* cluster_of_space: the extents of `space`, with base 0 and their bound.
 * memory  arrays in `region`
 * errors  none: a malformed extent, or 2^62 bytes and more in all, is a caller's bug */
struct cluster cluster_of_space(const struct arena_problem *problem, enum space space,
                                struct region *region);

/* cluster_round_sizes: round all sizes up to the smallest alignment, and compute the bound again.
 * No item can use the bytes that this adds, except on top of the highest item, so the bound rises
 * by less than one alignment above what a layout can reach.
 * memory  scratch in `region` */
void cluster_round_sizes(struct cluster *cluster, struct region *region);

/* cluster_reduce: take out the items that need no search, and divide the rest into parts, highest
 * bound first. Items that are alive throughout can be moved to the bottom of any layout, so they
 * are stacked there and their offsets are written to `offsets`. The rest is divided at every step
 * that no item is alive across. Each part is treated in the same way, at most CLUSTER_DEPTH_MAX
 * times.
 *   offsets  (extents of the arena problem) by extent, not by item
 * accuracy  loses nothing when alignments divide all sizes, else less than one alignment a level
 * memory    arrays in `region` */
struct cluster_list cluster_reduce(const struct cluster *whole, uint64_t *offsets,
                                   struct region *region);

#endif
