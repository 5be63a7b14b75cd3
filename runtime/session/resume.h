/* resume: how a run finds what it left, and refuses to go on as another run. */
#ifndef SKEP_SESSION_RESUME_H
#define SKEP_SESSION_RESUME_H

#include "runtime/checkpoint/snapshot.h"
#include "runtime/session/session.h"

/* resume_lock: hold the run's folder for this process; released when it ends, however it ends.
 * errors  STATUS_INPUT when another process holds it, naming that process */
MUST_CHECK enum status resume_lock(const struct run *run, int *fd, struct fault *fault);

/* resume_set_aside: rename the snapshot folder, if there is one, to FOLDER.before-TIME,
 * or FOLDER.before-TIME-2 and so on when there is one of that second. */
MUST_CHECK enum status resume_set_aside(const struct run *run, struct fault *fault);

/* resume_check: every shared key of the snapshot's run equals this run's, but for `steps`, which
 * may change as long as the snapshot is not beyond it; a log line then says so.
 * errors  STATUS_INPUT naming the first that differs, with both values */
MUST_CHECK enum status resume_check(const struct run *run, const struct snapshot *snapshot,
                                    struct region *region, struct fault *fault);

#endif
