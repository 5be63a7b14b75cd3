#include "runtime/program/print.h"

#include "base/text.h"

enum { LINE_BYTES = 4096 }; /* maximum length of a line of a listing */

static const char *const LANE_NAMES[LANE_COUNT] = {"compute", "collective", "copy"};

static void send_line(struct text *line, program_sink *sink, void *context) {
    ASSERT(!line->truncated);
    sink(context, line->bytes, line->length);
}

/* Prints "extent SPACE OFFSET BYTES FIRST LAST ROLE NAME" for every extent, in index order. */
static void print_extents(const struct program *program, program_sink *sink, void *context) {
    for (int i = 0; i < program->schedule.extent_count; i++) {
        const struct extent *extent = &program->schedule.extents[i];
        char buffer[LINE_BYTES];
        struct text line = text_over(buffer, sizeof buffer);
        text_add(&line, "extent %s %llu %llu %u %u %s %s\n", space_name(extent->space),
                 (unsigned long long)program->plan.offsets[i], (unsigned long long)extent->bytes,
                 extent->first, extent->last, extent_role_name(extent->role), extent->name);
        send_line(&line, sink, context);
    }
}

static void add_operand(struct text *line, const struct schedule *schedule,
                        const struct operand *operand) {
    if (operand->extent == EXTENT_NONE) {
        return;
    }
    const char *mark = operand->access == ACCESS_READ    ? "<"
                       : operand->access == ACCESS_WRITE ? ">"
                                                         : "=";
    text_add(line, " %s%s", mark, schedule->extents[operand->extent].name);
    if (operand->offset != 0) {
        text_add(line, "+%llu", (unsigned long long)operand->offset);
    }
    if (operand->stride != 0) {
        text_add(line, "+%s*%llu", rank_axis_name(operand->axis),
                 (unsigned long long)operand->stride);
    }
    text_add(line, ":%llu", (unsigned long long)operand->bytes);
}

void program_print_instruction(const struct program *program, uint32_t index, program_sink *sink,
                               void *context) {
    const struct schedule *schedule = &program->schedule;
    const struct instruction *instruction = &schedule->instructions[index];
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    text_add(&line, "%6u %-7s %-20s", index, LANE_NAMES[instruction->lane],
             op_row(instruction->op)->name);
    op_append_text(instruction, &line);
    text_add(&line, " |");
    for (int k = 0; k < OPERANDS_MAX; k++) {
        add_operand(&line, schedule, &instruction->operands[k]);
    }
    add_operand(&line, schedule, &instruction->workspace);
    for (int k = 0; k < WAITS_MAX; k++) {
        if (instruction->waits[k] != EVENT_NONE) {
            text_add(&line, " wait %u", instruction->waits[k]);
        }
    }
    if (instruction->signal != EVENT_NONE) {
        text_add(&line, " signal %u", instruction->signal);
    }
    text_add(&line, "\n");
    send_line(&line, sink, context);
}

void program_print_instructions(const struct program *program, program_sink *sink, void *context) {
    for (int kind = 0; kind < SEGMENT_COUNT; kind++) {
        const struct segment *segment = &program->schedule.segments[kind];
        if (segment->first == segment->end) {
            continue;
        }
        char buffer[LINE_BYTES];
        struct text line = text_over(buffer, sizeof buffer);
        text_add(&line, "segment %s x %lld\n", segment_name((enum segment_kind)kind),
                 (long long)segment->repeat);
        send_line(&line, sink, context);
        for (uint32_t i = segment->first; i < segment->end; i++) {
            program_print_instruction(program, i, sink, context);
        }
    }
}

static void hash_line(void *context, const char *line, size_t length) {
    hash_add(context, line, length);
}

struct hash program_hash(const struct program *program) {
    struct hash_state state;
    hash_begin(&state);
    print_extents(program, hash_line, &state);
    program_print_instructions(program, hash_line, &state);
    return hash_end(&state);
}
