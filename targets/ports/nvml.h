/* nvml: a GPU's health, by NVIDIA's management library where it is installed. Nothing needs it:
 * what it cannot tell is left out.
 *
 * It sees all processes on a device, and what each holds; in a container only those of the
 * container, and often none. */
#ifndef SKEP_TARGETS_PORTS_NVML_H
#define SKEP_TARGETS_PORTS_NVML_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* What of the library is called, declared here: its header is part of the CUDA toolkit, which the
 * program does not need. 0 is success everywhere. */
struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_process {
    unsigned pid;
    unsigned long long bytes; /* all ones: not known */
    unsigned instance, compute_instance;
};

struct nvml {
    int (*init)(void);
    int (*driver_version)(char *version, unsigned bytes);
    int (*device_by_bus)(const char *bus, void **device);
    int (*memory)(void *device, struct nvml_memory *memory);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*power)(void *device, unsigned *milliwatts);
    int (*throttle)(void *device, unsigned long long *reasons);
    int (*ecc)(void *device, int kind, int period, unsigned long long *errors);
    int (*compute_processes)(void *device, unsigned *count, struct nvml_process *processes);
    int (*graphics_processes)(void *device, unsigned *count, struct nvml_process *processes);
};

/* nvml_open: the library of this machine, loaded until the process ends. False where there is none
 * that works; *nvml is then untouched. */
bool nvml_open(struct nvml *nvml);

/* What a device says of itself. A number that is not known is -1. */
struct nvml_health {
    int64_t memory_total_bytes, memory_used_bytes;
    int temperature_c, power_w;
    int64_t ecc_errors; /* uncorrected ones since the driver was loaded; -1: without ECC too */
    bool slowed;        /* its clock is held back, not only for want of work */
    char slowed_by[96]; /* "power limit, heat" */
};

/* nvml_read: the device at `bus` ("0000:17:00.0"). False when the library does not know it. */
bool nvml_read(const struct nvml *nvml, const char *bus, struct nvml_health *health);

/* nvml_driver_version: "580.65.06"; "" when it is not known. */
void nvml_driver_version(const struct nvml *nvml, char version[static 32]);

/* nvml_own_bytes: what this process holds of the device's memory; -1 when it is not seen. */
int64_t nvml_own_bytes(const struct nvml *nvml, const char *bus);

/* nvml_largest_processes: add "python3 (pid 1234) 3.1 GiB, ..." for the `count` processes that hold
 * most of the device's memory, ours left out. Nothing when none is seen.
 * memory  opens files: before seal only */
void nvml_largest_processes(const struct nvml *nvml, const char *bus, int count, struct text *text);

#endif
