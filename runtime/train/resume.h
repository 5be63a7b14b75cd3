/* resume: locks the folder of a run, and checks that a run is resumed with the settings that it was
 * started with. */
#ifndef SKEP_TRAIN_RESUME_H
#define SKEP_TRAIN_RESUME_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/session/session.h"

/* resume_lock_folder: locks the run's folder for this process, until the process ends. *made:
 * whether this call made the folder.
 * errors  STATUS_INPUT when another process has locked it, naming that process */
MUST_CHECK enum status resume_lock_folder(const struct settings *settings, int *fd, bool *made,
                                          struct fault *fault);

/* resume_remove_folder: removes the lock and the run's folder, if nothing else is in it. The caller
 * still holds the lock. */
void resume_remove_folder(const struct settings *settings);

/* resume_set_aside_files: renames the snapshot folder, if it exists, to FOLDER.before-TIME, in UTC,
 * as in snapshots.before-2026-11-23T224500Z. If that name exists too, it appends -2, -3 and so on.
 */
MUST_CHECK enum status resume_set_aside_files(const struct settings *settings, struct fault *fault);

/* resume_check_settings: checks that every shared setting has the same value in this run and in the
 * run that saved the snapshot. `steps` may differ if the snapshot was saved at or before the new
 * last step; both values are then logged.
 * errors  STATUS_INPUT with the first key that differs and both values */
MUST_CHECK enum status resume_check_settings(const struct settings *settings,
                                             const struct snapshot *snapshot, struct region *region,
                                             struct fault *fault);

#endif
