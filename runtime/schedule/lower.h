/* lower: from an op of the graph to the arguments of its kernel. */
#ifndef SKEP_SCHEDULE_LOWER_H
#define SKEP_SCHEDULE_LOWER_H

#include "runtime/schedule/schedule.h"

/* lower_args: the kernel's arguments for `op`, from its tensors' shapes, and, for what is done in
 * chunks, from what computes.
 * device  as in struct schedule_options */
union kernel_args lower_args(const struct graph *graph, const struct op *op,
                             const struct target *device);

#endif
