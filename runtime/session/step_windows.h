/* step_windows: an optimizer step on windows that somebody else has chosen. */
#ifndef SKEP_SESSION_STEP_WINDOWS_H
#define SKEP_SESSION_STEP_WINDOWS_H

#include "runtime/session/step.h"

struct step_windows {
    const struct token_data *data;
    const int64_t *windows; /* [count] */
    int64_t count;          /* at least 1 */
    struct step_schedule pace;
    step_keep_on *keep_on; /* asked before each microbatch; NULL: always */
    void *context;
};

/* step_on_windows: as step_from_data, of as many microbatches as the windows fill. All ranks call
 * it with the same windows and pace, of which the rows are dealt to them as a step's are.
 * errors  STATUS_STOPPED when keep_on says no on any rank, those of data_window, of whichever rank
 *         met them, STATUS_INPUT when no label is valid: parameters have not changed then */
MUST_CHECK enum status step_on_windows(struct session *session, const struct step_windows *step,
                                       struct step_result *result, struct fault *fault);

#endif
