#include "runtime/schedule/lives.h"

static bool lives_throughout(enum extent_role role) {
    return role == ROLE_PARAMS || role == ROLE_MASTER || role == ROLE_MOMENTS ||
           role == ROLE_CONSTANTS || role == ROLE_SCALARS || role == ROLE_BATCH;
}

static void touch(struct schedule *schedule, const struct operand *operand, uint32_t step) {
    if (operand->extent == EXTENT_NONE) {
        return;
    }
    struct extent *extent = &schedule->extents[operand->extent];
    if (extent->last == 0 || step < extent->first) {
        extent->first = step;
    }
    if (step + 1 > extent->last) {
        extent->last = step + 1;
    }
}

static int segment_at(const struct schedule *schedule, uint32_t step) {
    return schedule->instructions[step].segment;
}

/* Alive across a segment's end means alive in all of both segments: each may repeat. */
static void widen_across_segments(struct schedule *schedule, struct extent *extent) {
    int first = segment_at(schedule, extent->first);
    int last = segment_at(schedule, extent->last - 1);
    if (first != last) {
        extent->first = schedule->segments[first].first;
        extent->last = schedule->segments[last].end;
    }
}

/* Work on the copy lane runs beside the instructions listed around it, so what it touches is kept
 * for the whole segment. */
static void widen_beside_lanes(struct schedule *schedule, const struct instruction *instruction) {
    for (int k = 0; instruction->lane != LANE_COMPUTE && k < OPERANDS_MAX; k++) {
        if (instruction->operands[k].extent != EXTENT_NONE) {
            const struct segment *segment = &schedule->segments[instruction->segment];
            touch(schedule, &instruction->operands[k], segment->first);
            touch(schedule, &instruction->operands[k], segment->end - 1);
        }
    }
}

static void keep_for_host(struct schedule *schedule, int extent, enum segment_kind last) {
    if (extent != EXTENT_NONE) {
        struct operand operand = {.extent = extent};
        touch(schedule, &operand, schedule->segments[last].end - 1);
    }
}

/* The data loader reads a step's tokens between segments; nothing tells when. */
static void live_throughout(struct schedule *schedule, int extent) {
    schedule->extents[extent].first = 0;
    schedule->extents[extent].last = (uint32_t)schedule->instruction_count;
}

void lives_find(struct schedule *schedule) {
    for (int i = 0; i < schedule->instruction_count; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        for (int k = 0; k < OPERANDS_MAX; k++) {
            touch(schedule, &instruction->operands[k], (uint32_t)i);
        }
        touch(schedule, &instruction->workspace, (uint32_t)i);
        widen_beside_lanes(schedule, instruction);
    }
    keep_for_host(schedule, schedule->host.logits, SEGMENT_EVALUATE);
    keep_for_host(schedule, schedule->host.next_logits, SEGMENT_DECODE);
    live_throughout(schedule, schedule->host.raw_tokens);
    for (int i = 0; i < schedule->extent_count; i++) {
        struct extent *extent = &schedule->extents[i];
        if (lives_throughout(extent->role)) {
            live_throughout(schedule, i);
        }
        ASSERT(extent->first < extent->last);
        widen_across_segments(schedule, extent);
    }
}
