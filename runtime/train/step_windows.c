#include "runtime/train/step_windows.h"

#include "runtime/train/batch.h"

static void *raw_tokens(const struct session *session) {
    return program_extent(&session->bound, session->program.schedule.host.raw_tokens);
}

static enum status count_valid(struct session *session, const struct step_windows *step,
                               int64_t *valid, struct fault *fault) {
    int64_t sum = 0;
    for (int64_t i = 0; i < step->count; i++) {
        int64_t labels = 0;
        enum status status =
            data_valid_labels(step->data, step->windows[i], raw_tokens(session), &labels, fault);
        if (status != OK) {
            return status;
        }
        sum += labels;
    }
    if (sum == 0) {
        return fault_set(fault, STATUS_INPUT, "data.documents",
                         "name the token that ends a document", "every token read is a separator");
    }
    *valid = sum;
    return OK;
}

/* The windows from `first` on that a microbatch has room for; the rest of it stays without labels.
 */
static enum status load(struct session *session, const struct step_windows *step, int64_t first,
                        struct fault *fault) {
    int64_t left = step->count - first;
    int64_t rows = left < session->run.microbatch ? left : session->run.microbatch;
    for (int64_t row = 0; row < rows; row++) {
        struct token_row into = batch_row(session, row);
        enum status status =
            data_window(step->data, step->windows[first + row], raw_tokens(session), &into, fault);
        if (status != OK) {
            return status;
        }
    }
    batch_empty_rows(session, rows);
    return OK;
}

enum status step_on_windows(struct session *session, const struct step_windows *step,
                            struct step_result *result, struct fault *fault) {
    int64_t valid = 0;
    ASSERT(session_ranks(session) == 1 && step->count > 0);
    enum status status = count_valid(session, step, &valid, fault);
    if (status != OK) {
        return status;
    }
    step_begin_at(session, &step->pace, valid);
    for (int64_t done = 0; done < step->count; done += session->run.microbatch) {
        if (step->keep_on != NULL && !step->keep_on(step->context)) {
            return fault_set(fault, STATUS_STOPPED, "step", NULL, "given up");
        }
        status = load(session, step, done, fault);
        if (status != OK) {
            return status;
        }
        program_run(&session->bound, SEGMENT_MICROBATCH);
    }
    const struct step_result reached = step_finish_at(session, &step->pace, valid);
    status = program_failure(&session->bound, fault);
    if (status == OK) {
        *result = reached;
    }
    return status;
}
