/* step: the segments around a step's microbatches: begin and finish. */
#ifndef SKEP_SCHEDULE_STEP_H
#define SKEP_SCHEDULE_STEP_H

#include "runtime/schedule/extents.h"

/* step_build_begin: the ranks add up their valid tokens, and gradients become zero. */
void step_build_begin(struct schedule *schedule, const struct device_inputs *inputs);

/* step_build_finish: reductions that were put off, norm, clip, optimizer, and gathers of params
 * that every rank has whole. */
void step_build_finish(struct schedule *schedule);

#endif
