/* opcodes: what each instruction does on the CPU: one call of one kernel. */
#ifndef SKEP_PROGRAM_OPCODES_H
#define SKEP_PROGRAM_OPCODES_H

#include "kernels/compute.h"
#include "runtime/schedule/schedule.h"

/* opcode_run: run `instruction` on its resolved addresses (operands, then the workspace). */
void opcode_run(const struct compute *compute, const struct instruction *instruction,
                void *const *address);

#endif
