/* opcodes: what each instruction does on the CPU: one call of one kernel. */
#ifndef SKEP_PROGRAM_OPCODES_H
#define SKEP_PROGRAM_OPCODES_H

#include "kernels/compute.h"
#include "runtime/schedule/schedule.h"

/* opcode_run: run `instruction` on its resolved addresses (operands, then the workspace).
 * args    as schedule_args_of_rank gives them for this rank
 * limits  no collective: those are calls of the transport, which the executor makes */
void opcode_run(const struct compute *compute, const struct instruction *instruction,
                const union kernel_args *args, void *const *address);

#endif
