/* verify: proves that a plan is correct. The proof sweeps over the births and deaths of each space,
 * and keeps a list of the live extents, sorted by offset. It shares no code with the planner. */
#include "arena/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The birth or death of an extent at a step. */
struct life_change {
    uint32_t step;
    /* 1: the extent becomes alive at `step`; 0: the extent is no longer alive from `step` on */
    int is_birth;
    int extent; /* index of the extent in the plan */
};

/* The extents that are alive at the current step, sorted by offset. They are disjoint, because
 * an overlap ends the sweep. */
struct live_extents {
    const struct extent *extents;
    const uint64_t *offsets; /* [extent count] offset of each extent in bytes */
    int *ids;                /* [count] indices into `extents`, sorted by offset */
    int count;               /* number of live extents */
    uint64_t bytes;          /* sum of the sizes of the live extents */
};

static const char REMEDY[] =
    "this is a bug in the planner: do not execute the plan; report the bug";

static int compare_life_changes(const void *left, const void *right) {
    const struct life_change *a = left, *b = right;
    if (a->step != b->step) {
        return a->step < b->step ? -1 : 1;
    }
    if (a->is_birth != b->is_birth) {
        /* lives are half-open, so at one step deaths sort before births */
        return a->is_birth - b->is_birth;
    }
    return a->extent - b->extent;
}

static uint64_t extent_end(const struct live_extents *alive, int id) {
    ASSERT(alive->offsets[id] <= UINT64_MAX - alive->extents[id].bytes); /* check_extent */
    return alive->offsets[id] + alive->extents[id].bytes;
}

static const char *space_subject(enum space space, char buffer[static 32]) {
    snprintf(buffer, 32, "plan, %s space", space_name(space));
    return buffer;
}

static enum status check_extent(const struct extent *extent, uint64_t offset, int index,
                                struct fault *fault) {
    if ((unsigned)extent->space >= SPACE_COUNT) {
        return fault_set(fault, STATUS_FAILED, "plan", REMEDY,
                         "extent %d '%s' has an invalid space", index, extent->name);
    }
    char subject[32];
    space_subject(extent->space, subject);
    if (extent->first >= extent->last || extent->bytes == 0) {
        return fault_set(fault, STATUS_FAILED, subject, REMEDY,
                         "extent %d '%s' is empty: %llu bytes, life [%u, %u)", index, extent->name,
                         (unsigned long long)extent->bytes, extent->first, extent->last);
    }
    if (extent->align == 0 || (extent->align & (extent->align - 1)) != 0 ||
        offset % extent->align != 0) {
        return fault_set(fault, STATUS_FAILED, subject, REMEDY,
                         "extent %d '%s' at offset %llu is not aligned to %llu", index,
                         extent->name, (unsigned long long)offset,
                         (unsigned long long)extent->align);
    }
    if (offset > UINT64_MAX - extent->bytes) {
        return fault_set(fault, STATUS_FAILED, subject, REMEDY,
                         "extent %d '%s' at offset %llu ends beyond 2^64", index, extent->name,
                         (unsigned long long)offset);
    }
    return OK;
}

/* Return the position of the first live extent whose offset is at least that of extent `id`. */
static int find_position(const struct live_extents *alive, int id) {
    int low = 0, high = alive->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (alive->offsets[alive->ids[middle]] < alive->offsets[id]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static enum status overlap_fault(const struct live_extents *alive, int below, int above,
                                 struct fault *fault) {
    const struct extent *a = &alive->extents[below], *b = &alive->extents[above];
    ASSERT(a->space == b->space && alive->offsets[below] <= alive->offsets[above]);
    char subject[32];
    return fault_set(fault, STATUS_FAILED, space_subject(a->space, subject), REMEDY,
                     "extents '%s' (bytes [%llu, %llu), steps [%u, %u)) and '%s' "
                     "(bytes [%llu, %llu), steps [%u, %u)) overlap",
                     a->name, (unsigned long long)alive->offsets[below],
                     (unsigned long long)extent_end(alive, below), a->first, a->last, b->name,
                     (unsigned long long)alive->offsets[above],
                     (unsigned long long)extent_end(alive, above), b->first, b->last);
}

/* Adds extent `id` to the live extents, or sets a fault if it overlaps one. It suffices to compare
 * with the two neighbours by offset, because the live extents are disjoint. */
static enum status live_extents_add(struct live_extents *alive, int id, struct fault *fault) {
    int position = find_position(alive, id);
    ASSERT(alive->extents[id].bytes > 0 && alive->offsets[id] < extent_end(alive, id));
    ASSERT(position >= 0 && position <= alive->count);
    if (position > 0) {
        int below = alive->ids[position - 1];
        if (extent_end(alive, below) > alive->offsets[id]) {
            return overlap_fault(alive, below, id, fault);
        }
    }
    if (position < alive->count) {
        int above = alive->ids[position];
        if (extent_end(alive, id) > alive->offsets[above]) {
            return overlap_fault(alive, id, above, fault);
        }
    }
    memmove(&alive->ids[position + 1], &alive->ids[position],
            (size_t)(alive->count - position) * sizeof *alive->ids);
    alive->ids[position] = id;
    alive->count++;
    alive->bytes += alive->extents[id].bytes;
    return OK;
}

static void live_extents_remove(struct live_extents *alive, int id) {
    int position = find_position(alive, id);
    ASSERT(position < alive->count && alive->ids[position] == id);
    ASSERT(alive->bytes >= alive->extents[id].bytes);
    alive->count--;
    memmove(&alive->ids[position], &alive->ids[position + 1],
            (size_t)(alive->count - position) * sizeof *alive->ids);
    alive->bytes -= alive->extents[id].bytes;
}

/* Peak and bound of one space as computed by the sweep. */
struct measured_peak {
    /* highest end offset of an extent; most bytes alive at one step */
    uint64_t peak_bytes, bound_bytes;
    uint32_t peak_step; /* first program step at which bound_bytes are alive */
};

static enum status check_recorded_peaks(const struct plan *plan, enum space space,
                                        const struct measured_peak *measured_peak,
                                        struct fault *fault) {
    char subject[32];
    ASSERT(measured_peak->bound_bytes <= measured_peak->peak_bytes);
    ASSERT(measured_peak->bound_bytes > 0 || measured_peak->peak_step == 0);
    space_subject(space, subject);
    if (plan->peak_bytes[space] != measured_peak->peak_bytes) {
        return fault_set(fault, STATUS_FAILED, subject, REMEDY,
                         "the plan records a peak of %llu bytes, but the offsets give %llu",
                         (unsigned long long)plan->peak_bytes[space],
                         (unsigned long long)measured_peak->peak_bytes);
    }
    if (plan->bound_bytes[space] != measured_peak->bound_bytes ||
        plan->peak_step[space] != measured_peak->peak_step) {
        return fault_set(fault, STATUS_FAILED, subject, REMEDY,
                         "the plan records a bound of %llu bytes, first reached at step %u, but "
                         "the lives give %llu bytes, first at step %u",
                         (unsigned long long)plan->bound_bytes[space], plan->peak_step[space],
                         (unsigned long long)measured_peak->bound_bytes, measured_peak->peak_step);
    }
    return OK;
}

static enum status sweep_steps(const struct plan *plan, enum space space,
                               const struct life_change *changes, int change_count,
                               struct live_extents *alive, struct fault *fault) {
    struct measured_peak measured_peak = {0};
    ASSERT(change_count % 2 == 0 && alive->count == 0);
    for (int i = 0; i < change_count; i++) {
        if (!changes[i].is_birth) {
            live_extents_remove(alive, changes[i].extent);
            continue;
        }
        TRY(live_extents_add(alive, changes[i].extent, fault));
        uint64_t end = extent_end(alive, changes[i].extent);
        measured_peak.peak_bytes = end > measured_peak.peak_bytes ? end : measured_peak.peak_bytes;
        if (alive->bytes > measured_peak.bound_bytes) {
            measured_peak.bound_bytes = alive->bytes;
            measured_peak.peak_step = changes[i].step;
        }
    }
    ASSERT(alive->count == 0 && alive->bytes == 0);
    ASSERT(measured_peak.peak_bytes >=
           measured_peak.bound_bytes); /* the live extents are disjoint */
    return check_recorded_peaks(plan, space, &measured_peak, fault);
}

static enum status verify_space(const struct arena_problem *problem, const struct plan *plan,
                                enum space space, struct region *region, struct fault *fault) {
    int count = 0;
    for (int i = 0; i < problem->extent_count; i++) {
        count += problem->extents[i].space == space;
    }
    struct life_change *changes = region_alloc(region, 2 * (size_t)count, sizeof *changes);
    int filled = 0;
    for (int i = 0; i < problem->extent_count; i++) {
        const struct extent *extent = &problem->extents[i];
        if (extent->space == space) {
            changes[filled++] = (struct life_change){extent->first, 1, i};
            changes[filled++] = (struct life_change){extent->last, 0, i};
        }
    }
    ASSERT(filled == 2 * count && count <= problem->extent_count);
    qsort(changes, (size_t)filled, sizeof *changes, compare_life_changes);
    struct live_extents alive = {.extents = problem->extents,
                                 .offsets = plan->offsets,
                                 .ids = region_alloc(region, (size_t)count + 1, sizeof(int))};
    return sweep_steps(plan, space, changes, filled, &alive, fault);
}

enum status arena_verify(const struct arena_problem *problem, const struct plan *plan,
                         struct region *region, struct fault *fault) {
    ASSERT(plan->problem.extent_count == problem->extent_count);
    for (int i = 0; i < problem->extent_count; i++) {
        TRY(check_extent(&problem->extents[i], plan->offsets[i], i, fault));
    }
    for (enum space space = 0; space < SPACE_COUNT; space++) {
        TRY(verify_space(problem, plan, space, region, fault));
    }
    return OK;
}
