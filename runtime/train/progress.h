/* progress: writes the progress of a run to standard error: on a terminal one line that is updated
 * in place, otherwise a plain line every 10 s. Never allocates. */
#ifndef SKEP_TRAIN_PROGRESS_H
#define SKEP_TRAIN_PROGRESS_H

#include "runtime/session/step.h"

struct progress {
    bool terminal, colour, quiet;
    int64_t shown_ns;    /* time at which a line was last written */
    double smooth_s;     /* smoothed seconds per step */
    double flops;        /* operations of a step */
    double peak_flops;   /* peak of the target per second */
    uint64_t plan_bytes; /* size of the arenas */
};

void progress_init(struct progress *progress, const struct session *session);

/* Progress of a run: `step` steps are done; this start ends at `until`, the run at `steps`. */
struct progress_at {
    int64_t step, until, steps;
};

/* progress_step: shows a step that took `seconds`. The remaining time is the time to at->until. */
void progress_step(struct progress *progress, const struct progress_at *at,
                   const struct step_result *result, double seconds);

/* progress_line: writes a permanent line, for example about an evaluation or a snapshot. */
void progress_line(struct progress *progress, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
