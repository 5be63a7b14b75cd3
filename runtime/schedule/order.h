/* order: happens-before over the lanes. Lanes run beside each other; only waits and signals, and
 * the joins at segment ends, order them. */
#ifndef SKEP_SCHEDULE_ORDER_H
#define SKEP_SCHEDULE_ORDER_H

#include "runtime/schedule/schedule.h"

/* order_add_waits: for every pair of instructions on different lanes of one segment that touch the
 * same extent, one of them writing, make the later wait for the earlier. */
void order_add_waits(struct schedule *schedule);

/* order_verify: prove, with vector clocks and planned offsets, that any two instructions of a
 * segment that touch the same bytes of a space, one of them writing, are ordered as listed.
 * errors  STATUS_FAILED naming both instructions and an extent of each */
MUST_CHECK enum status order_verify(const struct schedule *schedule, struct region *region,
                                    struct fault *fault);

#endif
