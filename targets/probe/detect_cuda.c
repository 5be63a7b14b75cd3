/* detect_cuda: fills a target for this machine's GPU from what its driver reports. */
#include "base/limits.h"
#include "targets/os/machine.h"
#include "targets/ports/cuda_device.h"
#include "targets/ports/nvml.h"
#include "targets/probe/detect.h"

#include <stdio.h>

enum {
    MIB = 1 << 20,         /* bytes */
    DECLARED_USES_MAX = 6, /* maximum number of declared uses of device memory */
};

static const char ESTIMATE[] = "estimate until skep probe measures it";
static const char ASSUMED[] = "estimated from clock and multiprocessors; skep probe measures it";

/* Operations per clock of one multiprocessor; an FMA counts as two. A device uses the row with the
 * highest compute capability that is not above its own. Where one architecture has several
 * variants, the slower one counts, so that estimates are pessimistic.
 * source  NVIDIA's architecture white papers and CUDA Programming Guide, arithmetic throughput */
struct throughput {
    int capability;   /* 10 x major + minor of the compute capability */
    double f32, bf16; /* operations per clock of one multiprocessor */
};

static struct throughput throughput_of(const struct cuda_device *device) {
    static const struct throughput ROWS[] = {{80, 128, 2048}, {86, 256, 512},   {89, 256, 512},
                                             {90, 256, 4096}, {100, 256, 8192}, {120, 256, 512}};
    int capability = device->compute_major * 10 + device->compute_minor;
    struct throughput found = ROWS[0];
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        found = ROWS[i].capability <= capability ? ROWS[i] : found;
    }
    return found;
}

/* The memory makes two transfers in each cycle of the clock rate that the driver reports. */
static double memory_bandwidth_of(const struct cuda_device *device) {
    double measured = 2e3 * device->memory_clock_khz * device->memory_bus_bits / 8;
    return measured >= 1e9 ? measured : 200e9;
}

/* Returns the device memory that others than this process use now; false if NVML does not report
 * it. The driver's own share is not part of device->memory_bytes, but of NVML's total and used
 * memory, so only NVML's free memory is comparable. */
static bool read_others_bytes(const struct cuda_device *device, uint64_t *bytes) {
    struct nvml nvml;
    if (!nvml_open(&nvml)) {
        return false;
    }
    int64_t left = nvml_free_bytes(&nvml, device->bus);
    int64_t own = nvml_process_bytes(&nvml, device->bus);
    int64_t used = (int64_t)device->memory_bytes - left - (own > 0 ? own : 0);
    *bytes = used > 0 ? (uint64_t)used : 0;
    return left >= 0;
}

/* Adds the memory of other programs, and what must stay free for a display. Windows that open while
 * training runs take memory too, and a display without free memory becomes slow. */
static void add_uses_of_others(const struct cuda_device *device, struct target_declared_use *lines,
                               int *count) {
    uint64_t bytes = 0;
    bool is_reported = read_others_bytes(device, &bytes);
    if (is_reported && bytes > 0) {
        lines[(*count)++] = (struct target_declared_use){
            TARGET_OTHER_PROGRAMS, bytes, "in use now, reported by NVML", PER_PROCESS};
    } else if (!is_reported && device->has_display) {
        lines[(*count)++] = (struct target_declared_use){
            TARGET_OTHER_PROGRAMS, 512ull * MIB,
            "estimate: the device drives a display, and NVML is not available", PER_PROCESS};
    }
    if (device->has_display) {
        uint64_t share = device->memory_bytes / 20;
        lines[(*count)++] = (struct target_declared_use){
            "headroom for the display", share > 1024ull * MIB ? share : 1024ull * MIB,
            "the device drives a display: 5 % of its memory, at least 1 GiB", PER_PROCESS};
    }
}

static void set_device_space(const struct cuda_device *device, struct target_space *space,
                             struct region *region) {
    struct target_declared_use *lines = region_alloc(region, DECLARED_USES_MAX, sizeof *lines);
    int count = 0;
    lines[count++] =
        (struct target_declared_use){"CUDA context", 520ull * MIB, ESTIMATE, PER_PROCESS};
    lines[count++] = (struct target_declared_use){"cuBLAS handle and loaded kernels", 96ull * MIB,
                                                  ESTIMATE, PER_PROCESS};
    lines[count++] =
        (struct target_declared_use){"NCCL channels and proxies", 256ull * MIB, ESTIMATE, PER_SITE};
    lines[count++] =
        (struct target_declared_use){"NCCL, further groups", 128ull * MIB, ESTIMATE, PER_GROUP};
    add_uses_of_others(device, lines, &count);
    *space = (struct target_space){device->memory_bytes, "reported by the driver", lines, count};
}

/* Half of the host memory may be pinned. The driver rejects requests for much more. */
static void set_host_spaces(struct target *target, struct region *region) {
    struct machine machine;
    machine_read("", &machine);
    struct target_declared_use *lines = region_alloc(region, 2, sizeof *lines);
    lines[0] =
        (struct target_declared_use){"NCCL and copy staging", 64ull * MIB, ESTIMATE, PER_PROCESS};
    lines[1] = (struct target_declared_use){"program, driver libraries and operating system",
                                            2048ull * MIB, ESTIMATE, PER_PROCESS};
    uint64_t half = machine.memory_total_bytes / 2;
    target->spaces[SPACE_PINNED] = (struct target_space){half, "half of host memory", &lines[0], 1};
    target->spaces[SPACE_HOST] =
        (struct target_space){machine.memory_total_bytes - half,
                              "half of host memory; the other half may be pinned", &lines[1], 1};
    target->threads = machine.cpu_count < THREADS_MAX ? machine.cpu_count : THREADS_MAX;
}

enum unused_gpu target_find_unused_gpu(struct fault *why) {
    struct cuda_device device;
    bool is_unused = cuda_device_query(&device, why) != OK &&
                     (cuda_driver_is_present() || target_has_gpu_files());
    return is_unused ? UNUSED_GPU_FAULTY : UNUSED_GPU_NONE;
}

const struct target *target_detect_cuda(struct region *region) {
    static const char SHARE[] =
        "estimate; it changes the times that skep plan prints, but not the layouts";
    struct cuda_device device;
    struct fault fault;
    if (cuda_device_query(&device, &fault) != OK) {
        return NULL;
    }
    struct throughput clocked = throughput_of(&device);
    double clock_hz = device.clock_khz > 0 ? 1e3 * device.clock_khz : 1.5e9;
    double clocks = clock_hz * device.multiprocessor_count;
    struct target *target = region_alloc(region, 1, sizeof *target);
    *target = (struct target){
        .name = "this machine",
        .description = region_copy_text(region, device.name),
        .origin = "detected",
        .kind = TARGET_CUDA,
        .unified = device.integrated,
        .align_bytes = 256,
        .f32_flops = {clocks * clocked.f32, ASSUMED},
        .bf16_flops = {clocks * clocked.bf16, ASSUMED},
        .memory_bandwidth = {memory_bandwidth_of(&device), ASSUMED},
        .host_link_bandwidth = {12e9, "assumed: PCI Express 3.0 x16; skep probe measures it"},
        .peer_link_bandwidth = {12e9, "assumed: PCI Express 3.0 x16"},
        .matmul_efficiency = {0.6, SHARE},
        .memory_efficiency = {0.85, SHARE},
        .link_efficiency = {0.8, SHARE},
        .isa = "",
        .compute_major = device.compute_major,
        .compute_minor = device.compute_minor,
        .multiprocessor_count = device.multiprocessor_count};
    set_device_space(&device, &target->spaces[SPACE_DEVICE], region);
    set_host_spaces(target, region);
    if (device.integrated) {
        target->spaces[SPACE_PINNED] = (struct target_space){.capacity_source = ""};
        target->spaces[SPACE_HOST] = (struct target_space){.capacity_source = ""};
    }
    return target;
}
