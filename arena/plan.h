/* plan: offsets for extents, per space, with the peak and a proof that nothing overlaps. */
#ifndef SKEP_ARENA_PLAN_H
#define SKEP_ARENA_PLAN_H

#include "arena/extent.h"
#include "base/fault.h"
#include "base/region.h"

struct plan {
    const struct extent *extents; /* caller's array, offsets filled */
    int extent_count;
    uint64_t peak_bytes[SPACE_COUNT];   /* highest end of any extent */
    uint64_t bound_bytes[SPACE_COUNT];  /* most bytes alive at one step: no plan can be lower */
    uint32_t peak_step[SPACE_COUNT];    /* first step at which that many bytes are alive */
    const char *heuristic[SPACE_COUNT]; /* the one whose layout was kept */
};

/* arena_plan: place every extent. Deterministic: the same extents give the same offsets.
 * memory  scratch in `region`
 * errors  none: a malformed extent (no bytes, empty life, bad alignment) is a caller's bug */
void arena_plan(struct extent *extents, int extent_count, struct region *region, struct plan *plan);

/* arena_verify: prove that no two extents of one space overlap in time and bytes, that offsets are
 * aligned and peaks right. Separate code from the planner; run after every plan, in release too.
 * errors  STATUS_FAILED naming both extents */
MUST_CHECK enum status arena_verify(const struct plan *plan, struct region *region,
                                    struct fault *fault);

#endif
