/* lower: from an op of the graph to the arguments of its kernel. */
#ifndef SKEP_SCHEDULE_LOWER_H
#define SKEP_SCHEDULE_LOWER_H

#include "runtime/schedule/schedule.h"

/* lower_args: the kernel's arguments for `op`, from its tensors' shapes. */
union kernel_args lower_args(const struct graph *graph, const struct op *op);

#endif
