/* execute: executes the instructions of a bound program, each lane in listed order. */
#include "runtime/program/execute.h"

#include "base/clock.h"

/* Records the addresses that kernels actually receive, so that a test can compare them with the
 * plan. */
void record_high_water(struct bound_program *bound, enum lane lane, uint32_t index) {
    const struct instruction *instruction = &bound->program->schedule.instructions[index];
    const struct extent *extents = bound->program->schedule.extents;
    for (int k = 0; k < CALL_OPERANDS; k++) {
        const struct operand *operand = call_operand(instruction, k);
        if (operand->extent != EXTENT_NONE) {
            enum space space = extents[operand->extent].space;
            const char *begin = bound->addresses[index][k];
            uint64_t end = (uint64_t)(begin - bound->base[space]) + operand->bytes;
            uint64_t *highest = &bound->lane_high_water[lane][space];
            *highest = end > *highest ? end : *highest;
        }
    }
}

void merge_high_water(struct bound_program *bound) {
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        for (int space = 0; space < SPACE_COUNT; space++) {
            uint64_t end = bound->lane_high_water[lane][space];
            uint64_t *highest = &bound->high_water[space];
            *highest = end > *highest ? end : *highest;
        }
    }
}

static void execute_op(struct bound_program *bound, uint32_t index) {
    const struct instruction *instruction = &bound->program->schedule.instructions[index];
    if (call_is_collective(instruction)) {
        ASSERT(bound->communicator != NULL);
        collective_run(bound->communicator, &bound->calls[index]);
    } else {
        struct op_call call = call_at(bound, index);
        op_run(&bound->compute, &call);
    }
}

static void execute_op_traced(struct bound_program *bound, enum lane lane, uint32_t index) {
    struct trace_record record = {
        .kind = TRACE_EXECUTE, .instruction = index, .begin_ns = clock_monotonic_ns()};
    execute_op(bound, index);
    record.end_ns = clock_monotonic_ns();
    trace_add_record(bound->trace, lane, &record);
}

static void execute_instruction(struct bound_program *bound, enum lane lane, uint32_t index) {
    if (bound->hook != NULL) {
        bound->hook(bound->hook_context, index);
    }
    if (bound->trace != NULL) {
        execute_op_traced(bound, lane, index);
    } else {
        execute_op(bound, index);
    }
    record_high_water(bound, lane, index);
}

static void wait_for_event(struct bound_program *bound, enum lane lane, uint32_t index,
                           uint32_t event) {
    if (lanes_is_event_signalled(&bound->lanes, event)) {
        return;
    }
    if (bound->trace == NULL) {
        lanes_wait_for_event(&bound->lanes, lane, event);
        return;
    }
    struct trace_record record = {
        .kind = TRACE_WAIT, .instruction = index, .event = event, .begin_ns = clock_monotonic_ns()};
    lanes_wait_for_event(&bound->lanes, lane, event);
    record.end_ns = clock_monotonic_ns();
    trace_add_record(bound->trace, lane, &record);
}

static void execute_after_waits(struct bound_program *bound, enum lane lane, uint32_t index) {
    const struct instruction *instruction = &bound->program->schedule.instructions[index];
    for (int k = 0; k < WAITS_MAX; k++) {
        if (instruction->waits[k] != EVENT_NONE) {
            wait_for_event(bound, lane, index, instruction->waits[k]);
        }
    }
    execute_instruction(bound, lane, index);
    if (instruction->signal != EVENT_NONE) {
        lanes_signal_event(&bound->lanes, instruction->signal);
    }
}

static void wait_for_lanes_traced(struct bound_program *bound) {
    uint32_t last = bound->program->schedule.segments[bound->segment].end - 1;
    struct trace_record record = {
        .kind = TRACE_JOIN, .instruction = last, .begin_ns = clock_monotonic_ns()};
    lanes_wait_all(&bound->lanes);
    record.end_ns = clock_monotonic_ns();
    trace_add_record(bound->trace, LANE_COMPUTE, &record);
}

void execute_lane(void *context, enum lane lane) {
    struct bound_program *bound = context;
    const struct lane_list *list = &bound->lists[bound->segment][lane];
    for (uint32_t i = 0; i < list->count; i++) {
        execute_after_waits(bound, lane, bound->order[list->first + i]);
    }
    if (lane == LANE_COMPUTE && bound->trace != NULL) {
        wait_for_lanes_traced(bound);
    }
}

void program_execute_segment(struct bound_program *bound, enum segment_kind kind) {
    const struct segment *segment = &bound->program->schedule.segments[kind];
    ASSERT(segment->first < segment->end);
    if (bound->device != NULL) {
        bound->device->methods->run_segment(bound->device, kind);
        return;
    }
    unsigned mask = 0;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        bool threaded = lane != LANE_COMPUTE && bound->lists[kind][lane].count > 0;
        mask |= threaded ? 1u << lane : 0;
    }
    bound->segment = kind;
    lanes_run(&bound->lanes, mask);
    merge_high_water(bound);
}

void program_execute_instruction(struct bound_program *bound, uint32_t index) {
    if (bound->device != NULL) {
        bound->device->methods->run_instruction(bound->device, index);
        return;
    }
    execute_instruction(bound, LANE_COMPUTE, index);
    merge_high_water(bound);
}

enum status program_failure(const struct bound_program *bound, struct fault *fault) {
    return bound->device == NULL ? OK : bound->device->methods->failure(bound->device, fault);
}
