/* optimizer_segments: the segments before and after the microbatches of a step: begin and
 * finish. */
#ifndef SKEP_SCHEDULE_OPTIMIZER_SEGMENTS_H
#define SKEP_SCHEDULE_OPTIMIZER_SEGMENTS_H

#include "runtime/schedule/extents.h"

/* build_begin_segment: list the begin segment: it adds up the valid tokens of all ranks and sets
 * gradients to zero. */
void build_begin_segment(struct schedule *schedule, const struct device_inputs *inputs);

/* build_finish_segment: list the finish segment: remaining reductions, norm, clip, optimizer, and
 * gathers of params that are whole on every rank. */
void build_finish_segment(struct schedule *schedule);

#endif
