#include "runtime/train/step.h"

#include "runtime/train/batch.h"

#include <math.h>
#include <string.h>

void step_begin(struct session *session, int64_t step, int64_t valid_tokens) {
    const struct run *run = &session->run;
    struct step_scalars *scalars = program_scalars(&session->bound);
    ASSERT(valid_tokens > 0);
    memset(scalars, 0, sizeof *scalars);
    scalars->learning_rate = (float)run_rate(run, step);
    scalars->bias_correction_1 = (float)(1 - pow(run->betas.first, (double)(step + 1)));
    scalars->bias_correction_2 = (float)(1 - pow(run->betas.second, (double)(step + 1)));
    scalars->loss_scale = (float)(1.0 / (double)valid_tokens);
    program_run(&session->bound, SEGMENT_BEGIN);
}

struct step_result step_finish(struct session *session, int64_t step, int64_t valid_tokens) {
    program_run(&session->bound, SEGMENT_FINISH);
    const struct step_scalars *scalars = program_scalars(&session->bound);
    return (struct step_result){.loss = scalars->loss_sum / (double)valid_tokens,
                                .gradient_norm = scalars->gradient_norm,
                                .learning_rate = run_rate(&session->run, step),
                                .tokens = valid_tokens,
                                .skipped = scalars->skip != 0};
}

static bool kept_on(const struct step_source *source) {
    return source->keep_on == NULL || source->keep_on(source->context);
}

static enum status stopped(struct fault *fault) {
    return fault_set(fault, STATUS_STOPPED, "run", NULL, "asked to stop");
}

static void *raw_tokens(const struct session *session) {
    return program_extent(&session->bound, session->program.schedule.host.raw_tokens);
}

static enum status no_labels(struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, "data.documents", "name the token that ends a document",
                     "every token read is a separator");
}

/* Rows [0, count) from the stream; the rest of the microbatch stays without labels. */
static enum status load_shuffled(struct session *session, const struct step_source *source,
                                 int64_t count, int64_t *cursor, struct fault *fault) {
    for (int64_t row = 0; row < count; row++) {
        struct token_row into = batch_row(session, row);
        int64_t window = data_next(source->data, source->seed, cursor);
        enum status status = data_window(source->data, window, raw_tokens(session), &into, fault);
        if (status != OK) {
            return status;
        }
    }
    batch_empty_rows(session, count);
    return OK;
}

static int64_t at_most(int64_t value, int64_t limit) {
    return value < limit ? value : limit;
}

/* Valid labels of the rows that follow `cursor`: read once more, as the loss of the first
 * microbatch is already divided by them. */
static enum status count_valid(struct session *session, const struct step_source *source,
                               int64_t cursor, int64_t *valid, struct fault *fault) {
    int64_t rows = session->run.batch_tokens / session->run.sequence;
    int64_t sum = 0;
    for (int64_t row = 0; row < rows; row++) {
        int64_t window = data_next(source->data, source->seed, &cursor);
        int64_t labels = 0;
        enum status status =
            data_valid_labels(source->data, window, raw_tokens(session), &labels, fault);
        if (status != OK) {
            return status;
        }
        sum += labels;
    }
    if (sum == 0) {
        return no_labels(fault);
    }
    *valid = sum;
    return OK;
}

enum status step_from_data(struct session *session, const struct step_source *source, int64_t step,
                           int64_t *cursor, struct step_result *result, struct fault *fault) {
    const struct run *run = &session->run;
    int64_t rows = run->batch_tokens / run->sequence;
    int64_t at = *cursor;
    int64_t valid = run->batch_tokens;
    if (source->data->separator != DATA_NO_SEPARATOR) {
        enum status status = count_valid(session, source, at, &valid, fault);
        if (status != OK) {
            return status;
        }
    }
    step_begin(session, step, valid);
    for (int64_t done = 0; done < rows; done += run->microbatch) {
        if (!kept_on(source)) {
            return stopped(fault);
        }
        int64_t count = at_most(rows - done, run->microbatch);
        enum status status = load_shuffled(session, source, count, &at, fault);
        if (status != OK) {
            return status;
        }
        program_run(&session->bound, SEGMENT_MICROBATCH);
    }
    *result = step_finish(session, step, valid);
    *cursor = at;
    return OK;
}

double evaluate_batch(struct session *session) {
    struct step_scalars *scalars = program_scalars(&session->bound);
    memset(scalars, 0, sizeof *scalars);
    program_run(&session->bound, SEGMENT_EVALUATE);
    return scalars->loss_sum;
}

/* Rows [0, count) are the windows from `first` on; *valid grows by their labels. */
static enum status load_in_order(struct session *session, const struct token_data *data,
                                 int64_t first, int64_t count, int64_t *valid,
                                 struct fault *fault) {
    for (int64_t row = 0; row < count; row++) {
        struct token_row into = batch_row(session, row);
        enum status status = data_window(data, first + row, raw_tokens(session), &into, fault);
        if (status != OK) {
            return status;
        }
        for (int64_t t = 0; t < data->sequence; t++) {
            *valid += into.labels[t] != LABEL_IGNORED;
        }
    }
    batch_empty_rows(session, count);
    return OK;
}

enum status evaluate_data(struct session *session, const struct step_source *source, int64_t rows,
                          struct evaluation_result *result, struct fault *fault) {
    const struct run *run = &session->run;
    int64_t windows = source->data->window_count;
    int64_t wanted = rows == 0 ? windows : at_most(rows, windows);
    double sum = 0;
    int64_t valid = 0;
    for (int64_t done = 0; done < wanted; done += run->microbatch) {
        if (!kept_on(source)) {
            return stopped(fault);
        }
        int64_t count = at_most(wanted - done, run->microbatch);
        enum status status = load_in_order(session, source->data, done, count, &valid, fault);
        if (status != OK) {
            return status;
        }
        sum += evaluate_batch(session);
    }
    if (valid == 0) {
        return no_labels(fault);
    }
    *result = (struct evaluation_result){.loss = sum / (double)valid, .tokens = valid};
    return OK;
}
