/* nvml: the health of a GPU and the memory of its processes, by NVIDIA's management library where
 * it is installed. It is optional: reports omit what it does not provide. In a container it sees
 * only the container's processes, and often none. */
#ifndef SKEP_TARGETS_PORTS_NVML_H
#define SKEP_TARGETS_PORTS_NVML_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/* The library's functions are declared here because its header is part of the CUDA toolkit, which
 * the program does not need. Every function returns 0 on success. */
struct nvml_memory {
    unsigned long long total, free, used; /* bytes of device memory */
};

struct nvml_process {
    unsigned pid;
    unsigned long long bytes;            /* used device memory; all bits set: unknown */
    unsigned instance, compute_instance; /* MIG instances of the process */
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

/* nvml_open: load the library; it stays loaded until the process ends. False if no working library
 * is installed; *nvml is then unchanged. */
bool nvml_open(struct nvml *nvml);

/* The health of a device. A number that NVML does not report is -1. */
struct nvml_health {
    int64_t memory_total_bytes, memory_used_bytes; /* device memory */
    int temperature_c, power_w;
    int64_t ecc_errors;        /* uncorrected errors since driver load; -1: unknown or no ECC */
    bool is_throttled;         /* the clock is reduced for a reason other than idleness */
    char throttle_reasons[96]; /* why it is throttled, such as "power limit, heat" */
};

/* nvml_read_health: read the health of the device at `bus` ("0000:17:00.0"). False when the library
 * does not know the device. */
bool nvml_read_health(const struct nvml *nvml, const char *bus, struct nvml_health *health);

/* nvml_driver_version: "580.65.06"; "" when unknown. */
void nvml_driver_version(const struct nvml *nvml, char version[static 32]);

/* nvml_process_bytes: device memory that this process uses; -1 when the library does not report
 * it. */
int64_t nvml_process_bytes(const struct nvml *nvml, const char *bus);

/* nvml_free_bytes: device memory that no process uses and that is not reserved by the driver; -1
 * when the library does not report it. Of a MIG instance, NVML reports the whole device. */
int64_t nvml_free_bytes(const struct nvml *nvml, const char *bus);

/* nvml_list_largest_processes: add "python3 (pid 1234) 3.1 GiB, ..." for the `count` processes with
 * the most device memory, except this one. Adds nothing when the library sees none.
 * memory  opens files: call it before the seal */
void nvml_list_largest_processes(const struct nvml *nvml, const char *bus, int count,
                                 struct text *text);

#endif
