/* estimate: the simulated port. Walks the same instructions as the executor, on the profile's
 * speeds instead of a device: what a step will take, and what bounds it. */
#ifndef SKEP_SCHEDULE_ESTIMATE_H
#define SKEP_SCHEDULE_ESTIMATE_H

#include "runtime/schedule/schedule.h"
#include "targets/targets.h"

enum bound_by { BOUND_COMPUTE, BOUND_MEMORY, BOUND_LINK, BOUND_PEERS, BOUND_COUNT };

/* "arithmetic", "memory bandwidth", "host link", "peer link" */
const char *bound_name(enum bound_by bound);

struct segment_estimate {
    double seconds;                    /* of one run of the segment, lanes overlapping */
    double collective_seconds;         /* the collective lane is at work */
    double hidden_seconds;             /* of these, with the compute lane at work too */
    double seconds_bound[BOUND_COUNT]; /* sums over instructions, by what bounds each */
    double flops;                      /* floating-point operations, a multiply-add counting 2 */
    double bytes;                      /* moved to and from device memory */
};

/* estimate_segment: an instruction begins when its lane is free and all it waits for is done. It
 * takes the longer of its arithmetic and its memory traffic; a copy or a collective takes as long
 * as its link needs for the bytes that arrive; each at the profile's speed and efficiency. All
 * ranks are taken to be equally fast, and lanes not to slow each other.
 * limits  before seal: scratch is allocated and given back */
struct segment_estimate estimate_segment(const struct schedule *schedule,
                                         const struct target *target, enum segment_kind kind);

/* estimate_step: begin, every microbatch, finish. */
struct segment_estimate estimate_step(const struct schedule *schedule, const struct target *target);

#endif
