#include "runtime/schedule/lives.h"

static bool lives_throughout(enum extent_role role) {
    return role == ROLE_PARAMS || role == ROLE_MASTER || role == ROLE_MOMENTS ||
           role == ROLE_CONSTANTS || role == ROLE_SCALARS || role == ROLE_BATCH ||
           role == ROLE_OUTER || role == ROLE_EXCHANGE;
}

static int segment_at(const struct schedule *schedule, uint32_t step) {
    ASSERT(step < (uint32_t)schedule->instruction_count);
    return schedule->instructions[step].segment;
}

/* An extent that is read before it is written was filled by the CPU before the segment. */
static void touch(struct schedule *schedule, const struct operand *operand, uint32_t step) {
    if (operand->extent == EXTENT_NONE) {
        return;
    }
    ASSERT(operand->extent >= 0 && operand->extent < schedule->extent_count);
    struct extent *extent = &schedule->extents[operand->extent];
    if (extent->last == 0) {
        bool filled = (operand->access & ACCESS_READ) != 0;
        extent->first = filled ? schedule->segments[segment_at(schedule, step)].first : step;
    }
    if (step + 1 > extent->last) {
        extent->last = step + 1;
    }
    ASSERT(extent->first <= step);
}

/* An extent that is alive across the end of a segment is alive in all of both segments, because
 * each may repeat. */
static void widen_across_segments(struct schedule *schedule, struct extent *extent) {
    int first = segment_at(schedule, extent->first);
    int last = segment_at(schedule, extent->last - 1);
    ASSERT(first <= last); /* segments are listed in the order of their kinds */
    if (first != last) {
        extent->first = schedule->segments[first].first;
        extent->last = schedule->segments[last].end;
    }
}

/* ---- uses on other lanes ---- */

/* Per extent: its newest position on each other lane in its last segment. */
struct other_lane_uses {
    uint32_t newest[LANE_COUNT];
};

static void note_other_lanes(const struct instruction *instruction, uint32_t position,
                             struct other_lane_uses *uses) {
    for (int k = 0; instruction->lane != LANE_COMPUTE && k < OPERANDS_MAX; k++) {
        if (instruction->operands[k].extent != EXTENT_NONE) {
            uses[instruction->operands[k].extent].newest[instruction->lane] = position;
        }
    }
}

/* Later births are listed on the compute lane. Therefore an extent ends at a use there that comes
 * after all its other uses, or else with its segment. */
static void widen_over_lanes(struct schedule *schedule, const struct order_clocks *clocks,
                             struct extent *extent, const struct other_lane_uses *uses) {
    ASSERT(extent->first < extent->last);
    uint32_t last = extent->last - 1;
    bool ends_here = schedule->instructions[last].lane == LANE_COMPUTE;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        ends_here = ends_here && clocks->after[last].done[lane] >= uses->newest[lane];
    }
    if (!ends_here) {
        extent->last = schedule->segments[segment_at(schedule, last)].end;
    }
}

static void extend_for_host(struct schedule *schedule, int extent, enum segment_kind last) {
    if (extent != EXTENT_NONE) {
        ASSERT(schedule->segments[last].first < schedule->segments[last].end);
        struct operand operand = {.extent = extent};
        touch(schedule, &operand, schedule->segments[last].end - 1);
    }
}

/* The data loader reads the tokens of a step between segments, and weights pass through the staging
 * at times that no instruction shows. */
static void live_throughout(struct schedule *schedule, int extent) {
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
            touch(schedule, &instruction->operands[k], (uint32_t)i);
        }
        touch(schedule, &instruction->workspace, (uint32_t)i);
        note_other_lanes(instruction, clocks->position[i], uses);
    }
    extend_for_host(schedule, schedule->host.logits, SEGMENT_EVALUATE);
    extend_for_host(schedule, schedule->host.next_logits, SEGMENT_DECODE);
    live_throughout(schedule, schedule->host.raw_tokens);
    if (schedule->host.device_staging != EXTENT_NONE) {
        live_throughout(schedule, schedule->host.device_staging);
    }
    if (schedule->extents[schedule->host.labels].last == 0) { /* the program only generates */
        live_throughout(schedule, schedule->host.labels);
    }
    for (int i = 0; i < schedule->extent_count; i++) {
        struct extent *extent = &schedule->extents[i];
        if (lives_throughout(extent->role)) {
            live_throughout(schedule, i);
        }
        ASSERT(extent->first < extent->last);
        widen_over_lanes(schedule, clocks, extent, &uses[i]);
        widen_across_segments(schedule, extent);
        ASSERT(extent->last <= (uint32_t)schedule->instruction_count);
    }
}
