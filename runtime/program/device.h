/* device: the interface through which a program executes its segments on a GPU. On a CPU target
 * there is no device, and CPU threads execute them. */
#ifndef SKEP_PROGRAM_DEVICE_H
#define SKEP_PROGRAM_DEVICE_H

#include "base/device_memory.h"
#include "runtime/schedule/schedule.h"

struct device;
struct program_cast;

/* Called after bind, from any thread, but one at a time. After a failure, which is recorded, all
 * calls do nothing. */
struct device_methods {
    void (*run)(struct device *device, enum segment_kind kind); /* returns when it is done */
    void (*run_one)(struct device *device, uint32_t index);     /* executes a single instruction */
    void (*cast)(struct device *device, const struct program_cast *cast);
    MUST_CHECK enum status (*failure)(const struct device *device, struct fault *fault);
    /* For a program with collectives. Implement program_connect and program_rehearse, which precede
     * all executions, and program_disconnect, which follows them. */
    MUST_CHECK enum status (*connect)(struct device *device, struct fault *fault);
    MUST_CHECK enum status (*rehearse)(struct device *device, struct fault *fault);
    void (*disconnect)(struct device *device);
    void (*release)(struct device *device);
};

struct device {
    const struct device_methods *methods;
    /* access to its SPACE_DEVICE; the CPU accesses pinned and host memory directly */
    struct device_memory memory;
};

#endif
