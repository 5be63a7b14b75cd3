/* estimate: a simulation of a program on the speeds of a profile instead of a device. It walks the
 * same instructions as the executor, and reports how long a step will take and what limits it. */
#ifndef SKEP_SCHEDULE_ESTIMATE_H
#define SKEP_SCHEDULE_ESTIMATE_H

#include "runtime/schedule/schedule.h"
#include "targets/targets.h"

enum bound_by { BOUND_COMPUTE, BOUND_MEMORY, BOUND_LINK, BOUND_PEERS, BOUND_COUNT };

/* "arithmetic", "memory bandwidth", "host link", "peer link" */
const char *bound_name(enum bound_by bound);

struct segment_estimate {
    double seconds;                    /* of executing the segment once, with lanes overlapping */
    double collective_seconds;         /* while the collective lane is busy */
    double hidden_seconds;             /* of these, while the compute lane is busy too */
    double seconds_bound[BOUND_COUNT]; /* sums over instructions, by what limits each */
    double flops;                      /* floating-point operations, a multiply-add counting 2 */
    double bytes;                      /* moved to and from device memory */
};

/* estimate_segment: an instruction begins when its lane is free and everything it waits for is
 * done. It takes the longer of its arithmetic and its memory traffic. A copy or a collective takes
 * as long as its link needs for the received bytes. Speeds and efficiencies are those of the
 * profile. The estimate assumes that all ranks are equally fast and that lanes do not slow each
 * other down.
 * limits  before seal, because scratch memory is allocated and freed */
struct segment_estimate estimate_segment(const struct schedule *schedule,
                                         const struct target *target, enum segment_kind kind);

/* estimate_step: the sum of begin, every microbatch and finish. */
struct segment_estimate estimate_step(const struct schedule *schedule, const struct target *target);

#endif
