#include "runtime/session/step.h"

#include "base/random.h"
#include "runtime/session/batch.h"
#include "transport/site/stop.h"

#include <math.h>
#include <string.h>

static struct step_schedule pace_of(const struct session *session, int64_t step) {
    return (struct step_schedule){.learning_rate = settings_learning_rate(&session->run, step),
                                  .updates = step};
}

/* The same on every rank, and again when a run goes on from a snapshot. */
static uint32_t noise_of(const struct run *run, int64_t updates) {
    uint32_t words[4];
    random_block(random_key((uint64_t)run->seed, "stochastic rounding"), (uint64_t)updates, words);
    return words[0];
}

int64_t step_begin_at(struct session *session, const struct step_schedule *pace,
                      int64_t own_valid) {
    const struct run *run = &session->run;
    struct step_scalars *scalars = program_scalars(&session->bound);
    double count = (double)(pace->updates + 1);
    memset(scalars, 0, sizeof *scalars);
    scalars->learning_rate = (float)pace->learning_rate;
    scalars->bias_correction_1 = (float)(1 - pow(run->betas.first, count));
    scalars->bias_correction_2 = (float)(1 - pow(run->betas.second, count));
    scalars->noise = noise_of(run, pace->updates);
    scalars->valid_tokens = own_valid;
    scalars->loss_scale = own_valid > 0 ? (float)(1.0 / (double)own_valid) : 0;
    program_run(&session->bound, SEGMENT_BEGIN);
    return scalars->valid_tokens; /* summed over the ranks, if there are several */
}

struct step_result step_finish_at(struct session *session, const struct step_schedule *pace,
                                  int64_t valid_tokens) {
    program_run(&session->bound, SEGMENT_FINISH);
    const struct step_scalars *scalars = program_scalars(&session->bound);
    return (struct step_result){.loss = scalars->loss_sum / (double)valid_tokens,
                                .gradient_norm = scalars->gradient_norm,
                                .learning_rate = pace->learning_rate,
                                .tokens = valid_tokens,
                                .skipped = scalars->skip != 0};
}

int64_t step_begin(struct session *session, int64_t step, int64_t own_valid) {
    struct step_schedule pace = pace_of(session, step);
    return step_begin_at(session, &pace, own_valid);
}

struct step_result step_finish(struct session *session, int64_t step, int64_t valid_tokens) {
    struct step_schedule pace = pace_of(session, step);
    return step_finish_at(session, &pace, valid_tokens);
}

bool step_continues(step_keep_on *keep_on, void *context) {
    return keep_on == NULL || keep_on(context);
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

static int64_t at_most(int64_t value, int64_t limit) {
    return value < limit ? value : limit;
}

int64_t step_rows_at_once(const struct session *session) {
    return session->run.microbatch * session->bound.ranks.size[AXIS_WORLD];
}

bool step_row_is_own(const struct session *session, int64_t row) {
    int64_t turn = row / session->run.microbatch;
    return turn % session->bound.ranks.size[AXIS_WORLD] == session->bound.ranks.of[AXIS_WORLD];
}

/* Own rows among the `count` rows from `first` on; the rest of the microbatch stays without labels.
 */
static enum status load_shuffled(struct session *session, const struct step_source *source,
                                 int64_t first, int64_t count, int64_t *cursor,
                                 struct fault *fault) {
    int64_t loaded = 0;
    for (int64_t row = first; row < first + count; row++) {
        int64_t window = data_next(source->data, source->seed, cursor);
        if (!step_row_is_own(session, row)) {
            continue;
        }
        struct token_row into = batch_row(session, loaded++);
        enum status status = data_window(source->data, window, raw_tokens(session), &into, fault);
        if (status != OK) {
            return status;
        }
    }
    batch_empty_rows(session, loaded);
    return OK;
}

enum { ROWS_A_LOOK = 1 << 16 }; /* between looks for a wish to stop: some milliseconds */

/* Valid labels of this rank's rows that follow `cursor`: read once more, as the loss of the first
 * microbatch is already divided by them. */
static enum status count_valid(struct session *session, const struct step_source *source,
                               int64_t cursor, int64_t *valid, struct fault *fault) {
    const struct token_data *data = source->data;
    int64_t rows = session->run.batch_tokens / session->run.sequence;
    int64_t sum = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (row % ROWS_A_LOOK == ROWS_A_LOOK - 1 && stop_requested()) {
            return stopped(fault);
        }
        int64_t window = data_next(data, source->seed, &cursor);
        int64_t labels = 0;
        enum status status =
            step_row_is_own(session, row)
                ? data_valid_labels(data, window, raw_tokens(session), &labels, fault)
                : OK;
        if (status != OK) {
            return status;
        }
        sum += labels;
    }
    *valid = sum;
    return OK;
}

/* The counting reads files only where there is a separator; there only can it fail. In many rows it
 * can be stopped. */
static enum status begin_step(struct session *session, const struct step_source *source,
                              int64_t step, int64_t cursor, int64_t *valid, struct fault *fault) {
    int64_t own_valid = 0;
    enum status status = count_valid(session, source, cursor, &own_valid, fault);
    bool many = session->run.batch_tokens / session->run.sequence >= ROWS_A_LOOK;
    if (source->data->separator != DATA_NO_SEPARATOR || many) {
        status = session_agree(session, status, fault);
    }
    if (status != OK) {
        return status;
    }
    *valid = step_begin(session, step, own_valid);
    return *valid > 0 ? OK : session_agree(session, no_labels(fault), fault);
}

static uint64_t received_bytes(const struct session *session) {
    const struct communicator *communicator = session->bound.communicator;
    uint64_t sum = 0;
    for (int kind = 0; communicator != NULL && kind < COLLECTIVE_KIND_COUNT; kind++) {
        sum += communicator->received_bytes[kind];
    }
    return sum;
}

enum status step_from_data(struct session *session, const struct step_source *source, int64_t step,
                           int64_t *cursor, struct step_result *result, struct fault *fault) {
    int64_t rows = session->run.batch_tokens / session->run.sequence;
    uint64_t received = received_bytes(session);
    int64_t at = *cursor;
    int64_t valid = 0;
    enum status status = begin_step(session, source, step, at, &valid, fault);
    for (int64_t done = 0; done < rows && status == OK; done += step_rows_at_once(session)) {
        int64_t count = at_most(rows - done, step_rows_at_once(session));
        status = step_continues(source->keep_on, source->context)
                     ? load_shuffled(session, source, done, count, &at, fault)
                     : stopped(fault);
        status = session_agree(session, status, fault);
        if (status == OK) {
            program_run(&session->bound, SEGMENT_MICROBATCH);
        }
    }
    if (status != OK) {
        return status;
    }
    const struct step_result reached = step_finish(session, step, valid);
    status = program_failure(&session->bound, fault);
    if (status != OK) {
        return status;
    }
    *result = reached;
    result->received_bytes = received_bytes(session) - received;
    *cursor = at;
    return OK;
}

double evaluate_batch(struct session *session, int64_t own_valid, int64_t *valid) {
    struct step_scalars *scalars = program_scalars(&session->bound);
    memset(scalars, 0, sizeof *scalars);
    scalars->valid_tokens = own_valid;
    program_run(&session->bound, SEGMENT_EVALUATE);
    *valid += scalars->valid_tokens;
    return scalars->loss_sum;
}

/* Own windows among the `count` from `first` on; *valid grows by their labels. */
static enum status load_in_order(struct session *session, const struct token_data *data,
                                 int64_t first, int64_t count, int64_t *valid,
                                 struct fault *fault) {
    int64_t loaded = 0;
    for (int64_t row = first; row < first + count; row++) {
        if (!step_row_is_own(session, row)) {
            continue;
        }
        struct token_row into = batch_row(session, loaded++);
        enum status status = data_window(data, row, raw_tokens(session), &into, fault);
        if (status != OK) {
            return status;
        }
        for (int64_t t = 0; t < data->sequence; t++) {
            *valid += into.labels[t] != LABEL_IGNORED;
        }
    }
    batch_empty_rows(session, loaded);
    return OK;
}

enum status evaluate_data(struct session *session, const struct step_source *source, int64_t rows,
                          struct evaluation_result *result, struct fault *fault) {
    int64_t windows = source->data->window_count;
    int64_t wanted = rows == 0 ? windows : at_most(rows, windows);
    double sum = 0;
    int64_t valid = 0;
    for (int64_t done = 0; done < wanted; done += step_rows_at_once(session)) {
        int64_t count = at_most(wanted - done, step_rows_at_once(session));
        int64_t own_valid = 0;
        enum status status =
            step_continues(source->keep_on, source->context)
                ? load_in_order(session, source->data, done, count, &own_valid, fault)
                : stopped(fault);
        status = session_agree(session, status, fault);
        if (status != OK) {
            return status;
        }
        sum += evaluate_batch(session, own_valid, &valid);
    }
    enum status status = program_failure(&session->bound, fault);
    if (status == OK && valid == 0) {
        status = session_agree(session, no_labels(fault), fault);
    }
    if (status != OK) {
        return status;
    }
    *result = (struct evaluation_result){.loss = sum / (double)valid, .tokens = valid};
    return OK;
}
