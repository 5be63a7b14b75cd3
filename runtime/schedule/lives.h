/* lives: computes the half-open life of every extent from the instructions. */
#ifndef SKEP_SCHEDULE_LIVES_H
#define SKEP_SCHEDULE_LIVES_H

#include "runtime/schedule/order.h"

/* lives_find: set first and last of every extent. Params, masters, moments, constants, scalars,
 * batches and resident extents live throughout the program, because the CPU may access them between
 * any two segments. Gradients live from begin to finish. An extent that several segments access
 * lives to the end of the last of them. An extent that the CPU reads after a segment lives to the
 * end of that segment. An extent that the CPU writes lives from the beginning of the segment. Any
 * other extent lives from its first to its last use, if the last use is on the compute lane and all
 * uses on other lanes are known to be complete by then; otherwise it lives to the end of the
 * segment.
 *
 *   compute     cast A   op ...    op A |            A's bytes are free from | on
 *   collective          gather A
 *
 * clocks  as returned by order_add_waits */
void lives_find(struct schedule *schedule, const struct order_clocks *clocks);

#endif
