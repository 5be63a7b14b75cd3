#include "runtime/schedule/instruction_list.h"

#include <stdio.h>
#include <string.h>

static void double_instruction_capacity(struct schedule *schedule) {
    ASSERT(schedule->instruction_count == schedule->instruction_capacity);
    int capacity = schedule->instruction_capacity == 0 ? 512 : 2 * schedule->instruction_capacity;
    struct instruction *bigger = region_alloc(schedule->region, (size_t)capacity, sizeof *bigger);
    if (schedule->instruction_count > 0) {
        memcpy(bigger, schedule->instructions,
               (size_t)schedule->instruction_count * sizeof *bigger);
    }
    schedule->instructions = bigger;
    schedule->instruction_capacity = capacity;
}

struct instruction *append_instruction(struct schedule *schedule, enum op_kind op,
                                       enum segment_kind segment, enum lane lane) {
    ASSERT(segment < SEGMENT_COUNT && lane < LANE_COUNT);
    ASSERT(schedule->segments[segment].repeat > 0 && schedule->segments[segment].end == 0);
    if (schedule->instruction_count == schedule->instruction_capacity) {
        double_instruction_capacity(schedule);
    }
    struct instruction *added = &schedule->instructions[schedule->instruction_count++];
    *added = (struct instruction){
        .op = op, .segment = (uint8_t)segment, .lane = (uint8_t)lane, .layer = PARAM_NO_LAYER};
    for (int i = 0; i < OPERANDS_MAX; i++) {
        added->operands[i].extent = EXTENT_NONE;
    }
    added->workspace.extent = EXTENT_NONE;
    return added;
}

void add_workspace(struct schedule *schedule, struct instruction *instruction) {
    struct op_hardware machine = {.device = schedule_device(schedule),
                                  .threads = schedule->target->threads};
    uint64_t bytes = op_workspace_bytes(instruction, &machine);
    if (bytes == 0) {
        return;
    }
    ASSERT(instruction->workspace.extent == EXTENT_NONE);
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s/%d.%s.workspace", segment_name(instruction->segment),
             (int)(instruction - schedule->instructions), op_row(instruction->op)->name);
    int extent = extent_table_add(schedule, region_copy_text(schedule->region, name),
                                  ROLE_WORKSPACE, SPACE_DEVICE, bytes);
    instruction->workspace = extent_table_whole_extent(schedule, extent, ACCESS_WRITE);
}

void append_operand_copy(struct schedule *schedule, enum segment_kind segment, struct operand from,
                         struct operand to) {
    struct instruction *copy = append_instruction(schedule, OP_COPY, segment, LANE_COPY);
    ASSERT(from.bytes == to.bytes && from.bytes > 0);
    ASSERT(from.extent != to.extent);
    from.access = ACCESS_READ;
    to.access = ACCESS_WRITE;
    copy->operands[COPY_FROM] = from;
    copy->operands[COPY_TO] = to;
    copy->args.count = (int64_t)from.bytes;
}

void append_extent_copy(struct schedule *schedule, enum segment_kind segment, int from, int to) {
    if (from == to || from == EXTENT_NONE) {
        return;
    }
    append_operand_copy(schedule, segment, extent_table_whole_extent(schedule, from, ACCESS_READ),
                        extent_table_whole_extent(schedule, to, ACCESS_WRITE));
}

void append_zero_fill(struct schedule *schedule, enum segment_kind segment, int extent) {
    struct instruction *zero = append_instruction(schedule, OP_ZERO, segment, LANE_COMPUTE);
    zero->operands[ZERO_EXTENT] = extent_table_whole_extent(schedule, extent, ACCESS_WRITE);
    zero->args.count = (int64_t)schedule->extents[extent].bytes;
}

void begin_segment(struct schedule *schedule, enum segment_kind segment, int64_t repeat) {
    ASSERT(repeat >= 1 && schedule->segments[segment].repeat == 0); /* listed once */
    schedule->segments[segment].first = (uint32_t)schedule->instruction_count;
    schedule->segments[segment].repeat = repeat;
}

void end_segment(struct schedule *schedule, enum segment_kind segment) {
    ASSERT(schedule->segments[segment].repeat > 0 && schedule->segments[segment].end == 0);
    ASSERT(schedule->segments[segment].first < (uint32_t)schedule->instruction_count);
    schedule->segments[segment].end = (uint32_t)schedule->instruction_count;
}
