#include "runtime/train/loop.h"

#include "base/clock.h"
#include "base/log.h"
#include "build_config.h"
#include "transport/site/stop.h"

#include <math.h>
#include <stdio.h>

static double seconds_since(int64_t begin_ns) {
    return (double)(clock_monotonic_ns() - begin_ns) * 1e-9;
}

/* Asked between microbatches once a stop is wanted: is there time for the rest of the step and the
 * snapshot after it? */
struct patience {
    const struct training *training;
    int64_t microbatches_left;
    int64_t begin_ns;
};

static bool keep_on(void *context) {
    struct patience *patience = context;
    const struct training *training = patience->training;
    int64_t left = patience->microbatches_left--;
    if (!stop_requested()) {
        return true;
    }
    double used = seconds_since(stop_requested_ns());
    double wanted = (double)left * training->microbatch_seconds + training->save_seconds;
    return used + wanted <= training->session.run.stop_within_s;
}

static bool is_not_stopped(void *context) {
    (void)context;
    return !stop_requested();
}

static bool is_power_of_ten(int64_t count) {
    while (count % 10 == 0 && count > 0) {
        count /= 10;
    }
    return count == 1;
}

/* A step whose gradients are not finite happens, rarely, to healthy runs; a row of them is a run
 * that has diverged and would only burn time. */
static enum status note_skipped(struct training *training, bool skipped, struct fault *fault) {
    training->skipped_in_row = skipped ? training->skipped_in_row + 1 : 0;
    training->skipped += skipped;
    if (skipped && session_is_rank0(&training->session) && is_power_of_ten(training->skipped)) {
        log_line(LOG_WARNING,
                 "step %lld: gradients are not finite; nothing was updated (%lld such %s so far)",
                 (long long)training->step, (long long)training->skipped,
                 training->skipped == 1 ? "step" : "steps");
    }
    if (training->skipped_in_row < SKIPPED_IN_ROW_MAX) {
        return OK;
    }
    char place[NAME_BYTES];
    snprintf(place, sizeof place, "step %lld", (long long)training->step);
    (void)fault_set(fault, STATUS_FAILED, place,
                    "lower optimizer.lr and start with --fresh, or check data.train",
                    "the run has diverged: gradients were not finite in %d steps in a row",
                    SKIPPED_IN_ROW_MAX);
    return session_agree(&training->session, STATUS_FAILED, fault); /* all have counted them */
}

static enum status save(struct training *training, struct fault *fault) {
    if (training->saved_step == training->step) {
        return OK;
    }
    struct snapshot_value values[1 + FINGERPRINT_VALUES] = {
        {.name = "cursor", .value = (uint64_t)training->cursor}};
    fingerprint_values(&training->fingerprint, values + 1);
    struct snapshot_state state = {.step = training->step,
                                   .seed = (uint64_t)training->session.run.seed,
                                   .values = values,
                                   .value_count = ARRAY_COUNT(values)};
    struct staging staging = session_staging(&training->session);
    int64_t begin_ns = clock_monotonic_ns();
    program_run(&training->session.bound, SEGMENT_SNAPSHOT);
    enum status status = snapshot_save(&training->outputs.writer, &state, &staging, fault);
    if (status == OK) {
        training->saved_step = training->step;
        training->save_seconds = seconds_since(begin_ns);
        progress_line(&training->progress, "step %lld  snapshot in %s, %.2f s",
                      (long long)training->step, training->session.run.snapshot_folder,
                      training->save_seconds);
    }
    return status;
}

/* Nothing that a failed device holds is worth saving. */
static enum status tell_saved(const struct training *training, enum status status,
                              struct fault *fault) {
    if (training->saved_step < 0) {
        snprintf(fault->remedy, sizeof fault->remedy, "start again: there is no snapshot yet");
    } else {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "start again: it goes on from the snapshot of step %lld",
                 (long long)training->saved_step);
    }
    return status;
}

/* Data that were good when the run began and are not any more, once steps are done: no matter of
 * bad input, which changes nothing, but a failure. What was reached is saved. */
static enum status fail_of_data(struct training *training, enum status status,
                                struct fault *fault) {
    struct session *session = &training->session;
    struct fault unsaved;
    if (program_failure(&session->bound, &unsaved) != OK) {
        return tell_saved(training, status, fault);
    }
    bool of_data = status == STATUS_INPUT || status == STATUS_FAILED;
    if (!of_data || training->step == training->first_step) {
        return status;
    }
    if (save(training, &unsaved) != OK && session_is_rank0(session)) {
        log_line(LOG_ERROR, "%s: %s", unsaved.place, unsaved.reason);
    }
    fault->status = STATUS_FAILED;
    return session_agree(session, STATUS_FAILED, fault); /* as all know it already */
}

static enum status take_step(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    int64_t microbatches = session->program.schedule.options.accumulation;
    struct patience patience = {.training = training, .microbatches_left = microbatches};
    struct step_source source = {.data = &training->train,
                                 .seed = (uint64_t)session->run.seed,
                                 .keep_on = keep_on,
                                 .context = &patience};
    struct step_result result;
    int64_t begin_ns = clock_monotonic_ns();
    step_trace_before(session, &training->trace, training->step + 1);
    enum status status =
        step_from_data(session, &source, training->step, &training->cursor, &result, fault);
    if (status != OK) {
        return fail_of_data(training, status, fault);
    }
    double seconds = seconds_since(begin_ns);
    training->microbatch_seconds = seconds / (double)microbatches;
    training->loss = result.loss;
    training->step++;
    metrics_step(&training->metrics, training->step, &result, seconds);
    const struct progress_at at = {
        .step = training->step, .until = training->until, .steps = session->run.steps};
    progress_step(&training->progress, &at, &result, seconds);
    return note_skipped(training, result.skipped, fault);
}

/* A line about the memory of every rank. */
static enum status note_memory(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    const struct rank_memory own = metrics_own_memory(session);
    enum status status = OK;
    training->memories[0] = own;
    if (session->site != NULL) {
        status = site_exchange(session->site, &own, sizeof own, training->memories, fault);
    }
    if (status == OK) {
        metrics_memory(&training->metrics, session, training->memories);
    }
    return status;
}

static enum status evaluate(struct training *training, struct fault *fault) {
    struct session *session = &training->session;
    if (training->validation.file_count == 0 || training->evaluated_step == training->step) {
        return OK;
    }
    struct step_source source = {.data = &training->validation, .keep_on = is_not_stopped};
    int64_t rows = settings_eval_rows(&session->run);
    struct evaluation_result result;
    enum status status = evaluate_data(session, &source, rows, &result, fault);
    if (status != OK) {
        return fail_of_data(training, status, fault);
    }
    training->evaluated_step = training->step;
    metrics_eval(&training->metrics, training->step, result.loss);
    progress_line(&training->progress, "step %lld  validation loss %.4f  perplexity %.2f",
                  (long long)training->step, plain_nan(result.loss), plain_nan(exp(result.loss)));
    return note_memory(training, fault);
}

static bool every(int64_t period, int64_t step) {
    return period > 0 && step % period == 0;
}

static enum status work_after_step(struct training *training, struct fault *fault) {
    const struct run *run = &training->session.run;
    enum status status = OK;
    if (every(run->snapshot_every, training->step) && training->skipped_in_row == 0) {
        status = save(training, fault);
    }
    if (status == OK && every(run->eval_every, training->step) && training->step < run->steps) {
        status = evaluate(training, fault);
    }
    if (status != OK) {
        return status;
    }
    /* A signal reaches one rank before another: all stop after the same step. */
    if (stop_requested()) {
        status = fault_set(fault, STATUS_STOPPED, "run", NULL, "asked to stop");
    }
    return session_agree(&training->session, status, fault);
}

static enum status run_steps(struct training *training, struct fault *fault) {
    enum status status = OK;
    while (training->step < training->until && status == OK) {
        status = take_step(training, fault);
        step_trace_after(&training->session, &training->trace, training->step,
                         status != OK || training->step == training->until);
        if (status == OK) {
            status = work_after_step(training, fault);
        }
    }
    return status;
}

/* What is done once no more steps are: save whatever was reached; unless asked to stop also
 * evaluate; after the last step export. */
static enum status conclude(struct training *training, bool finished, bool stopped,
                            struct fault *fault) {
    struct staging staging = session_staging(&training->session);
    enum status status = save(training, fault);
    if (status == OK && !stopped) {
        status = evaluate(training, fault);
    }
    if (status == OK && finished) {
        status = weights_save_run(&training->outputs.export, &staging, fault);
    }
    if (status == OK && finished) {
        progress_line(&training->progress, "model written to %s", training->outputs.export.folder);
    }
    return status;
}

enum status training_run(struct training *training, struct fault *fault) {
    const struct run *run = &training->session.run;
    bool pauses = run->pause_at > 0 && run->pause_at < run->steps;
    training->until = pauses ? run->pause_at : run->steps;
    training->first_step = training->step;
    progress_init(&training->progress, &training->session);
    metrics_start(&training->metrics, &training->session, SKEP_VERSION);
    program_seal(&training->session.bound);
    if (training->step >= training->until) {
        log_line(LOG_INFO, "step %lld of %lld is reached already", (long long)training->step,
                 (long long)run->steps);
    }
    enum status status = run_steps(training, fault);
    if (training->skipped > 0 && session_is_rank0(&training->session)) {
        log_line(LOG_WARNING, "%lld steps updated nothing, as their gradients were not finite",
                 (long long)training->skipped);
    }
    if (status != OK && status != STATUS_STOPPED) {
        return status;
    }
    bool finished = status == OK && !pauses;
    enum status concluded = conclude(training, finished, status == STATUS_STOPPED, fault);
    if (concluded != OK && concluded != STATUS_STOPPED) {
        return concluded;
    }
    enum status noted = note_memory(training, fault);
    if (noted != OK) {
        return noted;
    }
    metrics_end(&training->metrics, finished && concluded == OK);
    return finished ? concluded : STATUS_STOPPED;
}
