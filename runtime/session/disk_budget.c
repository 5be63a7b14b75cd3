#include "runtime/session/disk_budget.h"

#include "base/file.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

enum { FIXED_BYTES = 1 << 20 }; /* size of headers, snapshot.json and copies of small files */

struct file_system {
    dev_t device;        /* identifies the file system */
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

static uint64_t file_system_capacity(const struct settings *settings,
                                     const struct file_system *system) {
    bool limited = settings->limit_disk > 0 && settings->limit_disk < system->free_bytes;
    return limited ? settings->limit_disk : system->free_bytes;
}

/* A plan for another machine assumes that it has a single disk. */
static void find_capacity(const struct settings *settings, struct disk_budget *disk) {
    struct file_system snapshots = file_system_at(settings->snapshot_folder);
    struct file_system export = file_system_at(settings->export_folder);
    disk->capacity_bytes = file_system_capacity(settings, &snapshots);
    disk->capacity_known = settings->target == NULL || settings->limit_disk > 0;
    disk->export_apart = settings->target == NULL && snapshots.device != export.device;
    if (disk->export_apart) {
        disk->export_capacity_bytes = file_system_capacity(settings, &export);
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
            elements * (uint64_t)dtype_bytes((enum dtype)settings->params_dtype) + FIXED_BYTES,
        .results_bytes = session->disk.results_bytes,
        .ledger_bytes = session->disk.ledger_bytes,
        .states_bytes = session->disk.states_bytes};
    find_capacity(settings, &disk);
    disk.peak_bytes = disk.snapshot_bytes * disk.snapshot_count + disk.results_bytes +
                      disk.ledger_bytes + disk.states_bytes +
                      (disk.export_apart ? 0 : disk.export_bytes);
    return disk;
}

/* A size that must not exceed the available bytes, and the text of the fault if it does. */
struct disk_demand {
    /* subject, beginning of the reason, and remedy of the fault */
    const char *subject, *use, *remedy;
    uint64_t need_bytes, have_bytes; /* required and available bytes */
};

static enum status check_demand(const struct disk_demand *demand, struct fault *fault) {
    char need[24];
    char have[24];
    if (demand->need_bytes <= demand->have_bytes) {
        return OK;
    }
    return fault_set(fault, STATUS_FIT, demand->subject, demand->remedy,
                     "%s %s, but only %s are available", demand->use,
                     text_format_bytes(demand->need_bytes, need),
                     text_format_bytes(demand->have_bytes, have));
}

enum status disk_fits(const struct session *session, struct fault *fault) {
    const struct settings *settings = &session->settings;
    struct disk_budget disk = disk_budget_of(session);
    uint64_t export_bytes = disk.export_apart ? disk.export_bytes : 0;
    uint64_t limit = settings->limit_disk > 0 ? settings->limit_disk : UINT64_MAX;
    const struct disk_demand demands[] = {
        {settings->snapshot_folder,
         disk.export_apart ? "snapshots need" : "snapshots and export need",
         "lower snapshot.keep or set snapshot.folder to a folder on a larger disk", disk.peak_bytes,
         disk.capacity_bytes},
        {settings->export_folder, "the export needs", "set export to a folder on a larger disk",
         export_bytes, disk.export_capacity_bytes},
        {"limits.disk", "snapshots and export need", "lower snapshot.keep or raise limits.disk",
         disk.peak_bytes + export_bytes, limit}};
    for (size_t i = 0; i < ARRAY_COUNT(demands) && disk.capacity_known; i++) {
        TRY(check_demand(&demands[i], fault));
    }
    return OK;
}
