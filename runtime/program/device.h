/* device: what runs a program's segments where the target has memory and processors of its own. A
 * target without it is run by the host's threads. */
#ifndef SKEP_PROGRAM_DEVICE_H
#define SKEP_PROGRAM_DEVICE_H

#include "base/far.h"
#include "runtime/schedule/schedule.h"

struct device;
struct program_cast;

/* Each after bind, from any thread but one at a time. A failure is kept, and what follows it does
 * nothing. */
struct device_methods {
    void (*run)(struct device *device, enum segment_kind kind); /* comes back when it is done */
    void (*run_one)(struct device *device, uint32_t index);     /* a single instruction, alone */
    void (*cast)(struct device *device, const struct program_cast *cast);
    MUST_CHECK enum status (*failure)(const struct device *device, struct fault *fault);
    /* For a program with collectives, in this order, around all runs: program_connect,
     * program_rehearse, program_disconnect. */
    MUST_CHECK enum status (*connect)(struct device *device, struct fault *fault);
    MUST_CHECK enum status (*rehearse)(struct device *device, struct fault *fault);
    void (*disconnect)(struct device *device);
    void (*release)(struct device *device);
};

struct device {
    const struct device_methods *methods;
    struct device_memory far; /* its SPACE_DEVICE; pinned and host memory are the host's own */
};

#endif
