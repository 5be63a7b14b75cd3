#include "runtime/session/disk_budget.h"

#include "base/bytes.h"
#include "base/file.h"
#include "runtime/checkpoint/folder.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum {
    /* assumed size of headers, snapshot.json and small files in a snapshot or an export */
    FIXED_BYTES = 1 << 20,
    STAT_BLOCK_BYTES = 512 /* unit of stat's st_blocks */
};

struct file_system {
    dev_t device;        /* device number, which identifies the file system */
    uint64_t free_bytes; /* bytes available to this process */
};

/* Returns the file system of a folder. The folder may not exist yet. */
static struct file_system file_system_at(const char *wanted) {
    char path[PATH_BYTES];
    struct statvfs space;
    struct stat info;
    ASSERT(strlen(wanted) < sizeof path);
    memcpy(path, wanted, strlen(wanted) + 1);
    while (statvfs(path, &space) != 0 || stat(path, &info) != 0) {
        char above[PATH_BYTES];
        file_parent_folder(path, above, sizeof above);
        if (strcmp(above, path) == 0) {
            return (struct file_system){.free_bytes = 0};
        }
        memcpy(path, above, sizeof path);
    }
    return (struct file_system){.device = info.st_dev,
                                .free_bytes = (uint64_t)space.f_bavail * space.f_frsize};
}

/* Files selected by the prefixes of their names, and their space on the disk. */
struct file_group {
    /* [prefix_count]: prefixes of the selected files; count 0: all files are selected */
    const char *const *prefixes;
    size_t prefix_count;
    uint64_t bytes; /* space of the files on the disk, to which add_files adds */
};

static bool is_in_group(const struct file_group *group, const char *name) {
    bool found = group->prefix_count == 0;
    for (size_t i = 0; i < group->prefix_count; i++) {
        found = found || strncmp(name, group->prefixes[i], strlen(group->prefixes[i])) == 0;
    }
    return found;
}

/* Adds the space of the files of a group in a folder. The space of a missing folder is 0. */
static void add_files(const char *folder, struct file_group *group) {
    struct folder_walk walk;
    struct fault ignored;
    struct stat info;
    if (folder_walk_begin(folder, &walk, &ignored) != OK) {
        return;
    }
    while (folder_walk_next(&walk)) {
        bool counts = is_in_group(group, walk.name) &&
                      fstatat(walk.fd, walk.name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                      S_ISREG(info.st_mode);
        group->bytes += counts ? (uint64_t)info.st_blocks * STAT_BLOCK_BYTES : 0;
    }
    folder_walk_end(&walk);
}

/* Returns the space of all files in the folders of the snapshots, including one that was not
 * completed. */
static uint64_t snapshots_bytes(const char *folder) {
    struct folder_walk walk;
    struct fault ignored;
    struct file_group all = {.prefix_count = 0};
    char path[2 * PATH_BYTES];
    if (folder_walk_begin(folder, &walk, &ignored) != OK) {
        return 0;
    }
    while (folder_walk_next(&walk)) {
        if (walk.is_folder) {
            path_join(folder, walk.name, path, sizeof path);
            add_files(path, &all);
        }
    }
    folder_walk_end(&walk);
    return all.bytes;
}

/* Returns the space of a member's results, states and ledger. */
static uint64_t member_files_bytes(const char *folder) {
    static const char *const PREFIXES[] = {"results-", "state-", "state.new", "ledger.jsonl"};
    struct file_group group = {.prefixes = PREFIXES, .prefix_count = ARRAY_COUNT(PREFIXES)};
    add_files(folder, &group);
    return group.bytes;
}

static uint64_t export_bytes_on_disk(const char *folder) {
    struct file_group all = {.prefix_count = 0};
    add_files(folder, &all);
    return all.bytes;
}

/* Returns the space that files of this run use already, at most as much as the budget contains for
 * them. The budget has one snapshot more than is kept, because a new one is written before an old
 * one is removed; that additional one is not counted here. */
static uint64_t count_bytes_already_used(const struct session *session,
                                         const struct disk_budget *disk) {
    const struct settings *settings = &session->settings;
    uint64_t member = disk->results_bytes + disk->ledger_bytes + disk->states_bytes;
    uint64_t kept = disk->snapshot_bytes * (disk->snapshot_count - 1);
    return min_u64(snapshots_bytes(settings->snapshot_folder), kept) +
           (member > 0 ? min_u64(member_files_bytes(settings->stem), member) : 0);
}

static uint64_t apply_disk_limit(const struct settings *settings, uint64_t available) {
    return settings->limit_disk > 0 ? min_u64(settings->limit_disk, available) : available;
}

/* Sets the capacities in `disk` from the free space of the file systems. For a plan of another
 * machine, assumes that all files are on one disk. */
static void find_capacity(const struct session *session, struct disk_budget *disk) {
    const struct settings *settings = &session->settings;
    struct file_system snapshots = file_system_at(settings->snapshot_folder);
    struct file_system export = file_system_at(settings->export_folder);
    bool reuses = settings->target == NULL && !session->disk.keeps_earlier_files;
    uint64_t own = reuses ? count_bytes_already_used(session, disk) : 0;
    uint64_t exported =
        reuses ? min_u64(export_bytes_on_disk(settings->export_folder), disk->export_bytes) : 0;
    disk->capacity_known = settings->target == NULL || settings->limit_disk > 0;
    disk->has_separate_export_disk = settings->target == NULL && snapshots.device != export.device;
    disk->capacity_bytes = apply_disk_limit(
        settings, snapshots.free_bytes + own + (disk->has_separate_export_disk ? 0 : exported));
    if (disk->has_separate_export_disk) {
        disk->export_capacity_bytes = apply_disk_limit(settings, export.free_bytes + exported);
    }
}

struct disk_budget disk_budget_of(const struct session *session) {
    const struct settings *settings = &session->settings;
    uint64_t elements = (uint64_t)blueprint_elements(&session->blueprint);
    uint64_t moment = (uint64_t)dtype_bytes((enum dtype)settings->moments_dtype);
    struct disk_budget disk = {
        .snapshot_bytes =
            elements * (sizeof(float) + 2 * moment) + FIXED_BYTES + session->disk.snapshot_bytes,
        .snapshot_count = (uint64_t)settings->snapshot_keep + 1,
        .export_bytes =
            elements * (uint64_t)dtype_bytes((enum dtype)settings->export_dtype) + FIXED_BYTES,
        .results_bytes = session->disk.results_bytes,
        .ledger_bytes = session->disk.ledger_bytes,
        .states_bytes = session->disk.states_bytes};
    find_capacity(session, &disk);
    disk.peak_bytes = disk.snapshot_bytes * disk.snapshot_count + disk.results_bytes +
                      disk.ledger_bytes + disk.states_bytes +
                      (disk.has_separate_export_disk ? 0 : disk.export_bytes);
    return disk;
}

/* A size that must not exceed the available bytes, and the text of the fault if it does. */
struct disk_demand {
    /* subject, beginning of the reason, and remedy of the fault */
    const char *subject, *reason_start, *remedy;
    uint64_t need_bytes, have_bytes; /* required and available bytes */
};

static enum status check_demand(const struct disk_demand *demand, struct fault *fault) {
    char need[24];
    char have[24];
    if (demand->need_bytes <= demand->have_bytes) {
        return OK;
    }
    return fault_set(fault, STATUS_FIT, demand->subject, demand->remedy,
                     "%s %s, but only %s are available", demand->reason_start,
                     text_format_bytes(demand->need_bytes, need),
                     text_format_bytes(demand->have_bytes, have));
}

enum status disk_check_fit(const struct session *session, struct fault *fault) {
    const struct settings *settings = &session->settings;
    struct disk_budget disk = disk_budget_of(session);
    uint64_t export_bytes = disk.has_separate_export_disk ? disk.export_bytes : 0;
    uint64_t limit = settings->limit_disk > 0 ? settings->limit_disk : UINT64_MAX;
    const struct disk_demand setting = {"limits.disk", "the snapshots and the export need",
                                        "lower snapshot.keep or raise limits.disk",
                                        disk.peak_bytes + export_bytes, limit};
    const struct disk_demand demands[] = {
        {settings->snapshot_folder,
         disk.has_separate_export_disk ? "the snapshots need" : "the snapshots and the export need",
         "lower snapshot.keep or set snapshot.folder to a folder on a larger disk", disk.peak_bytes,
         disk.capacity_bytes},
        {settings->export_folder, "the export needs", "set export to a folder on a larger disk",
         export_bytes, disk.export_capacity_bytes}};
    if (disk.capacity_bytes == limit || disk.export_capacity_bytes == limit) {
        /* if limits.disk allows less than the disk has free, the fault must name that setting */
        TRY(check_demand(&setting, fault));
    }
    for (size_t i = 0; i < ARRAY_COUNT(demands) && disk.capacity_known; i++) {
        TRY(check_demand(&demands[i], fault));
    }
    return disk.capacity_known ? check_demand(&setting, fault) : OK;
}

static enum status check_memory_fit(const struct session *session, struct fault *fault) {
    if (session->misfit.status != OK) {
        *fault = session->misfit;
        return fault->status;
    }
    return program_check_fit(&session->program, fault);
}

enum status session_check_fit(const struct session *session, struct fault *fault) {
    struct fault memory, disk;
    const bool has_memory = check_memory_fit(session, &memory) == OK;
    const bool has_disk = disk_check_fit(session, &disk) == OK;
    if (has_memory && has_disk) {
        return OK;
    }
    *fault = has_memory ? disk : memory;
    if (!has_memory && !has_disk) {
        const size_t length = strlen(fault->reason);
        struct text text = text_over(fault->reason + length, sizeof fault->reason - length);
        text_add(&text, "; %s", disk.reason);
    }
    return STATUS_FIT;
}
