/* order: the happens-before relation between instructions. Lanes execute concurrently; only waits
 * and signals, and the joins at the ends of segments, order them. */
#ifndef SKEP_SCHEDULE_ORDER_H
#define SKEP_SCHEDULE_ORDER_H

#include "runtime/schedule/schedule.h"

/* For one segment, the number of instructions of each lane that are known to be complete. */
struct vector_clock {
    uint32_t done[LANES_MAX]; /* number of completed instructions of each lane */
};

/* The vector clock of every instruction, from waits and signals. */
struct order_clocks {
    /* [instruction]: clock at the completion of this instruction, which is counted too */
    struct vector_clock *after;
    /* [instruction]: its position in its lane; the first one of a segment has 1 */
    uint32_t *position;
};

/* order_add_waits: add the waits that order the instructions within each segment:
 *   - two instructions on different lanes that touch the same extent execute in the listed order if
 *     one of them writes: the later instruction waits for the earlier one;
 *   - an instruction that is not on the compute lane waits for the compute instruction listed
 *   before
 *     it, because its extents may reuse the bytes of extents whose life has ended before.
 * A wait that other waits imply is left out.
 * memory  *clocks in the schedule's region */
void order_add_waits(struct schedule *schedule, struct order_clocks *clocks);

#endif
