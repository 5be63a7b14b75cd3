#include "targets/probe/detect.h"

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "build_config.h"
#include "targets/os/machine.h"
#include "targets/profile.h"
#include "targets/profiles.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PROFILES_MAX = 256 }; /* embedded profiles */

static const uint64_t MIB = 1 << 20;

static bool is_path(const char *wanted) {
    size_t length = strlen(wanted);
    return strchr(wanted, '/') != NULL ||
           (length > 5 && strcmp(wanted + length - 5, ".yaml") == 0) ||
           (length > 4 && strcmp(wanted + length - 4, ".yml") == 0);
}

static enum status open_path(const char *path, struct region *region, struct target *target,
                             struct fault *fault) {
    char *text = region_alloc(region, YAML_BYTES_MAX + 1, 1);
    size_t length = 0;
    TRY(file_read_text(path, text, YAML_BYTES_MAX + 1, &length, fault));
    return profile_read(text, length, path, region, target, fault);
}

/* Returns how much the name of a built-in profile differs from the requested name, ignoring case.
 * The requested name may omit parts: "4090" and "rtx4090" have the distance 0 from rtx4090-24g. */
static int distance_to_profile(const char *wanted, const char *name) {
    char start[NAME_BYTES];
    char lower[NAME_BYTES];
    size_t length = strnlen(wanted, sizeof lower - 1);
    for (size_t i = 0; i < length; i++) {
        lower[i] = (char)tolower((unsigned char)wanted[i]);
    }
    lower[length] = '\0';
    snprintf(start, sizeof start, "%.*s", (int)length, name);
    return strstr(name, lower) != NULL ? 0 : text_edit_distance(lower, start);
}

/* Sorts the names of the built-in profiles, the nearest to `wanted` first. */
static void sort_profiles(const char *wanted, const char **names) {
    for (int i = 0; i < EMBEDDED_PROFILE_COUNT; i++) {
        int at = i;
        const char *name = EMBEDDED_PROFILES[i].name;
        int distance = distance_to_profile(wanted, name);
        for (; at > 0 && distance < distance_to_profile(wanted, names[at - 1]); at--) {
            names[at] = names[at - 1];
        }
        names[at] = name;
    }
}

static enum status set_unknown_profile_fault(const char *wanted, struct fault *fault) {
    const char *names[PROFILES_MAX];
    char list[sizeof fault->reason];
    char subject[sizeof fault->subject];
    char remedy[sizeof fault->remedy];
    struct text all = text_over(list, sizeof list);
    ASSERT(EMBEDDED_PROFILE_COUNT <= PROFILES_MAX);
    sort_profiles(wanted, names);
    for (int i = 0; i < EMBEDDED_PROFILE_COUNT; i++) {
        text_add(&all, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    bool is_near = distance_to_profile(wanted, names[0]) <= (int)strlen(wanted) / 3;
    snprintf(subject, sizeof subject, "target %.200s", wanted);
    snprintf(remedy, sizeof remedy, "%s%s%suse one of these, auto, or the path of a profile",
             is_near ? "did you mean " : "", is_near ? names[0] : "", is_near ? "? " : "");
    return fault_set(fault, STATUS_INPUT, subject, remedy,
                     "there is no such profile; the built-in profiles are %s", all.bytes);
}

static enum status open_by_name(const char *wanted, struct region *region, struct target *target,
                                struct fault *fault) {
    for (int i = 0; i < EMBEDDED_PROFILE_COUNT; i++) {
        const struct embedded_profile *profile = &EMBEDDED_PROFILES[i];
        if (strcasecmp(profile->name, wanted) == 0) {
            char subject[NAME_BYTES];
            snprintf(subject, sizeof subject, "targets/profiles/%.80s.yaml", profile->name);
            enum status status =
                profile_read(profile->text, profile->length, subject, region, target, fault);
            target->origin = "built in";
            return status;
        }
    }
    return set_unknown_profile_fault(wanted, fault);
}

bool target_is_automatic(const char *wanted) {
    return wanted == NULL || strcmp(wanted, "auto") == 0;
}

enum status target_open(const char *wanted, struct region *region, const struct target **target,
                        struct fault *fault) {
    if (target_is_automatic(wanted)) {
        const struct target *gpu = target_detect_cuda(region);
        *target = gpu != NULL ? gpu : target_detect(region);
        return OK;
    }
    struct target *opened = region_alloc(region, 1, sizeof *opened);
    TRY(is_path(wanted) ? open_path(wanted, region, opened, fault)
                        : open_by_name(wanted, region, opened, fault));
    *target = opened;
    return OK;
}

/* ---- GPUs that are not used ---- */

bool target_has_gpu_files(void) {
    return file_exists("/proc/driver/nvidia/version") || file_exists("/dev/nvidiactl") ||
           file_exists("/usr/lib/wsl/lib/libcuda.so.1");
}

#if !SKEP_CUDA
const struct target *target_detect_cuda(struct region *region) {
    (void)region;
    return NULL;
}

enum unused_gpu target_find_unused_gpu(struct fault *why) {
    if (!target_has_gpu_files()) {
        return UNUSED_GPU_NONE;
    }
    (void)fault_set(why, STATUS_INPUT, "auto",
                    "build Skep with nvcc 13.0 or newer, or set target=cpu",
                    "this machine has an NVIDIA GPU, but this build has no CUDA kernels and uses "
                    "the CPU");
    return UNUSED_GPU_OF_CPU_BUILD;
}
#endif

void target_warn_of_unused_gpu(const char *wanted) {
    static bool is_reported;
    struct fault why;
    if (is_reported || !target_is_automatic(wanted)) {
        return;
    }
    is_reported = true;
    switch (target_find_unused_gpu(&why)) {
    case UNUSED_GPU_NONE:
        break;
    case UNUSED_GPU_OF_CPU_BUILD:
        log_line(LOG_WARNING, "%s; %s", why.reason, why.remedy);
        break;
    case UNUSED_GPU_FAULTY:
        log_line(LOG_WARNING, "no GPU is used: %s: %s%s%s", why.subject, why.reason,
                 why.remedy[0] != '\0' ? "; " : "", why.remedy);
        break;
    }
}

/* Floating-point operations per clock of one core: vector lanes of the instruction set, times two
 * FMA units, times 2 operations per FMA. The slowest common cores with each instruction set count,
 * so that estimates are pessimistic. */
static double flops_per_clock(const char *isa) {
    static const struct {
        const char *isa;
        double flops;
    } ROWS[] = {{"avx2", 32}, {"avx512", 32}, {"avx512_bf16", 32}, {"neon", 16}, {"scalar", 4}};
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        if (strcmp(ROWS[i].isa, isa) == 0) {
            return ROWS[i].flops;
        }
    }
    return 4;
}

static const struct target_declared_use *detected_uses(const struct machine *machine,
                                                       struct region *region, int *count) {
    struct target_declared_use *lines = region_alloc(region, 2, sizeof *lines);
    uint64_t system = machine->memory_total_bytes / 16;
    system = system < 256 * MIB ? 256 * MIB : system > 2048 * MIB ? 2048 * MIB : system;
    lines[0] = (struct target_declared_use){.name = "program, libraries and thread stacks",
                                            .bytes = 64 * MIB,
                                            .source = "estimate: code, memory allocated before the "
                                                      "arena is sealed, 64 KiB of stack a thread"};
    lines[1] = (struct target_declared_use){
        .name = "operating system and other programs",
        .bytes = system,
        .source = "estimate: a sixteenth of the memory, at least 256 MiB and at most 2 GiB"};
    *count = machine->is_memory_limited ? 1 : 2; /* a cgroup limit excludes other programs */
    return lines;
}

const struct target *target_detect(struct region *region) {
    static const char ASSUMED[] =
        "estimated from clock and instruction set; skep probe measures it";
    static const char SHARE[] =
        "estimate; it changes the times that skep plan prints, but not the layouts";
    struct machine machine;
    machine_read("", &machine);
    double clock_hz = machine.clock_hz > 0 ? machine.clock_hz : 2e9;
    double flops = clock_hz * machine.cpu_count * flops_per_clock(machine.isa);
    double bandwidth = 8e9 * (machine.cpu_count < 8 ? machine.cpu_count : 8);
    struct target *target = region_alloc(region, 1, sizeof *target);
    *target = (struct target){
        .name = "this machine",
        .description = region_copy_text(region, machine.cpu_name),
        .origin = "detected",
        .kind = TARGET_CPU,
        .unified = true,
        .align_bytes = ARENA_ALIGN_BYTES,
        .threads = machine.cpu_count < THREADS_MAX ? machine.cpu_count : THREADS_MAX,
        .f32_flops = {flops, ASSUMED},
        .bf16_flops = {strcmp(machine.isa, "avx512_bf16") == 0 ? 2 * flops : flops, ASSUMED},
        .memory_bandwidth = {bandwidth, ASSUMED},
        .host_link_bandwidth =
            {bandwidth / 2,
             "a copy reads and writes the same memory, so its rate is half of the bandwidth"},
        .peer_link_bandwidth =
            {bandwidth / 2,
             "a copy reads and writes the same memory, so its rate is half of the bandwidth"},
        .matmul_efficiency = {0.7, SHARE},
        .memory_efficiency = {0.8, SHARE},
        .link_efficiency = {0.8, SHARE},
        .isa = machine.isa};
    struct target_space *device = &target->spaces[SPACE_DEVICE];
    device->capacity_bytes = machine.memory_total_bytes;
    device->capacity_source = machine.is_memory_limited
                                  ? "the lowest memory limit of the process's cgroups"
                                  : "MemTotal of /proc/meminfo";
    device->declared = detected_uses(&machine, region, &device->declared_use_count);
    target->spaces[SPACE_PINNED].capacity_source = "";
    target->spaces[SPACE_HOST].capacity_source = "";
    return target;
}
