#include "runtime/schedule/order.h"

#include <string.h>

enum {
    INSTRUCTION_OPERANDS_MAX = OPERANDS_MAX + 1, /* operands and workspace */
    NO_INSTRUCTION = 0,                          /* no earlier instruction */
};

static const struct operand *operand_or_workspace_at(const struct instruction *instruction,
                                                     int index) {
    ASSERT(index >= 0 && index < INSTRUCTION_OPERANDS_MAX);
    return index < OPERANDS_MAX ? &instruction->operands[index] : &instruction->workspace;
}

static bool segment_uses_other_lanes(const struct schedule *schedule,
                                     const struct segment *segment) {
    ASSERT(segment->first <= segment->end);
    for (uint32_t i = segment->first; i < segment->end; i++) {
        if (schedule->instructions[i].lane != LANE_COMPUTE) {
            return true;
        }
    }
    return false;
}

static void merge_clocks(struct vector_clock *into, const struct vector_clock *from) {
    for (int lane = 0; lane < LANES_MAX; lane++) {
        into->done[lane] =
            from->done[lane] > into->done[lane] ? from->done[lane] : into->done[lane];
    }
}

static struct order_clocks allocate_clocks(const struct schedule *schedule, struct region *region) {
    size_t count = (size_t)schedule->instruction_count;
    return (struct order_clocks){.after = region_alloc(region, count, sizeof(struct vector_clock)),
                                 .position = region_alloc(region, count, sizeof(uint32_t))};
}

/* ---- adding waits ---- */

/* The newest uses of an extent on each lane: instruction index + 1, or NO_INSTRUCTION. */
struct newest_uses {
    /* [lane]: index + 1 of the newest instruction that accesses the extent */
    uint32_t last_access[LANE_COUNT];
    /* [lane]: index + 1 of the newest instruction that writes the extent */
    uint32_t last_write[LANE_COUNT];
};

struct wait_builder {
    struct schedule *schedule;
    /* clocks of the instructions whose waits were added */
    struct order_clocks clocks;
    struct newest_uses *uses; /* [extent_count] */
    /* [lane]: number of instructions of each lane that this lane knows to be complete */
    struct vector_clock lane_clock[LANE_COUNT];
    uint32_t newest_compute; /* index + 1 of the newest instruction on the compute lane */
};

static void add_wait(struct schedule *schedule, uint32_t before_index, uint32_t after_index) {
    struct instruction *before = &schedule->instructions[before_index];
    struct instruction *after = &schedule->instructions[after_index];
    ASSERT(before_index < after_index);
    ASSERT(before->lane != after->lane && before->segment == after->segment);
    if (before->signal == EVENT_NONE) {
        before->signal = ++schedule->event_count;
    }
    for (int i = 0; i < WAITS_MAX; i++) {
        if (after->waits[i] == EVENT_NONE) {
            after->waits[i] = before->signal;
            return;
        }
    }
    ASSERT(false && "an instruction has at most WAITS_MAX waits");
}

/* For each other lane, find the newest instruction that must complete before `instruction`. All
 * older instructions of that lane have completed too by then. */
static void find_needed_instructions(const struct wait_builder *waiting,
                                     const struct instruction *instruction,
                                     uint32_t needs[static LANE_COUNT]) {
    memset(needs, 0, LANE_COUNT * sizeof *needs);
    needs[LANE_COMPUTE] = waiting->newest_compute;
    for (int k = 0; k < INSTRUCTION_OPERANDS_MAX; k++) {
        const struct operand *operand = operand_or_workspace_at(instruction, k);
        if (operand->extent == EXTENT_NONE) {
            continue;
        }
        const struct newest_uses *uses = &waiting->uses[operand->extent];
        const uint32_t *newest =
            operand->access & ACCESS_WRITE ? uses->last_access : uses->last_write;
        for (int lane = 0; lane < LANE_COUNT; lane++) {
            needs[lane] = newest[lane] > needs[lane] ? newest[lane] : needs[lane];
        }
    }
    ASSERT(instruction->lane < LANE_COUNT);
    needs[instruction->lane] = NO_INSTRUCTION;
}

/* Whether lane `own_lane` already knows that the needed instruction on `lane` is complete, or the
 * wait for another needed instruction implies this. */
static bool is_wait_implied(const struct wait_builder *waiting, int own_lane,
                            const uint32_t needs[static LANE_COUNT], int lane) {
    const struct order_clocks *clocks = &waiting->clocks;
    ASSERT(lane != own_lane && needs[lane] != NO_INSTRUCTION);
    uint32_t position = clocks->position[needs[lane] - 1];
    if (waiting->lane_clock[own_lane].done[lane] >= position) {
        return true;
    }
    for (int other = 0; other < LANE_COUNT; other++) {
        if (other != lane && needs[other] != NO_INSTRUCTION &&
            clocks->after[needs[other] - 1].done[lane] >= position) {
            return true;
        }
    }
    return false;
}

static void record_uses(struct wait_builder *waiting, uint32_t index) {
    const struct instruction *instruction = &waiting->schedule->instructions[index];
    for (int k = 0; k < INSTRUCTION_OPERANDS_MAX; k++) {
        const struct operand *operand = operand_or_workspace_at(instruction, k);
        if (operand->extent == EXTENT_NONE) {
            continue;
        }
        struct newest_uses *uses = &waiting->uses[operand->extent];
        /* uses are recorded in listed order */
        ASSERT(uses->last_access[instruction->lane] <= index + 1);
        uses->last_access[instruction->lane] = index + 1;
        if (operand->access & ACCESS_WRITE) {
            uses->last_write[instruction->lane] = index + 1;
        }
    }
    if (instruction->lane == LANE_COMPUTE) {
        waiting->newest_compute = index + 1;
    }
}

static void add_needed_waits(struct wait_builder *waiting, uint32_t index) {
    const struct instruction *instruction = &waiting->schedule->instructions[index];
    struct vector_clock *clock = &waiting->lane_clock[instruction->lane];
    uint32_t needs[LANE_COUNT];
    find_needed_instructions(waiting, instruction, needs);
    struct vector_clock joined = *clock;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        if (needs[lane] != NO_INSTRUCTION &&
            !is_wait_implied(waiting, instruction->lane, needs, lane)) {
            add_wait(waiting->schedule, needs[lane] - 1, index);
            merge_clocks(&joined, &waiting->clocks.after[needs[lane] - 1]);
        }
    }
    ASSERT(joined.done[instruction->lane] == clock->done[instruction->lane]);
    *clock = joined;
    waiting->clocks.position[index] = ++clock->done[instruction->lane];
    waiting->clocks.after[index] = *clock;
    record_uses(waiting, index);
}

/* Add all waits, segment by segment. A segment that uses only the compute lane needs no waits. */
void order_add_waits(struct schedule *schedule, struct order_clocks *clocks) {
    size_t extents = (size_t)schedule->extent_count;
    struct wait_builder waiting = {
        .schedule = schedule,
        .clocks = allocate_clocks(schedule, schedule->region),
        .uses = region_alloc(schedule->region, extents, sizeof(struct newest_uses))};
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        const struct segment *segment = &schedule->segments[kind];
        memset(waiting.uses, 0, extents * sizeof *waiting.uses);
        memset(waiting.lane_clock, 0, sizeof waiting.lane_clock);
        ASSERT(segment->first <= segment->end &&
               segment->end <= (uint32_t)schedule->instruction_count);
        waiting.newest_compute = NO_INSTRUCTION;
        for (uint32_t i = segment->first; i < segment->end; i++) {
            add_needed_waits(&waiting, i);
        }
    }
    *clocks = waiting.clocks;
}

/* ---- the proof ---- */

struct verification {
    const struct schedule *schedule;
    const uint64_t *offsets; /* [extent_count]: offset of each extent in the plan */
    struct order_clocks clocks;
    uint32_t *signalled_by;      /* [event]: index + 1 of the instruction that signals it */
    uint32_t *lanes[LANE_COUNT]; /* indices of the segment's instructions, by lane */
    uint32_t counts[LANE_COUNT]; /* number of the segment's instructions on each lane */
};

static enum status reject_wait(uint32_t index, uint32_t event, struct fault *fault) {
    return fault_set(fault, STATUS_FAILED, "schedule", "this is a bug; please report it",
                     "instruction %u waits for lane event %u, which no earlier instruction signals",
                     index, event);
}

/* Compute the vector clock of each instruction from the waits and signals of the list. */
static enum status find_clocks(struct verification *verification, const struct segment *segment,
                               struct fault *fault) {
    const struct schedule *schedule = verification->schedule;
    struct order_clocks *clocks = &verification->clocks;
    struct vector_clock lane_clock[LANE_COUNT] = {0};
    memset(verification->counts, 0, sizeof verification->counts);
    for (uint32_t i = segment->first; i < segment->end; i++) {
        const struct instruction *instruction = &schedule->instructions[i];
        int lane = instruction->lane;
        struct vector_clock *clock = &lane_clock[lane];
        for (int k = 0; k < WAITS_MAX; k++) {
            uint32_t event = instruction->waits[k];
            uint32_t signalled_by = event == EVENT_NONE ? 0 : verification->signalled_by[event];
            if (event != EVENT_NONE && signalled_by <= segment->first) {
                return reject_wait(i, event, fault);
            }
            if (event != EVENT_NONE) {
                merge_clocks(clock, &clocks->after[signalled_by - 1]);
            }
        }
        ASSERT(lane < LANE_COUNT && clock->done[lane] == verification->counts[lane]);
        clocks->position[i] = ++clock->done[lane];
        clocks->after[i] = *clock;
        verification->lanes[lane][verification->counts[lane]++] = i;
        if (instruction->signal != EVENT_NONE) {
            verification->signalled_by[instruction->signal] = i + 1;
        }
    }
    return OK;
}

/* Return the distance from the begin of the operand on the first rank of its axis to the end of the
 * operand on the last rank. */
static uint64_t operand_end_on_any_rank(const struct schedule *schedule,
                                        const struct operand *operand) {
    int ranks = schedule_rank_count(schedule, operand->axis);
    ASSERT(operand->bytes > 0);
    return operand->bytes + operand->stride * (uint64_t)(ranks - 1);
}

static bool bytes_overlap(const struct verification *verification, const struct operand *a,
                          const struct operand *b) {
    const struct schedule *schedule = verification->schedule;
    const struct extent *x = &schedule->extents[a->extent];
    const struct extent *y = &schedule->extents[b->extent];
    ASSERT(a->extent >= 0 && a->extent < schedule->extent_count);
    ASSERT(b->extent >= 0 && b->extent < schedule->extent_count);
    uint64_t x_first = verification->offsets[a->extent] + a->offset;
    uint64_t y_first = verification->offsets[b->extent] + b->offset;
    return x->space == y->space && x_first < y_first + operand_end_on_any_rank(schedule, b) &&
           y_first < x_first + operand_end_on_any_rank(schedule, a);
}

static bool operands_conflict(const struct verification *verification, const struct instruction *a,
                              const struct instruction *b, int *a_extent, int *b_extent) {
    for (int i = 0; i < INSTRUCTION_OPERANDS_MAX; i++) {
        const struct operand *x = operand_or_workspace_at(a, i);
        for (int j = 0; x->extent != EXTENT_NONE && j < INSTRUCTION_OPERANDS_MAX; j++) {
            const struct operand *y = operand_or_workspace_at(b, j);
            if (y->extent != EXTENT_NONE && ((x->access | y->access) & ACCESS_WRITE) &&
                bytes_overlap(verification, x, y)) {
                *a_extent = x->extent;
                *b_extent = y->extent;
                return true;
            }
        }
    }
    return false;
}

static enum status verify_pair(const struct verification *verification, uint32_t before,
                               uint32_t after, struct fault *fault) {
    const struct schedule *schedule = verification->schedule;
    const struct instruction *a = &schedule->instructions[before];
    const struct instruction *b = &schedule->instructions[after];
    ASSERT(before < after && a->lane != b->lane && a->segment == b->segment);
    int a_extent;
    int b_extent;
    if (!operands_conflict(verification, a, b, &a_extent, &b_extent)) {
        return OK;
    }
    return fault_set(
        fault, STATUS_FAILED, "schedule", "this is a bug; please report it",
        "instructions %u (%s, \"%s\") and %u (%s, \"%s\") may use the same bytes concurrently",
        after, op_row(b->op)->name, schedule->extents[b_extent].name, before, op_row(a->op)->name,
        schedule->extents[a_extent].name);
}

/* Verify instruction `index` against the instructions of `lane`. The clock of a lane only grows, so
 * the instructions that may execute concurrently with `index` are one span of the lane: from the
 * first that `index` does not know to be complete to the last that does not know `index` to be
 * complete. */
static enum status verify_concurrent(const struct verification *verification, uint32_t index,
                                     int lane, struct fault *fault) {
    const struct order_clocks *clocks = &verification->clocks;
    ASSERT(lane >= 0 && lane < LANE_COUNT);
    int own_lane = verification->schedule->instructions[index].lane;
    for (uint32_t at = clocks->after[index].done[lane]; at < verification->counts[lane]; at++) {
        uint32_t other = verification->lanes[lane][at];
        ASSERT(other != index);
        if (clocks->after[other].done[own_lane] >= clocks->position[index]) {
            break;
        }
        uint32_t before = other < index ? other : index;
        uint32_t after = other < index ? index : other;
        TRY(verify_pair(verification, before, after, fault));
    }
    return OK;
}

/* Verify all pairs of instructions of one segment that are on different lanes. */
static enum status verify_segment(struct verification *verification, const struct segment *segment,
                                  struct fault *fault) {
    TRY(find_clocks(verification, segment, fault));
    for (uint32_t i = segment->first; i < segment->end; i++) {
        int own_lane = verification->schedule->instructions[i].lane;
        for (int lane = 0; lane < own_lane; lane++) {
            TRY(verify_concurrent(verification, i, lane, fault));
        }
    }
    return OK;
}

enum status schedule_verify(const struct schedule *schedule, const uint64_t *offsets,
                            struct region *region, struct fault *fault) {
    struct verification verification = {
        .schedule = schedule,
        .offsets = offsets,
        .clocks = allocate_clocks(schedule, region),
        .signalled_by = region_alloc(region, (size_t)schedule->event_count + 1, sizeof(uint32_t))};
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        verification.lanes[lane] =
            region_alloc(region, (size_t)schedule->instruction_count, sizeof(uint32_t));
    }
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        const struct segment *segment = &schedule->segments[kind];
        if (segment_uses_other_lanes(schedule, segment)) {
            TRY(verify_segment(&verification, segment, fault));
        }
    }
    return OK;
}
