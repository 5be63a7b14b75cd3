#include "runtime/session/step_windows.h"

#include "runtime/session/batch.h"

static void *raw_tokens(const struct session *session) {
    return program_extent(&session->bound, session->program.schedule.host.raw_tokens);
}

/* Valid labels of this rank's rows. */
static enum status count_valid(struct session *session, const struct step_windows *step,
                               int64_t *valid, struct fault *fault) {
    int64_t sum = 0;
    for (int64_t row = 0; row < step->count; row++) {
        int64_t labels = 0;
        enum status status = step_row_is_own(session, row)
                                 ? data_valid_labels(step->data, step->windows[row],
                                                     raw_tokens(session), &labels, fault)
                                 : OK;
        if (status != OK) {
            return status;
        }
        sum += labels;
    }
    *valid = sum;
    return OK;
}

static enum status begin(struct session *session, const struct step_windows *step, int64_t *valid,
                         struct fault *fault) {
    int64_t own = 0;
    enum status status = session_agree(session, count_valid(session, step, &own, fault), fault);
    if (status != OK) {
        return status;
    }
    *valid = step_begin_at(session, &step->pace, own);
    if (*valid == 0) {
        (void)fault_set(fault, STATUS_INPUT, "data.documents",
                        "name the token that ends a document", "every token read is a separator");
        return session_agree(session, STATUS_INPUT, fault); /* all have found it */
    }
    return OK;
}

/* Own windows among those that all ranks compute at once from `first` on; the rest of the
 * microbatch stays without labels. */
static enum status load(struct session *session, const struct step_windows *step, int64_t first,
                        struct fault *fault) {
    int64_t left = step->count - first;
    int64_t count = left < step_rows_at_once(session) ? left : step_rows_at_once(session);
    int64_t loaded = 0;
    if (!step_continues(step->keep_on, step->context)) {
        return fault_set(fault, STATUS_STOPPED, "step", NULL, "given up");
    }
    for (int64_t row = first; row < first + count; row++) {
        if (!step_row_is_own(session, row)) {
            continue;
        }
        struct token_row into = batch_row(session, loaded++);
        enum status status =
            data_window(step->data, step->windows[row], raw_tokens(session), &into, fault);
        if (status != OK) {
            return status;
        }
    }
    batch_empty_rows(session, loaded);
    return OK;
}

enum status step_on_windows(struct session *session, const struct step_windows *step,
                            struct step_result *result, struct fault *fault) {
    int64_t valid = 0;
    ASSERT(step->count > 0);
    enum status status = begin(session, step, &valid, fault);
    for (int64_t done = 0; done < step->count && status == OK; done += step_rows_at_once(session)) {
        status = session_agree(session, load(session, step, done, fault), fault);
        if (status == OK) {
            program_run(&session->bound, SEGMENT_MICROBATCH);
        }
    }
    if (status != OK) {
        return status;
    }
    const struct step_result reached = step_finish_at(session, &step->pace, valid);
    status = program_failure(&session->bound, fault);
    if (status == OK) {
        *result = reached;
    }
    return status;
}
