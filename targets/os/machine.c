#include "targets/os/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PROC_TEXT_BYTES = 4096, /* size of the text of /proc/PID/cgroup or /proc/PID/status */
    /* size of the text that is read from meminfo, cpuinfo and memory.stat, whose used lines are
     * near the start */
    STAT_TEXT_BYTES = 2048,
    SYSTEM_PATH_BYTES = 512, /* size of a path in /proc or /sys */
    /* maximum depth of a cgroup; nested containers have fewer than ten levels */
    CGROUP_LEVELS_MAX = 32,
    LARGEST_PROCESSES_MAX = 8, /* processes that a message lists */
    PROCESS_NAME_BYTES = 32,   /* size of a process name, including the NUL */
};

/* The files of one version of cgroups. */
struct cgroup_files {
    const char *controller;    /* name of the controller in /proc/self/cgroup; "" for version 2 */
    const char *mount_point;   /* folder of the cgroup file system, relative to the root */
    const char *limit, *usage; /* names of the files with the memory limit; the memory in use */
    const char *active, *inactive; /* names of lines of memory.stat with reclaimable cache */
    /* names of the files with the CPU limit; in version 2, one file has both values */
    const char *quota, *period;
};

static const struct cgroup_files CGROUPS[] = {
    {"", "/sys/fs/cgroup", "memory.max", "memory.current", "active_file ", "inactive_file ",
     "cpu.max", NULL},
    {"", "/sys/fs/cgroup/unified", "memory.max", "memory.current", "active_file ", "inactive_file ",
     "cpu.max", NULL},
    {"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_active_file ", "total_inactive_file ", NULL, NULL},
    {"cpu", "/sys/fs/cgroup/cpu", NULL, NULL, NULL, NULL, "cpu.cfs_quota_us", "cpu.cfs_period_us"},
};

static bool read_text(const char *root, const char *path, char *buffer, size_t capacity) {
    char full[SYSTEM_PATH_BYTES];
    int length = snprintf(full, sizeof full, "%s%s", root, path);
    if (length < 0 || (size_t)length >= sizeof full) {
        return false;
    }
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t done = 0;
    ssize_t got = 1;
    while (got > 0 && done + 1 < capacity) {
        got = read(fd, buffer + done, capacity - 1 - done);
        done += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    buffer[done] = '\0';
    return got >= 0;
}

/* Find the number after `name` at the start of a line; false when there is no such line. */
static bool find_line_value(const char *text, const char *name, uint64_t *value) {
    size_t length = strlen(name);
    const char *line = text;
    while (line != NULL && strncmp(line, name, length) != 0) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    if (line == NULL) {
        return false;
    }
    *value = strtoull(line + length, NULL, 10);
    return true;
}

/* Find the cgroup folder of this process: the path in the controller's line, as in
 * "4:memory:/a/b". */
static bool find_cgroup_folder(const char *text, const char *controller, char *folder,
                               size_t capacity) {
    const char *line = text;
    while (line != NULL && *line != '\0') {
        const char *names = strchr(line, ':');
        const char *path = names != NULL ? strchr(names + 1, ':') : NULL;
        if (path == NULL) {
            return false;
        }
        char list[256];
        snprintf(list, sizeof list, ",%.*s,", (int)(path - names - 1), names + 1);
        char wanted[64];
        snprintf(wanted, sizeof wanted, ",%s,", controller);
        size_t length = strcspn(path + 1, "\n");
        if (strstr(list, wanted) != NULL && length < capacity) {
            memcpy(folder, path + 1, length);
            folder[length] = '\0';
            return true;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return false;
}

/* Read a file that contains one number; false if it contains "max" or other text: no limit. */
static bool read_number(const char *root, const char *folder, const char *file, uint64_t *value) {
    char path[SYSTEM_PATH_BYTES];
    char text[64];
    int length = snprintf(path, sizeof path, "%s/%s", folder, file);
    if (length >= (int)sizeof path || !read_text(root, path, text, sizeof text) ||
        !isdigit((unsigned char)text[0])) {
        return false;
    }
    *value = strtoull(text, NULL, 10);
    return true;
}

static uint64_t reclaimable_bytes(const char *root, const char *folder,
                                  const struct cgroup_files *files) {
    char path[SYSTEM_PATH_BYTES];
    char text[STAT_TEXT_BYTES];
    uint64_t active = 0;
    uint64_t inactive = 0;
    int length = snprintf(path, sizeof path, "%s/memory.stat", folder);
    if (length >= (int)sizeof path || !read_text(root, path, text, sizeof text)) {
        return 0;
    }
    bool known = find_line_value(text, files->active, &active) &&
                 find_line_value(text, files->inactive, &inactive);
    return known ? active + inactive : 0;
}

static void apply_memory_limit(const char *root, const char *folder,
                               const struct cgroup_files *files, struct machine *machine) {
    uint64_t limit;
    uint64_t usage = 0;
    if (files->limit == NULL || !read_number(root, folder, files->limit, &limit)) {
        return;
    }
    if (limit < machine->memory_total_bytes) {
        machine->memory_total_bytes = limit;
        machine->is_memory_limited = true;
    }
    if (!read_number(root, folder, files->usage, &usage)) {
        return;
    }
    uint64_t droppable = reclaimable_bytes(root, folder, files);
    uint64_t held = usage > droppable ? usage - droppable : 0;
    uint64_t available = limit > held ? limit - held : 0;
    if (available < machine->memory_available_bytes) {
        machine->memory_available_bytes = available;
    }
}

static void apply_cpu_quota(const char *root, const char *folder, const struct cgroup_files *files,
                            struct machine *machine) {
    uint64_t quota;
    uint64_t period = 0;
    if (files->quota == NULL || !read_number(root, folder, files->quota, &quota)) {
        return;
    }
    if (files->period != NULL) {
        (void)read_number(root, folder, files->period, &period);
    } else {
        char path[SYSTEM_PATH_BYTES];
        char text[64];
        snprintf(path, sizeof path, "%.400s/%s", folder, files->quota);
        const char *space = read_text(root, path, text, sizeof text) ? strchr(text, ' ') : NULL;
        period = space != NULL ? strtoull(space + 1, NULL, 10) : 0;
    }
    if (period == 0) {
        return;
    }
    uint64_t cpus = (quota + period - 1) / period;
    if (cpus < (uint64_t)machine->cpu_count) {
        machine->cpu_count = cpus > 0 ? (int)cpus : 1;
    }
}

/* Any cgroup above this process may set the limit. In a container the path may be invisible, but
 * its root is visible. */
static void apply_cgroup_limits(const char *root, struct machine *machine) {
    char groups[PROC_TEXT_BYTES];
    if (!read_text(root, "/proc/self/cgroup", groups, sizeof groups)) {
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(CGROUPS); i++) {
        char below[SYSTEM_PATH_BYTES - 64];
        char folder[SYSTEM_PATH_BYTES];
        if (!find_cgroup_folder(groups, CGROUPS[i].controller, below, sizeof below)) {
            continue;
        }
        for (int level = 0; level < CGROUP_LEVELS_MAX; level++) {
            bool top = below[0] == '\0' || strcmp(below, "/") == 0;
            snprintf(folder, sizeof folder, "%s%s", CGROUPS[i].mount_point, top ? "" : below);
            apply_memory_limit(root, folder, &CGROUPS[i], machine);
            apply_cpu_quota(root, folder, &CGROUPS[i], machine);
            char *slash = strrchr(below, '/');
            if (top || slash == NULL) {
                break;
            }
            *slash = '\0';
        }
    }
}

static int count_allowed_cpus(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        return online > 0 ? (int)online : 1;
    }
    int count = CPU_COUNT(&set);
    return count > 0 ? count : 1;
}

static void read_cpu(const char *root, struct machine *machine) {
    char text[STAT_TEXT_BYTES];
    uint64_t khz;
    snprintf(machine->cpu_name, sizeof machine->cpu_name, "unknown CPU");
    if (read_text(root, "/proc/cpuinfo", text, sizeof text)) {
        const char *model = strstr(text, "model name\t: ");
        const char *clock = strstr(text, "cpu MHz\t\t: ");
        if (model != NULL) {
            model += strlen("model name\t: ");
            snprintf(machine->cpu_name, sizeof machine->cpu_name, "%.*s", (int)strcspn(model, "\n"),
                     model);
        }
        machine->clock_hz = clock != NULL ? atof(clock + strlen("cpu MHz\t\t: ")) * 1e6 : 0;
    }
    if (read_number(root, "/sys/devices/system/cpu/cpu0/cpufreq", "cpuinfo_max_freq", &khz)) {
        machine->clock_hz = (double)khz * 1e3;
    }
}

static const char *best_supported_isa(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        return "scalar";
    }
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
    return bf16 ? "avx512_bf16" : avx512 ? "avx512" : "avx2";
#elif defined(__aarch64__)
    return "neon";
#else
    return "scalar";
#endif
}

void machine_read(const char *root, struct machine *machine) {
    char text[STAT_TEXT_BYTES];
    uint64_t total_kib = 0;
    uint64_t available_kib = 0;
    *machine = (struct machine){.cpu_count = count_allowed_cpus(), .isa = best_supported_isa()};
    if (read_text(root, "/proc/meminfo", text, sizeof text) &&
        find_line_value(text, "MemTotal:", &total_kib)) {
        (void)find_line_value(text, "MemAvailable:", &available_kib);
    }
    machine->memory_total_bytes = total_kib * 1024;
    machine->memory_available_bytes = available_kib * 1024;
    read_cpu(root, machine);
    apply_cgroup_limits(root, machine);
}

struct process_usage {
    uint64_t resident_bytes; /* memory of the process that is in RAM */
    int pid;
    char name[PROCESS_NAME_BYTES];
};

static bool read_process_usage(const char *root, const char *pid, struct process_usage *holder) {
    char path[64];
    char text[PROC_TEXT_BYTES];
    uint64_t anonymous_kib;
    uint64_t shared_kib = 0;
    snprintf(path, sizeof path, "/proc/%.20s/status", pid);
    if (!read_text(root, path, text, sizeof text) ||
        !find_line_value(text, "RssAnon:", &anonymous_kib)) {
        return false;
    }
    (void)find_line_value(text, "RssShmem:", &shared_kib);
    const char *name = text + strcspn(text, "\t");
    snprintf(holder->name, sizeof holder->name, "%.*s", (int)strcspn(name + 1, "\n"),
             name[0] != '\0' ? name + 1 : "");
    holder->pid = atoi(pid);
    holder->resident_bytes = (anonymous_kib + shared_kib) * 1024;
    return true;
}

void machine_process_name(const char *root, int pid, char name[static MACHINE_NAME_BYTES]) {
    char path[64];
    char text[MACHINE_NAME_BYTES];
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    bool known = read_text(root, path, text, sizeof text);
    snprintf(name, MACHINE_NAME_BYTES, "%.*s", known ? (int)strcspn(text, "\n") : 9,
             known ? text : "a process");
}

/* Insert an entry, and keep the list sorted, largest first, with at most `capacity` entries. */
static int insert_by_usage(struct process_usage *largest, int count, int capacity,
                           const struct process_usage *holder) {
    int at = count;
    while (at > 0 && largest[at - 1].resident_bytes < holder->resident_bytes) {
        at--;
    }
    if (at == capacity) {
        return count;
    }
    int kept = count < capacity ? count : capacity - 1;
    memmove(&largest[at + 1], &largest[at], (size_t)(kept - at) * sizeof *largest);
    largest[at] = *holder;
    return kept + 1;
}

void machine_list_largest_processes(const char *root, int count, struct text *text) {
    ASSERT(count >= 1 && count <= LARGEST_PROCESSES_MAX);
    struct process_usage largest[LARGEST_PROCESSES_MAX];
    int held = 0;
    char path[SYSTEM_PATH_BYTES];
    snprintf(path, sizeof path, "%.400s/proc", root);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct process_usage holder;
        if (isdigit((unsigned char)entry->d_name[0]) && atoi(entry->d_name) != (int)getpid() &&
            read_process_usage(root, entry->d_name, &holder)) {
            held = insert_by_usage(largest, held, count, &holder);
        }
    }
    closedir(folder);
    for (int i = 0; i < held; i++) {
        char bytes[24];
        text_add(text, "%s%s (pid %d) %s", i > 0 ? ", " : "", largest[i].name, largest[i].pid,
                 text_format_bytes(largest[i].resident_bytes, bytes));
    }
}
