/* run: what bind and the walk over the instructions share. */
#ifndef SKEP_PROGRAM_EXECUTE_H
#define SKEP_PROGRAM_EXECUTE_H

#include "runtime/program/program.h"

/* call_operand: operand `index` of a call: OPERANDS_MAX is the workspace. */
static inline const struct operand *call_operand(const struct instruction *instruction, int index) {
    return index < OPERANDS_MAX ? &instruction->operands[index] : &instruction->workspace;
}

/* call_is_collective: a call of contract A instead of a kernel. */
static inline bool call_is_collective(const struct instruction *instruction) {
    return op_work(instruction->op) == OP_WORK_COLLECTIVE;
}

/* call_at: instruction `index` as this rank runs it. */
static inline struct op_call call_at(const struct bound_program *bound, uint32_t index) {
    return (struct op_call){.instruction = &bound->program->schedule.instructions[index],
                            .args = &bound->args[index],
                            .at = bound->addresses[index]};
}

/* high_water_note: what the instruction is handed counts as used; high_water_merge: so that
 * bound->high_water has it. */
void high_water_note(struct bound_program *bound, enum lane lane, uint32_t index);
void high_water_merge(struct bound_program *bound);

/* execute_lane: the lane's instructions of the segment under way; `context` is the bound
 * program. */
void execute_lane(void *context, enum lane lane);

#endif
