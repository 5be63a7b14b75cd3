/* cluster: extents of one space as plain arrays, and their split into parts that never meet in
 * time, so that each part is packed alone. */
#ifndef SKEP_ARENA_CLUSTER_H
#define SKEP_ARENA_CLUSTER_H

#include "arena/plan.h"
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
    uint64_t bound_bytes; /* base + most bytes of items alive at one step */
    uint32_t bound_step;  /* first step at which that many are alive */
    struct cluster *next; /* of a worklist */
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

/* cluster_round_sizes: round sizes up to the alignment that all items share, and measure the bound
 * anew. Nothing could lie in the bytes behind an item, except behind the topmost, so that a search
 * for a peak below that bound would be for less than one alignment.
 * memory  scratch in `region` */
void cluster_round_sizes(struct cluster *cluster, struct region *region);

/* cluster_reduce: take from a packing problem what needs no search, and give back the rest in
 * parts, highest bound first.
 *   What is alive throughout can be slid to the bottom of any layout, so it is stacked there, and
 *   its offsets are written to `offsets`; what is left is cut at every step that
 *   nothing lives across; each part is treated alike, CLUSTER_DEPTH_MAX times.
 *   offsets  (extents of the arena problem) by extent, not by item
 * accuracy  loses nothing when alignments divide all sizes, else less than one alignment a level
 * memory    arrays in `region` */
struct cluster_list cluster_reduce(const struct cluster *whole, uint64_t *offsets,
                                   struct region *region);

#endif
