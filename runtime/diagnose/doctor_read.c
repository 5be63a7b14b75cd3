/* doctor_read: reads the facts about this machine that `skep doctor` judges. */
#include "base/clock.h"
#include "base/file.h"
#include "build_config.h"
#include "runtime/diagnose/doctor.h"
#include "runtime/diagnose/probe_gpu.h"
#include "targets/os/machine.h"
#include "targets/ports/driver_remedy.h"
#include "targets/ports/nvml.h"
#include "targets/probe/detect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

static uint64_t resource_limit(__rlimit_resource_t resource, bool is_hard) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) {
        return UINT64_MAX;
    }
    rlim_t value = is_hard ? limit.rlim_max : limit.rlim_cur;
    return value == RLIM_INFINITY ? UINT64_MAX : (uint64_t)value;
}

static uint64_t free_bytes_of(const char *path) {
    struct statvfs file_system;
    return statvfs(path, &file_system) == 0
               ? (uint64_t)file_system.f_bavail * (uint64_t)file_system.f_frsize
               : 0;
}

/* Finds a default folder: $variable/skep, or ~/below_home/skep; $STATE_DIRECTORY is the folder
 * itself. */
static void find_folder(const char *variable, const char *below_home,
                        struct doctor_folder *folder) {
    const char *value = getenv(variable);
    const char *home = getenv("HOME");
    char nearest[DOCTOR_TEXT_BYTES];
    folder->path[0] = '\0';
    if (value != NULL && value[0] == '/') {
        snprintf(folder->path, sizeof folder->path, "%.*s%s", 200, value,
                 strcmp(variable, "STATE_DIRECTORY") == 0 ? "" : "/skep");
    } else if (home != NULL && home[0] == '/') {
        snprintf(folder->path, sizeof folder->path, "%.*s/%s/skep", 200, home, below_home);
    } else {
        return;
    }
    snprintf(nearest, sizeof nearest, "%s", folder->path);
    while (access(nearest, F_OK) != 0 && strrchr(nearest, '/') > nearest) {
        *strrchr(nearest, '/') = '\0';
    }
    folder->is_writable = file_is_folder(nearest) && access(nearest, W_OK) == 0;
    folder->free_bytes = free_bytes_of(nearest);
}

/* Tries to listen as a tracker does, and stops at once. */
static int try_to_listen(void) {
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(DOCTOR_PORT_NUMBER), .sin_addr = {INADDR_ANY}};
    const int reuse = 1;
    int error = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1) != 0) {
        error = errno;
    }
    close(fd);
    return error;
}

static void read_gpu(struct doctor_facts *facts) {
    struct nvml nvml;
    facts->has_cuda = SKEP_CUDA;
    facts->gpu_count = probe_gpu_count();
    facts->driver[0] = '\0';
    driver_remedy_read(facts->driver_remedy);
    if (nvml_open(&nvml)) {
        nvml_driver_version(&nvml, facts->driver);
    }
    /* a GPU without a driver of the kernel is found by NVML */
    facts->has_gpu = facts->gpu_count > 0 || facts->driver[0] != '\0' || target_has_gpu_files();
}

static bool is_overcommit_strict(void) {
    char text[32];
    size_t length;
    struct fault unseen;
    return file_read_text("/proc/sys/vm/overcommit_memory", text, sizeof text, &length, &unseen) ==
               OK &&
           text[0] == '2';
}

void doctor_read(struct doctor_facts *facts) {
    struct machine machine;
    struct timex clock = {.modes = 0};
    *facts = (struct doctor_facts){
        .folders = {{.use = "state of members"}, {.use = "identity"}, {.use = "cache"}}};
    read_gpu(facts);
    machine_read("", &machine);
    snprintf(facts->cpu, sizeof facts->cpu, "%s, %d CPUs, %s", machine.cpu_name, machine.cpu_count,
             machine.isa);
    facts->memory_bytes = machine.memory_total_bytes;
    facts->memory_free_bytes = machine.memory_available_bytes;
    facts->shared_memory_bytes = free_bytes_of("/dev/shm");
    facts->memlock_bytes = resource_limit(RLIMIT_MEMLOCK, false);
    facts->open_files_max = resource_limit(RLIMIT_NOFILE, true);
    facts->is_overcommit_strict = is_overcommit_strict();
    find_folder(getenv("STATE_DIRECTORY") != NULL ? "STATE_DIRECTORY" : "XDG_STATE_HOME",
                ".local/state", &facts->folders[0]);
    find_folder("XDG_CONFIG_HOME", ".config", &facts->folders[1]);
    find_folder("XDG_CACHE_HOME", ".cache", &facts->folders[2]);
    facts->port_error = try_to_listen();
    int state = adjtimex(&clock);
    facts->is_clock_synchronized = state >= 0 && (clock.status & STA_UNSYNC) == 0;
    facts->unix_s = clock_unix_s();
}
