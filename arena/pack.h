/* pack: lay out a bare packing problem as well as the given time allows. */
#ifndef SKEP_ARENA_PACK_H
#define SKEP_ARENA_PACK_H

#include "arena/plan.h"

#include <stdbool.h>

struct pack_request {
    /* Stop at this peak, or when it is proved to be out of reach; 0: as low as can be. */
    uint64_t capacity_bytes;
    double seconds; /* stop after this time; the first layout is always finished */
};

struct pack_outcome {
    uint64_t lowest_bytes; /* no layout's peak is lower: the bound, or what the search proved */
    double seconds;        /* taken */
};

/* arena_pack: place every extent, all of SPACE_DEVICE. Unlike arena_plan's, the layout depends on
 * the machine's speed where the time ran out.
 *   plan    as of arena_plan
 * memory    offsets and scratch in `region`, up to 64 MiB where 2,000 extents hang together
 * errors    none: a malformed extent is a caller's bug */
void arena_pack(const struct arena_problem *problem, const struct pack_request *request,
                struct region *region, struct plan *plan, struct pack_outcome *outcome);

#endif
