/* lives: from instructions to the half-open life of every extent. */
#ifndef SKEP_SCHEDULE_LIVES_H
#define SKEP_SCHEDULE_LIVES_H

#include "runtime/schedule/order.h"

/* lives_find: set first and last of every extent.
 * Params, master, moments, constants, scalars, batches and what is kept for a swarm live
 * throughout: the host may touch them between any two segments. Gradients live from begin to
 * finish. What several segments touch, and what the host reads after a segment, lives to the end of
 * the last of them; what the host fills lives from the segment's beginning. All else lives from its
 * first to its last mention, when that is on the compute lane and all uses on other lanes are known
 * to be done there; otherwise to its segment's end.
 *
 *   compute     cast A   op ...    op A |            A's bytes are free from | on
 *   collective          gather A
 *
 * clocks  of order_add_waits */
void lives_find(struct schedule *schedule, const struct order_clocks *clocks);

#endif
