/* progress: reports the steps of a run through base/log.h. Never allocates. */
#ifndef SKEP_TRAIN_PROGRESS_H
#define SKEP_TRAIN_PROGRESS_H

#include "runtime/session/step.h"

struct progress {
    /* whether the terminal shows colours; whether -q was given or another rank reports */
    bool colour, quiet;
    double smooth_s;     /* smoothed duration of a step in seconds */
    double flops;        /* number of floating-point operations of one step */
    double peak_flops;   /* peak floating-point operations per second of the target */
    uint64_t plan_bytes; /* total size of the arenas */
};

void progress_init(struct progress *progress, const struct session *session);

/* How far a run has come. */
struct progress_position {
    /* number of completed steps; last step of this process; number of steps of the run */
    int64_t step, until, steps;
    /* expected seconds of evaluations, snapshots and the export until this process ends */
    double other_s;
};

/* progress_show_step: shows the result of a step that took `seconds`, and the estimated time until
 * step at->until is complete. */
void progress_show_step(struct progress *progress, const struct progress_position *at,
                        const struct step_result *result, double seconds);

/* progress_show_line: writes a permanent line, for example about an evaluation or a snapshot. */
void progress_show_line(struct progress *progress, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
