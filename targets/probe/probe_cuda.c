#include "targets/probe/probe_cuda.h"

#include "targets/ports/cuda_device.h"
#include "targets/ports/ports.h"
#include "targets/probe/detect.h"

#include <stdio.h>
#include <string.h>

enum {
    COPY_TRIES = 8,              /* number of timed copies, of which the fastest one counts */
    ARRAY_BYTES_MAX = 256 << 20, /* larger than the last-level cache */
    ARRAY_BYTES_MIN = 1 << 20,   /* size to try last when memory is short */
};

/* ---- memory ---- */

static void describe_driver(const struct cuda_device *device, const struct nvml *nvml,
                            struct probe_gpu *result) {
    char version[32] = "";
    if (nvml != NULL) {
        nvml_driver_version(nvml, version);
    }
    snprintf(result->driver, sizeof result->driver, "%s%s(CUDA %d.%d)", version,
             version[0] != '\0' ? " " : "", device->driver_version / 1000,
             device->driver_version % 1000 / 10);
}

enum status probe_gpu_read_device(const struct cuda_device *device, struct probe_gpu *result,
                                  struct fault *fault) {
    struct nvml nvml;
    uint64_t free_bytes;
    TRY(cuda_device_free_bytes(device, &free_bytes, fault));
    *result = (struct probe_gpu){.compute_major = device->compute_major,
                                 .compute_minor = device->compute_minor,
                                 .multiprocessor_count = device->multiprocessor_count,
                                 .memory_total_bytes = device->memory_bytes,
                                 .memory_free_bytes = free_bytes,
                                 .context_bytes = device->memory_bytes - free_bytes};
    snprintf(result->name, sizeof result->name, "%s", device->name);
    bool has_nvml = nvml_open(&nvml);
    int64_t own = has_nvml ? nvml_process_bytes(&nvml, device->bus) : -1;
    if (own > 0) {
        result->context_bytes = (uint64_t)own;
        result->is_context_exact = true;
    }
    describe_driver(device, has_nvml ? &nvml : NULL, result);
    return OK;
}

void probe_gpu_read_health(const struct cuda_device *device, struct probe_gpu *result) {
    struct nvml nvml;
    result->has_health = nvml_open(&nvml) && nvml_read_health(&nvml, device->bus, &result->health);
}

/* ---- copies ---- */

struct copy_bench {
    const struct cuda_driver *driver;
    CUstream stream;
    CUevent begin, end; /* events recorded before and after the timed copy */
};

static CUresult time_copy(const struct copy_bench *bench, void *to, const void *from, size_t bytes,
                          float *ms) {
    const struct cuda_driver *driver = bench->driver;
    TRY_CUDA(driver->cuEventRecord(bench->begin, bench->stream));
    TRY_CUDA(driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes,
                                   bench->stream));
    TRY_CUDA(driver->cuEventRecord(bench->end, bench->stream));
    TRY_CUDA(driver->cuStreamSynchronize(bench->stream));
    return driver->cuEventElapsedTime(ms, bench->begin, bench->end);
}

static CUresult time_best_copy(const struct copy_bench *bench, void *to, const void *from,
                               size_t bytes, double *rate) {
    double best = 0;
    for (int i = 0; i < COPY_TRIES; i++) {
        float ms = 0;
        TRY_CUDA(time_copy(bench, to, from, bytes, &ms));
        double seconds = ms > 0 ? (double)ms * 1e-3 : 1e-9;
        best = (double)bytes / seconds > best ? (double)bytes / seconds : best;
    }
    *rate = best;
    return CUDA_SUCCESS;
}

static CUresult measure_copy_rates(const struct copy_bench *bench, char *blocks[static 2],
                                   size_t bytes, struct probe_gpu *result) {
    char *device_block = blocks[0];
    char *pinned_block = blocks[1];
    double copied = 0;
    TRY_CUDA(time_best_copy(bench, device_block, device_block + bytes, bytes, &copied));
    result->memory_bandwidth = 2 * copied;
    TRY_CUDA(time_best_copy(bench, device_block, pinned_block, bytes, &result->host_to_device));
    return time_best_copy(bench, pinned_block, device_block, bytes, &result->device_to_host);
}

static enum status time_with_events(const struct cuda_device *device, struct copy_bench *bench,
                                    char *blocks[static 2], size_t bytes, struct probe_gpu *result,
                                    struct fault *fault) {
    TRY(cuda_device_create_event(device, true, &bench->begin, fault));
    TRY(cuda_device_create_event(device, true, &bench->end, fault));
    return cuda_device_check_result(device, measure_copy_rates(bench, blocks, bytes, result),
                                    "time copies", fault);
}

static enum status time_copies(const struct cuda_device *device, char *blocks[static 2],
                               size_t bytes, struct probe_gpu *result, struct fault *fault) {
    struct copy_bench bench = {.driver = &device->driver};
    TRY(cuda_device_create_stream(device, false, &bench.stream, fault));
    enum status status = time_with_events(device, &bench, blocks, bytes, result, fault);
    CUevent events[] = {bench.begin, bench.end};
    for (size_t i = 0; i < ARRAY_COUNT(events) && events[i] != NULL; i++) {
        (void)device->driver.cuEventDestroy(events[i]);
    }
    (void)device->driver.cuStreamDestroy(bench.stream);
    return status;
}

static enum status reserve_and_time_copies(const struct cuda_device *device, struct port *port,
                                           size_t bytes, struct probe_gpu *result,
                                           struct fault *fault) {
    void *blocks[2];
    TRY(port_reserve(port, SPACE_DEVICE, 2 * bytes, &blocks[0], fault));
    TRY(port_reserve(port, SPACE_PINNED, bytes, &blocks[1], fault));
    return time_copies(device, (char *[]){blocks[0], blocks[1]}, bytes, result, fault);
}

enum status probe_gpu_measure_copies(const struct cuda_device *device, struct probe_gpu *result,
                                     struct fault *fault) {
    const struct target here = {.name = "this machine", .kind = TARGET_CUDA};
    struct port port;
    size_t bytes = ARRAY_BYTES_MAX;
    while (bytes > ARRAY_BYTES_MIN && 8 * bytes > result->memory_free_bytes) {
        bytes /= 2;
    }
    TRY(port_init(&port, &here, fault));
    enum status status = reserve_and_time_copies(device, &port, bytes, result, fault);
    port_finish(&port);
    return status;
}

/* ---- the profile ---- */

static double slower_copy_rate(const struct probe_gpu *result) {
    return result->host_to_device < result->device_to_host ? result->host_to_device
                                                           : result->device_to_host;
}

static uint64_t sum_declared_bytes(const struct target *target, enum target_per per) {
    const struct target_space *space = &target->spaces[SPACE_DEVICE];
    uint64_t sum = 0;
    for (int i = 0; i < space->declared_use_count; i++) {
        sum += space->declared[i].per == per ? space->declared[i].bytes : 0;
    }
    return sum;
}

/* For memory used outside the arena, less is better. */
static struct probe_comparison make_memory_use_line(const struct target *target, const char *name,
                                                    enum target_per per, uint64_t found) {
    uint64_t promised = sum_declared_bytes(target, per);
    struct probe_comparison line =
        probe_compare_figure(target, name, PROBE_BYTES, (double)promised, (double)found);
    if (line.verdict != PROBE_ASSUMED) {
        line.verdict = found <= promised ? PROBE_OK : PROBE_LOWER;
    }
    return line;
}

static int add_memory_use_lines(const struct target *target, const struct probe_gpu *result,
                                struct probe_comparison *lines) {
    lines[0] = make_memory_use_line(target, "device memory used outside the arena", PER_PROCESS,
                                    result->context_bytes + result->kernels_bytes +
                                        result->products_bytes);
    if (result->nccl.ranks == 0) {
        return 1;
    }
    lines[1] =
        make_memory_use_line(target, "device memory used by NCCL", PER_SITE, result->nccl.bytes);
    lines[2] = make_memory_use_line(target, "device memory used by each further NCCL group",
                                    PER_GROUP, result->nccl.group_bytes);
    return 3;
}

int probe_gpu_compare(const struct target *target, const struct probe_gpu *result,
                      struct probe_comparison lines[static PROBE_GPU_COMPARISONS_MAX], int *lower) {
    const struct {
        const char *name;
        enum probe_unit unit;
        double profile_value, measured_value;
    } rows[] = {
        {"memory", PROBE_BYTES, (double)target->spaces[SPACE_DEVICE].capacity_bytes,
         (double)result->memory_total_bytes},
        {"memory free for the arena", PROBE_BYTES,
         (double)target_available_bytes(target, SPACE_DEVICE), (double)result->memory_free_bytes},
        {"multiprocessors", PROBE_PLAIN_NUMBER, target->multiprocessor_count,
         result->multiprocessor_count},
        {"f32 products", PROBE_FLOPS, target->f32_flops.value * target->matmul_efficiency.value,
         result->f32_flops},
        {"bf16 products", PROBE_FLOPS, target->bf16_flops.value * target->matmul_efficiency.value,
         result->bf16_flops},
        {"memory bandwidth", PROBE_BANDWIDTH,
         target->memory_bandwidth.value * target->memory_efficiency.value,
         result->memory_bandwidth},
        {"copies to the device", PROBE_BANDWIDTH,
         target->host_link_bandwidth.value * target->link_efficiency.value, result->host_to_device},
        {"copies to the host", PROBE_BANDWIDTH,
         target->host_link_bandwidth.value * target->link_efficiency.value, result->device_to_host},
    };
    int count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (rows[i].measured_value > 0) {
            lines[count++] = probe_compare_figure(target, rows[i].name, rows[i].unit,
                                                  rows[i].profile_value, rows[i].measured_value);
        }
    }
    count += add_memory_use_lines(target, result, &lines[count]);
    *lower = 0;
    for (int i = 0; i < count; i++) {
        *lower += lines[i].verdict == PROBE_LOWER;
    }
    return count;
}

/* Declared uses that were not measured keep their bytes and give the reason as their source. */
static void set_nccl_use(const struct probe_gpu *result, const char *measured,
                         struct target_declared_use *line, struct region *region) {
    char source[2 * PROBE_LIBRARY_BYTES + 64];
    bool done = result->nccl.ranks > 0;
    snprintf(source, sizeof source, done ? "%s: %s" : "estimate, not measured by skep probe: %s%s",
             done ? measured : "", result->nccl.description);
    line->source = region_copy_text(region, source);
    if (done) {
        line->bytes = line->per == PER_SITE ? result->nccl.bytes : result->nccl.group_bytes;
    }
}

static void set_declared_uses(const struct probe_gpu *result, const char *measured,
                              struct target *target, struct region *region) {
    struct target_space *space = &target->spaces[SPACE_DEVICE];
    struct target_declared_use *lines =
        region_alloc(region, (size_t)space->declared_use_count, sizeof *lines);
    int count = 0;
    char shared[224];
    snprintf(shared, sizeof shared, "%s, including other programs' memory", measured);
    for (int i = 0; i < space->declared_use_count; i++) {
        struct target_declared_use line = space->declared[i];
        bool context = strcmp(line.name, "CUDA context") == 0;
        bool loaded = strncmp(line.name, "cuBLAS", 6) == 0;
        if (!result->is_context_exact && strcmp(line.name, TARGET_OTHER_PROGRAMS) == 0) {
            continue; /* the context's figure includes it */
        }
        if (context) {
            line.bytes = result->context_bytes;
            line.source = result->is_context_exact ? measured : region_copy_text(region, shared);
        } else if (loaded && result->kernels_bytes + result->products_bytes > 0) {
            line.bytes = result->kernels_bytes + result->products_bytes;
            line.source = measured;
        } else if (line.per != PER_PROCESS) {
            set_nccl_use(result, measured, &line, region);
        }
        lines[count++] = line;
    }
    space->declared = lines;
    space->declared_use_count = count;
    space->capacity_bytes = result->memory_total_bytes;
    space->capacity_source = measured;
}

/* A profile cannot state a lower rate, and no GPU has one. */
static const double RATE_MIN = 1e6;

/* A profile states a rate and an efficiency. Their product must be the measured rate. */
static void set_figure(double measured, double share, const char *source,
                       struct target_figure *figure) {
    if (measured >= RATE_MIN) {
        *figure = (struct target_figure){measured / share, source};
    }
}

const struct target *probe_gpu_target(const struct probe_gpu *result, const char *name,
                                      struct region *region) {
    char source[192];
    struct target *target = region_alloc(region, 1, sizeof *target);
    const struct target *detected = target_detect_cuda(region);
    ASSERT(detected != NULL); /* the caller has measured this GPU */
    *target = *detected;
    snprintf(source, sizeof source, "measured by skep probe on %s, driver %s", result->name,
             result->driver);
    const char *measured = region_copy_text(region, source);
    target->name = region_copy_text(region, name);
    target->origin = "measured";
    set_declared_uses(result, measured, target, region);
    set_figure(result->f32_flops, target->matmul_efficiency.value, measured, &target->f32_flops);
    set_figure(result->bf16_flops, target->matmul_efficiency.value, measured, &target->bf16_flops);
    set_figure(result->memory_bandwidth, target->memory_efficiency.value, measured,
               &target->memory_bandwidth);
    set_figure(slower_copy_rate(result), target->link_efficiency.value, measured,
               &target->host_link_bandwidth);
    return target;
}
