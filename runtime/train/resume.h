/* resume: protects the folder of a run from other processes, and a resumed run from other
 * settings. */
#ifndef SKEP_TRAIN_RESUME_H
#define SKEP_TRAIN_RESUME_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/session/session.h"

/* resume_lock: locks the run's folder for this process, until the process ends.
 * errors  STATUS_INPUT when another process has locked it, naming that process */
MUST_CHECK enum status resume_lock(const struct settings *settings, int *fd, struct fault *fault);

/* resume_set_aside: renames the snapshot folder, if it exists, to FOLDER.before-TIME, or to
 * FOLDER.before-TIME-2 and so on if that exists too. */
MUST_CHECK enum status resume_set_aside(const struct settings *settings, struct fault *fault);

/* resume_check: checks that every shared key of the snapshot's run equals this run's. `steps` may
 * differ if the snapshot has not passed it; the log then has both values.
 * errors  STATUS_INPUT with the first key that differs and both values */
MUST_CHECK enum status resume_check(const struct settings *settings,
                                    const struct snapshot *snapshot, struct region *region,
                                    struct fault *fault);

#endif
