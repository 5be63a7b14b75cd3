/* estimate: simulates a program with the speeds of a profile instead of executing it on a device.
 * It walks the same instructions as the executor, and reports how long a step will take and which
 * resource limits it. */
#ifndef SKEP_SCHEDULE_ESTIMATE_H
#define SKEP_SCHEDULE_ESTIMATE_H

#include "runtime/schedule/schedule.h"
#include "targets/targets.h"

/* The resource that limits the speed of an instruction. */
enum bound_by {
    BOUND_COMPUTE, /* arithmetic units */
    BOUND_MEMORY,  /* memory bandwidth */
    BOUND_LINK,    /* link between device and host memory */
    BOUND_PEERS,   /* link between ranks */
    BOUND_COUNT
};

/* bound_by_name: returns "arithmetic", "memory bandwidth", "host link" or "peer link". */
const char *bound_by_name(enum bound_by bound);

struct segment_estimate {
    double seconds;            /* time to execute the segment once, with overlapping lanes */
    double collective_seconds; /* time during which the collective lane is busy */
    double hidden_seconds;     /* part of collective_seconds when the compute lane is busy */
    /* [resource]: total duration in seconds of the instructions that this resource limits */
    double seconds_bound[BOUND_COUNT];
    double flops; /* floating-point operations; a multiply-add counts as 2 */
    double bytes; /* number of bytes read from and written to device memory */
};

/* estimate_segment: returns how long one execution of the segment takes, and what limits it. An
 * instruction begins when its lane is free and everything it waits for is done. An instruction
 * takes the longer of its arithmetic and its memory traffic. A copy or a collective takes as long
 * as its link needs for the received bytes. Speeds and efficiencies are those of the profile. The
 * estimate assumes that all ranks are equally fast and that lanes do not slow each other down.
 * limits  call before the seal, because scratch memory is allocated and freed */
struct segment_estimate estimate_segment(const struct schedule *schedule,
                                         const struct target *target, enum segment_kind kind);

/* estimate_step: estimates one optimizer step: begin, all microbatches and finish. */
struct segment_estimate estimate_step(const struct schedule *schedule, const struct target *target);

#endif
