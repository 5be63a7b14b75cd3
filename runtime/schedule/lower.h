/* lower: from an op of the graph to the arguments and the workspace of its kernel. */
#ifndef SKEP_SCHEDULE_LOWER_H
#define SKEP_SCHEDULE_LOWER_H

#include "runtime/schedule/schedule.h"

/* lower_args: the kernel's arguments for `op`, from its tensors' shapes. */
union kernel_args lower_args(const struct graph *graph, const struct op *op);

/* lower_workspace_bytes: scratch that the kernel of `instruction` needs; a pure function of shapes
 * and threads, so that a laptop computes what the machine will use. */
uint64_t lower_workspace_bytes(const struct instruction *instruction, int64_t context, int threads);

#endif
