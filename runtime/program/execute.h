/* execute: functions that bind.c and execute.c share. */
#ifndef SKEP_PROGRAM_EXECUTE_H
#define SKEP_PROGRAM_EXECUTE_H

#include "runtime/program/program.h"

/* call_operand: returns operand `index` of an instruction; index OPERANDS_MAX is the workspace. */
static inline const struct operand *call_operand(const struct instruction *instruction, int index) {
    return index < OPERANDS_MAX ? &instruction->operands[index] : &instruction->workspace;
}

/* call_is_collective: whether the instruction calls a collective instead of a kernel. */
static inline bool call_is_collective(const struct instruction *instruction) {
    return op_work(instruction->op) == OP_WORK_COLLECTIVE;
}

/* call_at: returns the kernel call of instruction `index` on this rank. */
static inline struct op_call call_at(const struct bound_program *bound, uint32_t index) {
    return (struct op_call){.instruction = &bound->program->schedule.instructions[index],
                            .args = &bound->args[index],
                            .addresses = bound->addresses[index]};
}

/* record_high_water: record the highest address that the instruction uses, for its lane.
 * merge_high_water: merge the records of all lanes into bound->high_water. */
void record_high_water(struct bound_program *bound, enum lane lane, uint32_t index);
void merge_high_water(struct bound_program *bound);

/* execute_lane: execute the lane's instructions of the current segment; `context` is the bound
 * program. */
void execute_lane(void *context, enum lane lane);

#endif
