/* device: the interface through which a program executes its segments on a GPU. On a CPU target
 * there is no device, and CPU threads execute them. */
#ifndef SKEP_PROGRAM_DEVICE_H
#define SKEP_PROGRAM_DEVICE_H

#include "base/device_memory.h"
#include "runtime/schedule/schedule.h"

struct device;
struct program_cast;

/* The functions of a device. They are called after bind, from any thread, but only one at a time. A
 * failure is recorded, and all later calls do nothing. */
struct device_methods {
    /* executes a segment, and returns when the execution is complete */
    void (*run_segment)(struct device *device, enum segment_kind kind);
    void (*run_instruction)(struct device *device,
                            uint32_t index); /* executes a single instruction */
    void (*cast)(struct device *device, const struct program_cast *cast);
    MUST_CHECK enum status (*failure)(const struct device *device, struct fault *fault);
    /* connect, rehearse and disconnect are called only for a program with collectives: connect by
     * program_connect and rehearse by program_rehearse, before all executions; disconnect by
     * program_disconnect, after all executions. */
    MUST_CHECK enum status (*connect)(struct device *device, struct fault *fault);
    MUST_CHECK enum status (*rehearse)(struct device *device, struct fault *fault);
    void (*disconnect)(struct device *device);
    void (*release)(struct device *device);
};

struct device {
    const struct device_methods *methods; /* functions that implement this kind of device */
    /* access to SPACE_DEVICE; the CPU accesses pinned and host memory directly */
    struct device_memory memory;
};

#endif
