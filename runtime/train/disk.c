#include "runtime/train/disk.h"

#include "base/file.h"
#include "runtime/swarm/entry_code.h"

#include <string.h>
#include <sys/statvfs.h>

enum { FIXED_BYTES = 1 << 20 }; /* headers, snapshot.json, copies of small files */

static uint64_t free_bytes_at(const char *wanted) {
    char path[PATH_BYTES];
    struct statvfs info;
    ASSERT(strlen(wanted) < sizeof path);
    memcpy(path, wanted, strlen(wanted) + 1);
    while (statvfs(path, &info) != 0) {
        char above[PATH_BYTES];
        file_folder_of(path, above, sizeof above);
        if (strcmp(above, path) == 0) {
            return 0;
        }
        memcpy(path, above, sizeof path);
    }
    return (uint64_t)info.f_bavail * info.f_frsize;
}

/* An OPEN and a COMMIT with every seat taken and nothing returned. */
static uint64_t round_ledger_bytes(const struct swarm_terms *terms) {
    enum { FIXED = 24 + 3 * HASH_BYTES + 12 + 4 + 4 + HASH_BYTES + 4 };
    uint64_t seats = terms->shape.members_max;
    uint64_t open = FIXED + seats * ENTRY_SEAT_BYTES + ENTRY_SIGNATURE_BYTES;
    return open + FIXED + seats * (ENTRY_SEAT_BYTES + 16 + ENTRY_SIGNATURE_BYTES) +
           (uint64_t)terms->shape.slices.count * ENTRY_SLICE_BYTES;
}

static void add_swarm(const struct session *session, struct disk_plan *disk) {
    const struct swarm_terms *terms = &session->swarm;
    const struct replica_memory memory = replica_memory_of(&terms->shape);
    uint64_t rounds = (uint64_t)swarm_snapshot_rounds(&session->run) + 1; /* and the open one */
    disk->snapshot_bytes += memory.momentum + memory.feedback;
    disk->results_bytes = rounds * memory.contribution; /* results of all slices, encoded alike */
    disk->ledger_bytes = terms->commits_max * round_ledger_bytes(terms);
}

struct disk_plan disk_plan_of(const struct session *session) {
    const struct run *run = &session->run;
    uint64_t elements = (uint64_t)blueprint_elements(&session->blueprint);
    uint64_t moment = (uint64_t)dtype_bytes((enum dtype)run->moments);
    struct disk_plan disk = {
        .snapshot_bytes = elements * (sizeof(float) + 2 * moment) + FIXED_BYTES,
        .snapshot_count = (uint64_t)run->snapshot_keep + 1,
        .export_bytes = elements * (uint64_t)dtype_bytes((enum dtype)run->params) + FIXED_BYTES,
        .capacity_bytes = free_bytes_at(run->snapshot_folder),
        .capacity_known = run->target == NULL || run->limit_disk > 0};
    if (session->swarm.manifest != NULL) {
        add_swarm(session, &disk);
    }
    disk.peak_bytes = disk.snapshot_bytes * disk.snapshot_count + disk.export_bytes +
                      disk.results_bytes + disk.ledger_bytes;
    if (run->limit_disk > 0 && run->limit_disk < disk.capacity_bytes) {
        disk.capacity_bytes = run->limit_disk;
    }
    return disk;
}

enum status disk_fits(const struct session *session, struct fault *fault) {
    struct disk_plan disk = disk_plan_of(session);
    char need[24];
    char have[24];
    if (!disk.capacity_known || disk.peak_bytes <= disk.capacity_bytes) {
        return OK;
    }
    return fault_set(fault, STATUS_FIT, session->run.snapshot_folder,
                     "lower snapshot.keep or name a larger disk in snapshot.folder",
                     "snapshots and export need %s, has %s", text_bytes(disk.peak_bytes, need),
                     text_bytes(disk.capacity_bytes, have));
}
