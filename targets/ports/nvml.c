#include "targets/ports/nvml.h"

#include "targets/os/machine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    SENSOR_GPU = 0,            /* NVML_TEMPERATURE_GPU */
    ECC_UNCORRECTED = 1,       /* NVML_MEMORY_ERROR_TYPE_UNCORRECTED */
    ECC_SINCE_DRIVER_LOAD = 0, /* NVML_VOLATILE_ECC */
    PROCESSES_MAX = 64,        /* maximum number of processes read from one device */
};

static const struct {
    const char *name;
    size_t at;
    bool needed;
} SYMBOLS[] = {
    {"nvmlInit_v2", offsetof(struct nvml, init), true},
    {"nvmlSystemGetDriverVersion", offsetof(struct nvml, driver_version), false},
    {"nvmlDeviceGetHandleByPciBusId_v2", offsetof(struct nvml, device_by_bus), true},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct nvml, memory), false},
    {"nvmlDeviceGetTemperature", offsetof(struct nvml, temperature), false},
    {"nvmlDeviceGetPowerUsage", offsetof(struct nvml, power), false},
    {"nvmlDeviceGetCurrentClocksThrottleReasons", offsetof(struct nvml, throttle), false},
    {"nvmlDeviceGetTotalEccErrors", offsetof(struct nvml, ecc), false},
    {"nvmlDeviceGetComputeRunningProcesses_v3", offsetof(struct nvml, compute_processes), false},
    {"nvmlDeviceGetGraphicsRunningProcesses_v3", offsetof(struct nvml, graphics_processes), false},
};

bool nvml_open(struct nvml *nvml) {
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return false;
    }
    struct nvml found = {NULL};
    bool complete = true;
    for (size_t i = 0; i < ARRAY_COUNT(SYMBOLS); i++) {
        void *symbol = dlsym(library, SYMBOLS[i].name);
        complete = complete && (symbol != NULL || !SYMBOLS[i].needed);
        *(void **)((char *)&found + SYMBOLS[i].at) = symbol;
    }
    if (!complete || found.init() != 0) {
        dlclose(library);
        return false;
    }
    *nvml = found;
    return true;
}

/* ---- health ---- */

static void read_throttling(const struct nvml *nvml, void *device, struct nvml_health *health) {
    static const struct {
        unsigned long long bits;
        const char *name;
    } REASONS[] = {{0x4, "power limit"},
                   {0x20 | 0x40, "heat"},
                   {0x8, "hardware slowdown"},
                   {0x80, "power brake"},
                   {0x2, "clock limits set by the user"}};
    unsigned long long reasons = 0;
    struct text text = text_over(health->throttle_reasons, sizeof health->throttle_reasons);
    if (nvml->throttle == NULL || nvml->throttle(device, &reasons) != 0) {
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(REASONS); i++) {
        if ((reasons & REASONS[i].bits) != 0) {
            text_add(&text, "%s%s", health->is_throttled ? ", " : "", REASONS[i].name);
            health->is_throttled = true;
        }
    }
}

bool nvml_read_health(const struct nvml *nvml, const char *bus, struct nvml_health *health) {
    void *device;
    struct nvml_memory memory;
    unsigned number;
    unsigned long long errors;
    if (nvml->device_by_bus(bus, &device) != 0) {
        return false;
    }
    *health = (struct nvml_health){.memory_total_bytes = -1,
                                   .memory_used_bytes = -1,
                                   .temperature_c = -1,
                                   .power_w = -1,
                                   .ecc_errors = -1};
    if (nvml->memory != NULL && nvml->memory(device, &memory) == 0) {
        health->memory_total_bytes = (int64_t)memory.total;
        health->memory_used_bytes = (int64_t)memory.used;
    }
    if (nvml->temperature != NULL && nvml->temperature(device, SENSOR_GPU, &number) == 0) {
        health->temperature_c = (int)number;
    }
    if (nvml->power != NULL && nvml->power(device, &number) == 0) {
        health->power_w = (int)(number / 1000);
    }
    if (nvml->ecc != NULL &&
        nvml->ecc(device, ECC_UNCORRECTED, ECC_SINCE_DRIVER_LOAD, &errors) == 0) {
        health->ecc_errors = (int64_t)errors;
    }
    read_throttling(nvml, device, health);
    return true;
}

/* ---- memory by process ---- */

typedef int list_processes(void *device, unsigned *count, struct nvml_process *processes);

static unsigned read_process_list(list_processes *list, void *device,
                                  struct nvml_process listed[static PROCESSES_MAX]) {
    unsigned count = PROCESSES_MAX;
    if (list == NULL || list(device, &count, listed) != 0) {
        return 0;
    }
    return count < PROCESSES_MAX ? count : PROCESSES_MAX;
}

/* Adds the processes of one of NVML's lists to `found`, without those that are in it already: a
 * process with compute and graphics is in two lists. */
static int add_processes(list_processes *list, void *device, struct nvml_process *found,
                         int found_count) {
    struct nvml_process listed[PROCESSES_MAX];
    unsigned count = read_process_list(list, device, listed);
    for (unsigned i = 0; i < count && found_count < 2 * PROCESSES_MAX; i++) {
        bool known = listed[i].pid == (unsigned)getpid() || listed[i].bytes == ~0ull;
        for (int k = 0; k < found_count; k++) {
            known = known || found[k].pid == listed[i].pid;
        }
        if (!known) {
            found[found_count++] = listed[i];
        }
    }
    return found_count;
}

static int find_largest_process(struct nvml_process *found, int found_count) {
    int largest = 0;
    for (int i = 1; i < found_count; i++) {
        largest = found[i].bytes > found[largest].bytes ? i : largest;
    }
    return largest;
}

void nvml_list_largest_processes(const struct nvml *nvml, const char *bus, int count,
                                 struct text *text) {
    struct nvml_process found[2 * PROCESSES_MAX];
    void *device;
    if (nvml->device_by_bus(bus, &device) != 0) {
        return;
    }
    int found_count = add_processes(nvml->compute_processes, device, found, 0);
    found_count = add_processes(nvml->graphics_processes, device, found, found_count);
    for (int i = 0; i < count && found_count > 0; i++) {
        char name[MACHINE_NAME_BYTES];
        char bytes[24];
        int largest = find_largest_process(found, found_count);
        machine_process_name("", (int)found[largest].pid, name);
        text_add(text, "%s%s (pid %u) %s", i > 0 ? ", " : "", name, found[largest].pid,
                 text_format_bytes(found[largest].bytes, bytes));
        found[largest] = found[--found_count];
    }
}

int64_t nvml_process_bytes(const struct nvml *nvml, const char *bus) {
    struct nvml_process listed[PROCESSES_MAX];
    void *device;
    if (nvml->device_by_bus(bus, &device) != 0) {
        return -1;
    }
    unsigned count = read_process_list(nvml->compute_processes, device, listed);
    for (unsigned i = 0; i < count; i++) {
        if (listed[i].pid == (unsigned)getpid() && listed[i].bytes != ~0ull) {
            return (int64_t)listed[i].bytes;
        }
    }
    return -1;
}

int64_t nvml_free_bytes(const struct nvml *nvml, const char *bus) {
    struct nvml_memory memory;
    void *device;
    if (nvml->device_by_bus(bus, &device) != 0 || nvml->memory == NULL ||
        nvml->memory(device, &memory) != 0) {
        return -1;
    }
    return (int64_t)memory.free;
}

void nvml_driver_version(const struct nvml *nvml, char version[static 32]) {
    if (nvml->driver_version == NULL || nvml->driver_version(version, 32) != 0) {
        version[0] = '\0';
    }
}
