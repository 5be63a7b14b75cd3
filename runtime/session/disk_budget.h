/* disk_budget: the disk space that snapshots and the export will need. */
#ifndef SKEP_SESSION_DISK_BUDGET_H
#define SKEP_SESSION_DISK_BUDGET_H

#include "runtime/session/session.h"

struct disk_budget {
    /* size of one snapshot: masters and two moments; for a member also outer momentum and error
     * feedback */
    uint64_t snapshot_bytes;
    uint64_t snapshot_count; /* number of snapshots: snapshot.keep, and one that is being written */
    uint64_t export_bytes;   /* size of the exported model folder in the compute dtype */
    /* for a member: size of the results of all rounds since the newest snapshot */
    uint64_t results_bytes;
    uint64_t ledger_bytes; /* for a member: size of the ledger entries of all rounds of the run */
    uint64_t states_bytes; /* for a member: size of the states to which the swarm can return */
    uint64_t peak_bytes;   /* space that all files on the file system of the snapshots need */
    /* space that this run can use on the file system of the snapshots: its free bytes and those
     * that files of this run already use, at most limits.disk */
    uint64_t capacity_bytes;
    bool capacity_known; /* false if the plan is for another machine, whose disk is unknown */
    /* the export is on another file system, and not part of peak_bytes */
    bool has_separate_export_disk;
    /* space that this run can use on the separate file system of the export */
    uint64_t export_capacity_bytes;
};

/* disk_budget_of: returns the disk space that the run needs and can use. Reads the free space of
 * the file systems of the snapshot folder and the export, or, where a folder does not exist, of its
 * nearest existing parent folder. Adds the space that the run's own files already use, at most as
 * much as the budget contains for them: snapshots, the export, and the results, states and ledger
 * of a member. A restart therefore needs no more space than the first start. */
struct disk_budget disk_budget_of(const struct session *session);

/* disk_check_fit: checks that the disk has space for snapshots and export. Returns STATUS_FIT, with
 * a fault that has the folder or limits.disk and the required and available bytes, if the space is
 * too small. Returns OK if the available space is unknown. */
MUST_CHECK enum status disk_check_fit(const struct session *session, struct fault *fault);

/* session_check_fit: checks that the compiled program fits the memory of the target, then the
 * disk. If both are too small, the fault is that of the memory, and its reason contains both. */
MUST_CHECK enum status session_check_fit(const struct session *session, struct fault *fault);

#endif
