/* order: happens-before over the lanes. Lanes run beside each other; only waits and signals, and
 * the joins at segment ends, order them. */
#ifndef SKEP_SCHEDULE_ORDER_H
#define SKEP_SCHEDULE_ORDER_H

#include "runtime/schedule/schedule.h"

/* How many instructions of each lane, in this segment, are known to be done. */
struct vector_clock {
    uint32_t done[LANES_MAX];
};

/* What waits and signals say of every instruction. */
struct order_clocks {
    struct vector_clock *after; /* what is done once it is, itself among it */
    uint32_t *place;            /* its number in its lane, from 1 in each segment */
};

/* order_add_waits: within each segment
 *   - two instructions on different lanes that touch the same extent, one of them writing, run as
 *     listed: the later waits for the earlier;
 *   - what is not on the compute lane waits for the compute instruction listed before it, so that
 *     it runs no earlier than listed: extents may take the bytes of those that died before.
 * A wait that others imply is left out.
 * memory  *clocks in the schedule's region */
void order_add_waits(struct schedule *schedule, struct order_clocks *clocks);

/* order_verify: prove, with vector clocks and planned offsets, that any two instructions of a
 * segment that touch the same bytes of a space on any rank, one of them writing, are ordered as
 * listed, and that every wait is for an event that is raised before it in the list.
 *   offsets  [schedule->extent_count] of its plan
 * errors  STATUS_FAILED naming both instructions and an extent of each, or the event */
MUST_CHECK enum status order_verify(const struct schedule *schedule, const uint64_t *offsets,
                                    struct region *region, struct fault *fault);

#endif
