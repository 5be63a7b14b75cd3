/* doctor: judges the facts about a machine. */
#include "runtime/diagnose/doctor.h"

#include "base/text.h"

#include "build_config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const uint64_t MIB = 1ull << 20;
static const uint64_t GIB = 1ull << 30;
/* Unix time of the start of 2026, before the first release: an earlier clock is incorrect */
static const double RELEASE_UNIX_S = 1767225600;

enum {
    /* open files that a tracker with 1000 members needs, or a data set of 3000 files */
    OPEN_FILES_MIN = 4096,
    /* locked memory in MiB that NCCL needs for buffers of network adapters */
    MEMLOCK_MIN_MIB = 64,
    /* shared memory in MiB that NCCL needs: up to 10 MiB for each pair of GPUs */
    SHARED_MEMORY_MIN_MIB = 256,
    FOLDER_FREE_MIN_GIB = 1, /* free space in GiB below which a folder gets a warning */
};

static struct doctor_check *add_check(struct doctor_report *report, const char *name,
                                      enum doctor_verdict verdict) {
    ASSERT(report->count < DOCTOR_CHECKS_MAX);
    struct doctor_check *check = &report->checks[report->count++];
    check->name = name;
    check->verdict = verdict;
    report->failed += verdict == DOCTOR_FAILED;
    return check;
}

PRINTF_LIKE(2, 3) static void set_found(struct doctor_check *check, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check->found, sizeof check->found, format, arguments);
    va_end(arguments);
}

/* Sets the remedy of a check, unless the check found no defect. */
static void set_remedy(struct doctor_check *check, const char *remedy) {
    if (check->verdict != DOCTOR_OK) {
        snprintf(check->remedy, sizeof check->remedy, "%s", remedy);
    }
}

static const char *format_limit(uint64_t bytes, char buffer[static 24]) {
    return bytes == UINT64_MAX ? "unlimited" : text_format_bytes(bytes, buffer);
}

static void judge_device(const struct doctor_facts *facts, struct doctor_report *report) {
    bool is_unused = facts->has_gpu && facts->gpu_count == 0;
    struct doctor_check *check =
        add_check(report, "device", is_unused ? DOCTOR_WARNING : DOCTOR_OK);
    if (facts->gpu_count > 0) {
        set_found(check, "%d GPU%s", facts->gpu_count, facts->gpu_count == 1 ? "" : "s");
    } else if (!is_unused) {
        set_found(check, "no NVIDIA GPU; training uses the CPU: %.180s", facts->cpu);
    } else if (!facts->has_cuda) {
        set_found(
            check,
            "this machine has an NVIDIA GPU, but this build has no CUDA kernels and uses the CPU");
        set_remedy(check, "install a build with CUDA, or build Skep with nvcc 13.0 or newer");
    } else {
        set_found(check, "this machine has an NVIDIA GPU, but its driver cannot use it");
        set_remedy(check, "run nvidia-smi; update the driver (see below), or pass the GPU into the "
                          "container with --gpus all");
    }
}

static void judge_driver(const struct doctor_facts *facts, struct doctor_report *report) {
    int64_t major = 0;
    char digits[16];
    struct text text = text_over(digits, sizeof digits);
    text_add_bytes(&text, facts->driver, strcspn(facts->driver, "."));
    bool is_known = text_parse_i64(digits, &major);
    bool is_old = is_known && major < CUDA_DRIVER_BRANCH_MIN;
    if (!facts->has_gpu) {
        set_found(add_check(report, "driver", DOCTOR_OK), "not needed without an NVIDIA GPU");
        return;
    }
    struct doctor_check *check =
        add_check(report, "driver",
                  is_old ? (facts->has_cuda ? DOCTOR_FAILED : DOCTOR_WARNING)
                         : (is_known ? DOCTOR_OK : DOCTOR_WARNING));
    set_found(check, "NVIDIA driver %s",
              facts->driver[0] != '\0' ? facts->driver : "of an unknown version");
    set_remedy(check, facts->driver_remedy);
}

static void judge_memory(const struct doctor_facts *facts, struct doctor_report *report) {
    char total[24];
    char available[24];
    bool is_little = facts->memory_free_bytes < GIB;
    struct doctor_check *check =
        add_check(report, "memory", is_little ? DOCTOR_WARNING : DOCTOR_OK);
    set_found(check, "%s of %s are free", text_format_bytes(facts->memory_free_bytes, available),
              text_format_bytes(facts->memory_bytes, total));
    set_remedy(check, "end other programs; `skep plan` shows what a run needs");
    check =
        add_check(report, "overcommit", facts->is_overcommit_strict ? DOCTOR_WARNING : DOCTOR_OK);
    set_found(check, facts->is_overcommit_strict
                         ? "vm.overcommit_memory is 2: memory counts as used once it is reserved"
                         : "the kernel provides reserved memory when it is first used");
    set_remedy(check,
               "run sysctl vm.overcommit_memory=0, or leave more memory free than the plan needs");
}

static void judge_limits(const struct doctor_facts *facts, struct doctor_report *report) {
    char bytes[24];
    bool has_several = facts->gpu_count > 1;
    bool is_locked_little = has_several && facts->memlock_bytes < MEMLOCK_MIN_MIB * MIB;
    struct doctor_check *check =
        add_check(report, "memlock", is_locked_little ? DOCTOR_WARNING : DOCTOR_OK);
    set_found(check, "%s may be locked in memory%s", format_limit(facts->memlock_bytes, bytes),
              has_several ? "" : "; the limit matters only with several GPUs");
    set_remedy(check, "set ulimit -l unlimited, or LimitMEMLOCK=infinity in a systemd unit, or "
                      "start docker run with --ulimit memlock=-1");
    bool are_files_few = facts->open_files_max < OPEN_FILES_MIN;
    check = add_check(report, "open files", are_files_few ? DOCTOR_WARNING : DOCTOR_OK);
    if (facts->open_files_max == UINT64_MAX) {
        set_found(check, "unlimited");
    } else {
        set_found(check, "at most %llu open files", (unsigned long long)facts->open_files_max);
    }
    set_remedy(
        check,
        "raise the hard limit to 4096 or more with ulimit -Hn, or LimitNOFILE= in a systemd unit");
    bool is_shared_little = has_several && facts->shared_memory_bytes < SHARED_MEMORY_MIN_MIB * MIB;
    check = add_check(report, "shared memory", is_shared_little ? DOCTOR_WARNING : DOCTOR_OK);
    set_found(check, "%s are free in /dev/shm%s",
              text_format_bytes(facts->shared_memory_bytes, bytes),
              has_several ? "" : "; the limit matters only with several GPUs");
    set_remedy(check,
               "start docker run with --shm-size=1g, or remount /dev/shm with a larger size");
}

static void judge_folder(const struct doctor_folder *folder, struct doctor_report *report) {
    char bytes[24];
    bool is_usable = folder->path[0] != '\0' && folder->is_writable;
    bool is_full = folder->free_bytes < FOLDER_FREE_MIN_GIB * GIB;
    struct doctor_check *check = add_check(
        report, "disk", !is_usable ? DOCTOR_FAILED : (is_full ? DOCTOR_WARNING : DOCTOR_OK));
    if (folder->path[0] == '\0') {
        set_found(check, "%s: HOME and the XDG variables are unset", folder->use);
        set_remedy(check, "set HOME to an absolute path");
    } else if (!folder->is_writable) {
        set_found(check, "%s: the folder %.200s is not writable", folder->use, folder->path);
        set_remedy(check, "change the owner of the folder, or set HOME to a folder of yours");
    } else {
        set_found(check, "%s: %.180s, %s free", folder->use, folder->path,
                  text_format_bytes(folder->free_bytes, bytes));
        set_remedy(check, "free disk space, or set XDG_STATE_HOME to a folder on a larger disk");
    }
}

static void judge_port(const struct doctor_facts *facts, struct doctor_report *report) {
    struct doctor_check *check =
        add_check(report, "port", facts->port_error != 0 ? DOCTOR_WARNING : DOCTOR_OK);
    if (facts->port_error == 0) {
        set_found(
            check,
            "a tracker can listen on port number %d; a member trains without an open port if it "
            "can connect to enough others, but with one it can also receive their connections",
            DOCTOR_PORT_NUMBER);
    } else if (facts->port_error == EADDRINUSE) {
        set_found(check, "port number %d is in use, perhaps by a tracker", DOCTOR_PORT_NUMBER);
        set_remedy(check, "only a second tracker needs another port; start it with skep track "
                          "--listen tcp://*:7702");
    } else {
        set_found(check, "port number %d: %s", DOCTOR_PORT_NUMBER, strerror(facts->port_error));
        set_remedy(check, "only a tracker needs this port: allow it in the firewall, or choose "
                          "another with --listen");
    }
}

static void judge_clock(const struct doctor_facts *facts, struct doctor_report *report) {
    bool is_past = facts->unix_s < RELEASE_UNIX_S;
    struct doctor_check *check = add_check(
        report, "clock",
        is_past ? DOCTOR_FAILED : (facts->is_clock_synchronized ? DOCTOR_OK : DOCTOR_WARNING));
    set_found(check, "%s",
              is_past ? "the clock shows a time in the past"
              : facts->is_clock_synchronized
                  ? "synchronized"
                  : "the clock is not synchronized; only time stamps depend on it");
    set_remedy(check, "run timedatectl set-ntp true; for a container, run it on its host");
}

static void judge_delegation(const struct doctor_swarm *swarm, struct doctor_report *report) {
    const bool is_found = swarm->problem[0] == '\0';
    struct doctor_check *check =
        add_check(report, "delegation",
                  !is_found ? DOCTOR_FAILED : (swarm->is_expiring ? DOCTOR_WARNING : DOCTOR_OK));
    if (!is_found) {
        set_found(check, "%s", swarm->problem);
        set_remedy(check, swarm->remedy);
    } else if (swarm->never_expires) {
        set_found(check, "the operator's delegation to the tracker does not expire");
    } else {
        set_found(check, "the operator's delegation to the tracker expires in %s%s", swarm->left,
                  swarm->is_expiring ? ", and then the tracker ends" : "");
        set_remedy(check, "sign a new one where the operator's key is: skep track RUN.yaml "
                          "--delegate KEY --operator-key FILE --days D");
    }
}

void doctor_judge(const struct doctor_facts *facts, struct doctor_report *report) {
    *report = (struct doctor_report){.count = 0};
    judge_device(facts, report);
    judge_driver(facts, report);
    judge_memory(facts, report);
    judge_limits(facts, report);
    for (int i = 0; i < DOCTOR_FOLDERS; i++) {
        judge_folder(&facts->folders[i], report);
    }
    judge_port(facts, report);
    judge_clock(facts, report);
    if (facts->swarm.is_checked) {
        judge_delegation(&facts->swarm, report);
    }
}
