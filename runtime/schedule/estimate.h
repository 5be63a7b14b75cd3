/* estimate: the simulated port. Walks the same instructions as the executor, on the profile's
 * speeds instead of a device: what a step will take, and what bounds it. */
#ifndef SKEP_SCHEDULE_ESTIMATE_H
#define SKEP_SCHEDULE_ESTIMATE_H

#include "runtime/schedule/schedule.h"
#include "targets/target.h"

enum bound_by { BOUND_COMPUTE, BOUND_MEMORY, BOUND_LINK, BOUND_COUNT };

const char *bound_name(enum bound_by bound); /* "arithmetic", "memory bandwidth", "host link" */

struct segment_estimate {
    double seconds;                    /* of one run of the segment, lanes overlapping */
    double seconds_bound[BOUND_COUNT]; /* sums over instructions, by what bounds each */
    double flops;                      /* floating-point operations, a multiply-add counting 2 */
    double bytes;                      /* moved to and from device memory */
};

/* estimate_segment: an instruction takes the longest of its arithmetic, its memory traffic and, for
 * copies, the link's time, each at the profile's speed and efficiency. */
struct segment_estimate estimate_segment(const struct schedule *schedule,
                                         const struct target *target, enum segment_kind kind);

/* estimate_step: begin, every microbatch, finish. */
struct segment_estimate estimate_step(const struct schedule *schedule, const struct target *target);

#endif
