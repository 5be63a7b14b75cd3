/* disk_budget: the disk space that snapshots and the export will need. */
#ifndef SKEP_SESSION_DISK_BUDGET_H
#define SKEP_SESSION_DISK_BUDGET_H

#include "runtime/session/session.h"

struct disk_budget {
    uint64_t snapshot_bytes; /* one snapshot: master weights and two moments; of a member also
                                momentum and error feedback */
    uint64_t snapshot_count; /* snapshot.keep, and one being written */
    uint64_t export_bytes;   /* a Hugging Face folder in f32, or bf16 when that computes */
    uint64_t results_bytes;  /* of a member: rounds since the newest snapshot */
    uint64_t ledger_bytes;   /* of a member: every round of the run */
    uint64_t peak_bytes;     /* of everything on the file system of the snapshots */
    uint64_t capacity_bytes; /* free on it, or limits.disk when that is less */
    bool capacity_known;     /* false when planning for a named target, whose disk is elsewhere */
    bool export_apart;       /* on another file system: not part of peak_bytes */
    uint64_t export_capacity_bytes; /* free there, if it is another; or limits.disk, as above */
};

/* disk_budget_of: reads the free space of the file systems of the snapshot folder and the export,
 * or of the nearest folder above each that exists. */
struct disk_budget disk_budget_of(const struct session *session);

/* disk_fits: errors STATUS_FIT naming the folder or limits.disk, with need and have, unless the
 * capacity is unknown. */
MUST_CHECK enum status disk_fits(const struct session *session, struct fault *fault);

#endif
