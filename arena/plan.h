/* plan: offsets for extents, per space, with the peak and a proof that nothing overlaps. */
#ifndef SKEP_ARENA_PLAN_H
#define SKEP_ARENA_PLAN_H

#include "arena/extent.h"
#include "base/fault.h"
#include "base/region.h"

/* What to place: a planner reads it and never writes to it. */
struct arena_problem {
    const struct extent *extents; /* [extent_count] */
    int extent_count;
};

struct plan {
    struct arena_problem problem; /* the one that this plan solves; its extents stay the caller's */
    const uint64_t *offsets;      /* [problem.extent_count] first byte of each, in its own space */
    uint64_t peak_bytes[SPACE_COUNT];   /* highest end of any extent */
    uint64_t bound_bytes[SPACE_COUNT];  /* most bytes alive at one step: no plan can be lower */
    uint32_t peak_step[SPACE_COUNT];    /* first step at which that many bytes are alive */
    const char *heuristic[SPACE_COUNT]; /* the one whose layout was kept */
};

/* arena_plan: place every extent. Deterministic: the same extents give the same offsets.
 * memory  offsets and scratch in `region`
 * errors  none: a malformed extent (no bytes, empty life, bad alignment) is a caller's bug */
void arena_plan(const struct arena_problem *problem, struct region *region, struct plan *plan);

/* arena_verify: prove that `plan` solves `problem`: no two extents of one space overlap in time and
 * bytes, offsets are aligned, and peaks are right. It shares no code with the planner, and runs
 * after every plan, also in release builds.
 * errors  STATUS_FAILED naming both extents */
MUST_CHECK enum status arena_verify(const struct arena_problem *problem, const struct plan *plan,
                                    struct region *region, struct fault *fault);

/* plan_end: the first byte after extent `index`. */
static inline uint64_t plan_end(const struct plan *plan, int index) {
    ASSERT(index >= 0 && index < plan->problem.extent_count);
    return plan->offsets[index] + plan->problem.extents[index].bytes;
}

#endif
