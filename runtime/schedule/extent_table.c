#include "runtime/schedule/extent_table.h"

#include <string.h>

/* Doubles the capacity of the table. The old table stays in the region, which is released as a
 * whole. */
static void double_extent_capacity(struct schedule *schedule) {
    ASSERT(schedule->extent_count == schedule->extent_capacity);
    int capacity = schedule->extent_capacity == 0 ? 512 : 2 * schedule->extent_capacity;
    struct extent *bigger = region_alloc(schedule->region, (size_t)capacity, sizeof *bigger);
    if (schedule->extent_count > 0) {
        memcpy(bigger, schedule->extents, (size_t)schedule->extent_count * sizeof *bigger);
    }
    schedule->extents = bigger;
    schedule->extent_capacity = capacity;
}

static int append_extent(struct schedule *schedule, const struct extent *extent) {
    ASSERT(extent->bytes > 0 && extent->role < ROLE_COUNT && extent->space < SPACE_COUNT);
    ASSERT(extent->align >= ARENA_ALIGN_BYTES && (extent->align & (extent->align - 1)) == 0);
    ASSERT(extent->last == 0); /* lives are set only after all instructions are listed */
    if (schedule->extent_count == schedule->extent_capacity) {
        double_extent_capacity(schedule);
    }
    schedule->extents[schedule->extent_count] = *extent;
    return schedule->extent_count++;
}

int extent_table_add(struct schedule *schedule, const char *name, enum extent_role role,
                     enum space space, uint64_t bytes) {
    return append_extent(schedule,
                         &(struct extent){.name = name,
                                          .role = role,
                                          .space = schedule->target->unified ? SPACE_DEVICE : space,
                                          .bytes = bytes,
                                          .align = schedule->target->align_bytes});
}

int extent_table_add_offloaded(struct schedule *schedule, const char *name, enum extent_role role,
                               bool copied, uint64_t bytes) {
    bool pinned = copied && !schedule->target->unified;
    return append_extent(schedule, &(struct extent){.name = name,
                                                    .role = role,
                                                    .space = pinned ? SPACE_PINNED : SPACE_HOST,
                                                    .bytes = bytes,
                                                    .align = schedule->target->align_bytes});
}

struct operand extent_table_whole_extent(const struct schedule *schedule, int extent,
                                         enum access access) {
    ASSERT(extent >= 0 && extent < schedule->extent_count);
    return (struct operand){
        .extent = extent, .access = access, .bytes = schedule->extents[extent].bytes};
}
