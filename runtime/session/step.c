#include "runtime/session/step.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "runtime/session/batch.h"
#include "transport/site/stop.h"

struct step_schedule step_schedule_at(const struct session *session, int64_t step) {
    const struct settings *settings = &session->settings;
    return (struct step_schedule){.learning_rate = settings_learning_rate(settings, step),
                                  .weight_decay = settings->weight_decay,
                                  .betas = settings->betas,
                                  .products = decay_products_of(settings->betas, step),
                                  .updates = step};
}

/* Returns the seed of the random bits of rounding. It is the same on every rank, and is reproduced
 * when a run resumes from a snapshot. */
static uint32_t rounding_seed(const struct settings *settings, int64_t updates) {
    uint32_t words[4];
    random_block(random_key((uint64_t)settings->seed, "stochastic rounding"), (uint64_t)updates,
                 words);
    return words[0];
}

int64_t step_begin(struct session *session, const struct step_schedule *schedule,
                   int64_t own_valid) {
    ASSERT(schedule->updates >= 0 && own_valid >= 0);
    struct step_scalars *scalars = program_scalars(&session->bound);
    const struct decay_products with_step =
        decay_products_add_update(&schedule->products, schedule->betas);
    const struct number_pair products = decay_products_values(&with_step);
    memset(scalars, 0, sizeof *scalars);
    scalars->learning_rate = (float)schedule->learning_rate;
    scalars->beta1 = (float)schedule->betas.first;
    scalars->beta2 = (float)schedule->betas.second;
    scalars->weight_decay = (float)schedule->weight_decay;
    scalars->mean_share = (float)schedule->mean_share;
    scalars->bias_correction_1 = (float)(1 - products.first);
    scalars->bias_correction_2 = (float)(1 - products.second);
    scalars->noise = rounding_seed(&session->settings, schedule->updates);
    scalars->valid_tokens = own_valid;
    scalars->loss_scale = own_valid > 0 ? (float)(1.0 / (double)own_valid) : 0;
    program_execute_segment(&session->bound, SEGMENT_BEGIN);
    return scalars->valid_tokens; /* sum over all ranks, computed by the begin segment */
}

struct step_result step_finish(struct session *session, const struct step_schedule *schedule,
                               int64_t valid_tokens) {
    program_execute_segment(&session->bound, SEGMENT_FINISH);
    const struct step_scalars *scalars = program_scalars(&session->bound);
    return (struct step_result){.loss = scalars->loss_sum / (double)valid_tokens,
                                .gradient_norm = scalars->gradient_norm,
                                .learning_rate = schedule->learning_rate,
                                .tokens = valid_tokens,
                                .skipped = scalars->skip != 0};
}

/* ---- limits ---- */

/* Whether the remaining work is expected to end within stop_within_s of the request to stop. */
static bool ends_in_time(const struct step_limits *limits, int64_t microbatches_left) {
    double used_s = clock_seconds_since(stop_requested_ns());
    double left_s = (double)microbatches_left * limits->microbatch_s + limits->final_s;
    return limits->stop_within_s > 0 && used_s + left_s <= limits->stop_within_s;
}

bool step_should_continue(struct step_limits *limits) {
    if (limits == NULL) {
        return true;
    }
    int64_t left = limits->microbatches_left--;
    if (limits->should_continue != NULL && !limits->should_continue(limits->context)) {
        return false;
    }
    if (limits->deadline_ns != 0 && clock_monotonic_ns() >= limits->deadline_ns) {
        return false;
    }
    return !stop_requested() || ends_in_time(limits, left);
}

static enum status stopped_fault(struct fault *fault) {
    return fault_set(fault, STATUS_STOPPED, "run", NULL, "stopped, as requested by a signal");
}

/* ---- rows ---- */

/* The rows of a step: either windows that the caller has chosen, or windows of the shuffled
 * stream. */
struct step_rows {
    const struct token_data *data;
    const int64_t *windows; /* [count]: chosen windows; NULL: rows come from the shuffled stream */
    uint64_t seed;          /* seed of the shuffled stream */
    int64_t cursor;         /* position of the next row in the shuffled stream */
    int64_t count;          /* number of rows of the step */
};

static int64_t window_of_row(struct step_rows *rows, int64_t row) {
    ASSERT(row < rows->count);
    return rows->windows != NULL ? rows->windows[row]
                                 : data_next_window(rows->data, rows->seed, &rows->cursor);
}

static void *raw_tokens_buffer(const struct session *session) {
    return program_extent_address(&session->bound, session->program.schedule.host.raw_tokens);
}

static enum status no_labels_fault(struct fault *fault) {
    return fault_set(fault, STATUS_INPUT, "data.documents",
                     "set data.documents to the id of the token that ends each document",
                     "all tokens of the step are document separators, so it has no loss");
}

int64_t step_rows_at_once(const struct session *session) {
    return session->settings.microbatch * session->bound.ranks.size[AXIS_WORLD];
}

bool step_row_is_own(const struct session *session, int64_t row) {
    int64_t part = row / session->settings.microbatch;
    return part % session->bound.ranks.size[AXIS_WORLD] == session->bound.ranks.index[AXIS_WORLD];
}

/* Loads this rank's rows among the `count` rows from `first`. The other rows of its microbatch get
 * no labels. */
static enum status load_rows(struct session *session, struct step_rows *rows, int64_t first,
                             int64_t count, struct fault *fault) {
    int64_t loaded = 0;
    for (int64_t row = first; row < first + count; row++) {
        int64_t window = window_of_row(rows, row);
        if (!step_row_is_own(session, row)) {
            continue;
        }
        struct token_row into = batch_row(session, loaded++);
        TRY(data_read_window(rows->data, window, raw_tokens_buffer(session), &into, fault));
    }
    batch_clear_rows(session, loaded);
    return OK;
}

/* rows counted between two tests for a stop request: a few milliseconds of work */
enum { ROWS_PER_STOP_TEST = 1 << 16 };

/* Counts the valid labels of this rank's rows. The labels are counted before the first backward
 * pass, because the loss of the first microbatch is already divided by the number of labels. `rows`
 * is passed by value, so the position in the stream does not change. */
static enum status count_valid_labels(struct session *session, struct step_rows rows,
                                      int64_t *valid, struct fault *fault) {
    int64_t sum = 0;
    for (int64_t row = 0; row < rows.count; row++) {
        if (row % ROWS_PER_STOP_TEST == ROWS_PER_STOP_TEST - 1 && stop_requested()) {
            return stopped_fault(fault);
        }
        int64_t window = window_of_row(&rows, row);
        int64_t labels = 0;
        if (step_row_is_own(session, row)) {
            TRY(data_count_valid_labels(rows.data, window, raw_tokens_buffer(session), &labels,
                                        fault));
        }
        sum += labels;
    }
    *valid = sum;
    return OK;
}

/* Counts the valid labels and executes the begin segment; *valid is the number of labels of all
 * ranks. The ranks agree on the outcome of counting only if it can fail: for rows of a list of
 * windows, with a separator token, for which counting reads files, and with so many rows that it
 * tests for a stop request. */
static enum status begin_step(struct session *session, const struct step_rows *rows,
                              const struct step_schedule *schedule, int64_t *valid,
                              struct fault *fault) {
    int64_t own_valid = 0;
    enum status status = count_valid_labels(session, *rows, &own_valid, fault);
    if (rows->windows != NULL || rows->data->separator != DATA_NO_SEPARATOR ||
        rows->count >= ROWS_PER_STOP_TEST) {
        status = session_agree(session, status, fault);
    }
    TRY(status);
    *valid = step_begin(session, schedule, own_valid);
    return *valid > 0 ? OK : session_agree(session, no_labels_fault(fault), fault);
}

/* ---- steps ---- */

static uint64_t received_bytes(const struct session *session) {
    const struct communicator *communicator = session->bound.communicator;
    uint64_t sum = 0;
    for (int kind = 0; communicator != NULL && kind < COLLECTIVE_KIND_COUNT; kind++) {
        sum += communicator->received_bytes[kind];
    }
    return sum;
}

/* *Executes one step. rows->cursor advances even when the step fails. */
static enum status execute_step(struct session *session, struct step_rows *rows,
                                const struct step_schedule *schedule, struct step_limits *limits,
                                struct step_result *result, struct fault *fault) {
    uint64_t received = received_bytes(session);
    int64_t valid = 0;
    TRY(begin_step(session, rows, schedule, &valid, fault));
    for (int64_t done = 0; done < rows->count; done += step_rows_at_once(session)) {
        int64_t count = min_i64(rows->count - done, step_rows_at_once(session));
        enum status status = step_should_continue(limits)
                                 ? load_rows(session, rows, done, count, fault)
                                 : stopped_fault(fault);
        TRY(session_agree(session, status, fault));
        program_execute_segment(&session->bound, SEGMENT_MICROBATCH);
    }
    struct step_result finished = step_finish(session, schedule, valid);
    TRY(program_failure(&session->bound, fault));
    finished.received_bytes = received_bytes(session) - received;
    *result = finished;
    return OK;
}

static struct step_rows rows_of_stream(const struct session *session,
                                       const struct step_source *source, int64_t cursor) {
    const struct settings *settings = &session->settings;
    return (struct step_rows){.data = source->data,
                              .seed = source->seed,
                              .cursor = cursor,
                              .count = settings->batch_tokens / settings->sequence_tokens};
}

enum status step_check_data(struct session *session, const struct step_source *source,
                            int64_t cursor, struct fault *fault) {
    struct step_rows rows = rows_of_stream(session, source, cursor);
    struct token_row into = batch_row(session, 0);
    for (int64_t row = 0; row < rows.count; row++) {
        int64_t window = window_of_row(&rows, row);
        if (stop_requested()) {
            return stopped_fault(fault);
        }
        if (step_row_is_own(session, row)) {
            TRY(data_read_window(rows.data, window, raw_tokens_buffer(session), &into, fault));
        }
    }
    return OK;
}

enum status step_execute_from_stream(struct session *session, const struct step_source *source,
                                     int64_t step, int64_t *cursor, struct step_result *result,
                                     struct fault *fault) {
    const struct step_schedule schedule = step_schedule_at(session, step);
    struct step_rows rows = rows_of_stream(session, source, *cursor);
    TRY(execute_step(session, &rows, &schedule, source->limits, result, fault));
    *cursor = rows.cursor;
    return OK;
}

enum status step_execute_on_windows(struct session *session, const struct step_windows *step,
                                    struct step_result *result, struct fault *fault) {
    ASSERT(step->count > 0);
    struct step_rows rows = {.data = step->data, .windows = step->windows, .count = step->count};
    return execute_step(session, &rows, &step->schedule, step->limits, result, fault);
}

/* ---- evaluation ---- */

double evaluate_batch(struct session *session, int64_t own_valid, int64_t *valid) {
    struct step_scalars *scalars = program_scalars(&session->bound);
    memset(scalars, 0, sizeof *scalars);
    scalars->valid_tokens = own_valid;
    program_execute_segment(&session->bound, SEGMENT_EVALUATE);
    *valid += scalars->valid_tokens;
    return scalars->loss_sum;
}

/* Loads this rank's windows among the `count` windows from `first`, in the order of the files, and
 * adds the number of their valid labels to *valid. */
static enum status load_windows_in_order(struct session *session, const struct token_data *data,
                                         int64_t first, int64_t count, int64_t *valid,
                                         struct fault *fault) {
    int64_t loaded = 0;
    for (int64_t row = first; row < first + count; row++) {
        if (!step_row_is_own(session, row)) {
            continue;
        }
        struct token_row into = batch_row(session, loaded++);
        TRY(data_read_window(data, row, raw_tokens_buffer(session), &into, fault));
        for (int64_t t = 0; t < data->sequence; t++) {
            *valid += into.labels[t] != LABEL_IGNORED;
        }
    }
    batch_clear_rows(session, loaded);
    return OK;
}

/* Computes the first `wanted` windows, and adds their losses to *sum and the number of their valid
 * labels to *valid. */
static enum status evaluate_windows(struct session *session, const struct step_source *source,
                                    int64_t wanted, double *sum, int64_t *valid,
                                    struct fault *fault) {
    for (int64_t done = 0; done < wanted; done += step_rows_at_once(session)) {
        int64_t count = min_i64(wanted - done, step_rows_at_once(session));
        int64_t own_valid = 0;
        enum status status =
            step_should_continue(source->limits)
                ? load_windows_in_order(session, source->data, done, count, &own_valid, fault)
                : stopped_fault(fault);
        TRY(session_agree(session, status, fault));
        *sum += evaluate_batch(session, own_valid, valid);
        activity_advance((uint64_t)count);
    }
    return program_failure(&session->bound, fault);
}

enum status evaluate_data(struct session *session, const struct step_source *source, int64_t rows,
                          struct evaluation_result *result, struct fault *fault) {
    int64_t windows = source->data->window_count;
    int64_t wanted = rows == 0 ? windows : min_i64(rows, windows);
    double sum = 0;
    int64_t valid = 0;
    activity_begin("evaluating", (uint64_t)wanted);
    enum status status = evaluate_windows(session, source, wanted, &sum, &valid, fault);
    activity_end(true);
    TRY(status);
    if (valid == 0) {
        return session_agree(session, no_labels_fault(fault), fault);
    }
    *result = (struct evaluation_result){.loss = sum / (double)valid, .tokens = valid};
    return OK;
}
