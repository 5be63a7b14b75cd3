/* arena: the memory planner. It places every extent of a program at a fixed offset in the arena of
 * its space, so that extents that are alive at the same time never overlap and the peak is low, and
 * it proves each plan by a separate check. The planner does not know what an extent holds. It only
 * reads a problem; the caller owns the plan. runtime/program plans programs with it, and `skep
 * pack` plans bare packing problems.
 *
 * public   extent.h */
#ifndef SKEP_ARENA_ARENA_H
#define SKEP_ARENA_ARENA_H

#include "arena/extent.h"
#include "base/fault.h"
#include "base/region.h"

#include <stdbool.h>

/* A packing problem: the extents to place. The planner only reads it. */
struct arena_problem {
    const struct extent *extents; /* [extent_count] */
    int extent_count;
};

struct plan {
    /* The problem that this plan solves; the caller owns its extents. */
    struct arena_problem problem;
    const uint64_t
        *offsets; /* [problem.extent_count] offset of each extent in the arena of its space */
    uint64_t peak_bytes[SPACE_COUNT]; /* highest end offset of any extent in the space */
    /* most bytes alive at one program step; no plan can have a lower peak */
    uint64_t bound_bytes[SPACE_COUNT];
    uint32_t peak_step[SPACE_COUNT];    /* first program step at which bound_bytes are alive */
    const char *heuristic[SPACE_COUNT]; /* name of the heuristic that produced the space's layout */
};

/* arena_plan: place every extent. Deterministic: the same extents give the same offsets.
 * memory  offsets and scratch in `region`
 * errors  none: a malformed extent (no bytes, empty life, bad alignment) is the caller's bug */
void arena_plan(const struct arena_problem *problem, struct region *region, struct plan *plan);

/* arena_verify: prove that `plan` solves `problem`: no two extents of one space overlap in time and
 * bytes, offsets are aligned, and the recorded peaks are correct. It shares no code with the
 * planner, and runs after every plan, also in release builds.
 * errors  STATUS_FAILED naming both extents */
MUST_CHECK enum status arena_verify(const struct arena_problem *problem, const struct plan *plan,
                                    struct region *region, struct fault *fault);

/* plan_extent_end: return the offset of the first byte after extent `index`. */
static inline uint64_t plan_extent_end(const struct plan *plan, int index) {
    ASSERT(index >= 0 && index < plan->problem.extent_count);
    return plan->offsets[index] + plan->problem.extents[index].bytes;
}

/* ---- a bare packing problem ---- */

struct pack_request {
    /* Stop the search when the peak is at most this many bytes, or when such a peak is proved
     * impossible; 0: minimize the peak. */
    uint64_t capacity_bytes;
    double time_limit_s; /* stop the search after this time; the first layout is always completed */
};

struct pack_outcome {
    uint64_t lowest_bytes; /* a proved lower bound on the peak of every layout */
    double seconds;        /* time taken */
};

/* arena_pack: place every extent; all must be in SPACE_DEVICE. Unlike the result of arena_plan, the
 * layout depends on the machine's speed if the time runs out.
 *   plan    filled as by arena_plan
 * memory    offsets and scratch in `region`, up to 64 MiB for 2,000 extents that overlap in time
 * errors    none: a malformed extent is the caller's bug */
void arena_pack(const struct arena_problem *problem, const struct pack_request *request,
                struct region *region, struct plan *plan, struct pack_outcome *outcome);

#endif
