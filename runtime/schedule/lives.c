#include "runtime/schedule/lives.h"

static bool has_permanent_life(enum extent_role role) {
    return role == ROLE_PARAMS || role == ROLE_MASTER || role == ROLE_MOMENTS ||
           role == ROLE_CONSTANTS || role == ROLE_SCALARS || role == ROLE_BATCH ||
           role == ROLE_OUTER || role == ROLE_EXCHANGE;
}

static int segment_of_step(const struct schedule *schedule, uint32_t step) {
    ASSERT(step < (uint32_t)schedule->instruction_count);
    return schedule->instructions[step].segment;
}

/* Extends the life of the operand's extent to this use. If an extent is read before it is written,
 * its life begins with the segment, because the CPU has filled it before. */
static void extend_life_to_use(struct schedule *schedule, const struct operand *operand,
                               uint32_t step) {
    if (operand->extent == EXTENT_NONE) {
        return;
    }
    ASSERT(operand->extent >= 0 && operand->extent < schedule->extent_count);
    struct extent *extent = &schedule->extents[operand->extent];
    if (extent->last == 0) {
        bool filled = (operand->access & ACCESS_READ) != 0;
        extent->first = filled ? schedule->segments[segment_of_step(schedule, step)].first : step;
    }
    if (step + 1 > extent->last) {
        extent->last = step + 1;
    }
    ASSERT(extent->first <= step);
}

/* Extends a life to whole segments: if an extent is alive across the end of a segment, its life
 * covers both segments entirely, because each segment may repeat. */
static void extend_across_segments(struct schedule *schedule, struct extent *extent) {
    int first = segment_of_step(schedule, extent->first);
    int last = segment_of_step(schedule, extent->last - 1);
    ASSERT(first <= last); /* segments are listed in the order of enum segment_kind */
    if (first != last) {
        extent->first = schedule->segments[first].first;
        extent->last = schedule->segments[last].end;
    }
}

/* ---- uses on other lanes ---- */

/* For one extent, the position of its newest use on each lane but the compute lane, within the last
 * segment that uses the extent. */
struct other_lane_uses {
    /* [lane]: position of the newest use in its lane; 0: none */
    uint32_t newest_position[LANE_COUNT];
};

static void record_other_lane_uses(const struct instruction *instruction, uint32_t position,
                                   struct other_lane_uses *uses) {
    for (int k = 0; instruction->lane != LANE_COMPUTE && k < OPERANDS_MAX; k++) {
        if (instruction->operands[k].extent != EXTENT_NONE) {
            uses[instruction->operands[k].extent].newest_position[instruction->lane] = position;
        }
    }
}

/* Lengthens the life of an extent for its uses on lanes other than the compute lane. The extent
 * that gets the bytes next is first used on the compute lane. A life may therefore end at a use on
 * the compute lane if that use waits for all other uses, and else ends with the segment. */
static void extend_for_other_lanes(struct schedule *schedule, const struct order_clocks *clocks,
                                   struct extent *extent, const struct other_lane_uses *uses) {
    ASSERT(extent->first < extent->last);
    uint32_t last = extent->last - 1;
    bool ends_here = schedule->instructions[last].lane == LANE_COMPUTE;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        ends_here = ends_here && clocks->after[last].done[lane] >= uses->newest_position[lane];
    }
    if (!ends_here) {
        extent->last = schedule->segments[segment_of_step(schedule, last)].end;
    }
}

static void extend_for_cpu_access(struct schedule *schedule, int extent, enum segment_kind last) {
    if (extent != EXTENT_NONE) {
        ASSERT(schedule->segments[last].first < schedule->segments[last].end);
        struct operand operand = {.extent = extent};
        extend_life_to_use(schedule, &operand, schedule->segments[last].end - 1);
    }
}

/* Makes an extent live throughout the program, because the CPU uses it at times that no instruction
 * shows: the data loader reads tokens between segments, and weights pass through the staging
 * buffer. */
static void make_life_permanent(struct schedule *schedule, int extent) {
    ASSERT(extent >= 0 && extent < schedule->extent_count);
    schedule->extents[extent].first = 0;
    schedule->extents[extent].last = (uint32_t)schedule->instruction_count;
}

void lives_find(struct schedule *schedule, const struct order_clocks *clocks) {
    struct other_lane_uses *uses =
        region_alloc(schedule->region, (size_t)schedule->extent_count, sizeof *uses);
    for (int i = 0; i < schedule->instruction_count; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        for (int k = 0; k < OPERANDS_MAX; k++) {
            extend_life_to_use(schedule, &instruction->operands[k], (uint32_t)i);
        }
        extend_life_to_use(schedule, &instruction->workspace, (uint32_t)i);
        record_other_lane_uses(instruction, clocks->position[i], uses);
    }
    extend_for_cpu_access(schedule, schedule->host.logits, SEGMENT_EVALUATE);
    extend_for_cpu_access(schedule, schedule->host.next_logits, SEGMENT_DECODE);
    make_life_permanent(schedule, schedule->host.raw_tokens);
    if (schedule->host.device_staging != EXTENT_NONE) {
        make_life_permanent(schedule, schedule->host.device_staging);
    }
    /* a program that only generates text uses no labels */
    if (schedule->extents[schedule->host.labels].last == 0) {
        make_life_permanent(schedule, schedule->host.labels);
    }
    for (int i = 0; i < schedule->extent_count; i++) {
        struct extent *extent = &schedule->extents[i];
        if (has_permanent_life(extent->role)) {
            make_life_permanent(schedule, i);
        }
        ASSERT(extent->first < extent->last);
        extend_for_other_lanes(schedule, clocks, extent, &uses[i]);
        extend_across_segments(schedule, extent);
        ASSERT(extent->last <= (uint32_t)schedule->instruction_count);
    }
}
