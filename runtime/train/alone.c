/* alone: executes the steps of a run that trains alone, the work between steps, and the end of the
 * run. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "runtime/train/train.h"
#include "transport/site/stop.h"

#include <stdio.h>
#include <string.h>

/* ---- snapshots ---- */

/* Adds to the fault of a failed save how many steps are lost with it. */
static void add_unsaved_steps(const struct training *training, struct fault *fault) {
    char valid[NAME_BYTES] = "";
    size_t length = strlen(fault->reason);
    if (training->saved_step >= 0) {
        snprintf(valid, sizeof valid, "; the snapshot of step %lld is complete",
                 (long long)training->saved_step);
    }
    if (training->step > max_i64(training->saved_step, 0)) {
        snprintf(fault->reason + length, sizeof fault->reason - length,
                 "; steps %lld to %lld are not saved%s",
                 (long long)max_i64(training->saved_step, 0) + 1, (long long)training->step, valid);
    }
}

static enum status save_snapshot(void *owner, struct fault *fault) {
    struct training *training = owner;
    struct trainer *trainer = &training->trainer;
    char moment[NAME_BYTES];
    if (training->saved_step == training->step) {
        return OK;
    }
    struct snapshot_value values[1 + FINGERPRINT_VALUE_COUNT] = {
        {.name = "cursor", .value = (uint64_t)training->cursor}};
    fingerprint_to_values(&training->fingerprint, values + 1);
    int64_t begin_ns = clock_monotonic_ns();
    enum status status =
        trainer_write_snapshot(trainer, training->step, values, ARRAY_COUNT(values), fault);
    if (status != OK) {
        add_unsaved_steps(training, fault);
        return status;
    }
    training->saved_step = training->step;
    training->save_seconds = clock_seconds_since(begin_ns);
    snprintf(moment, sizeof moment, "step %lld", (long long)training->step);
    trainer_log_snapshot(trainer, moment, training->save_seconds);
    return OK;
}

/* Sets the remedy for a failure of the device: the state of a failed device is not saved, so the
 * run resumes from the newest snapshot. */
static enum status set_resume_remedy(const struct training *training, enum status status,
                                     struct fault *fault) {
    if (training->saved_step < 0) {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "start the run again from the beginning: there is no snapshot yet");
    } else {
        snprintf(fault->remedy, sizeof fault->remedy,
                 "start again: the run resumes from the snapshot of step %lld",
                 (long long)training->saved_step);
    }
    return status;
}

/* Saves the last completed step after data became unreadable, and returns the status of the
 * failure: after the first step of this start STATUS_FAILED and not STATUS_INPUT, because after
 * invalid input nothing may have changed. */
static enum status handle_data_failure(struct training *training, enum status status,
                                       struct fault *fault) {
    struct session *session = &training->trainer.session;
    struct fault unsaved;
    if (program_failure(&session->bound, &unsaved) != OK) {
        return set_resume_remedy(training, status, fault);
    }
    bool of_data = status == STATUS_INPUT || status == STATUS_FAILED;
    if (!of_data || training->step == training->first_step) {
        return status;
    }
    if (save_snapshot(training, &unsaved) != OK && session_is_rank0(session)) {
        log_line(LOG_ERROR, "%s: %s", unsaved.subject, unsaved.reason);
    }
    fault->status = STATUS_FAILED;
    /* Every rank makes this call, because all ranks have the same `status`. */
    return session_agree(session, STATUS_FAILED, fault);
}

/* ---- steps ---- */

static enum status count_skipped_step(struct training *training, bool skipped,
                                      struct fault *fault) {
    char step[NAME_BYTES];
    snprintf(step, sizeof step, "step %lld", (long long)training->step);
    enum status status = trainer_count_skipped_step(
        &training->trainer, skipped, step, step,
        "lower optimizer.lr and start with --fresh, or check data.train", fault);
    /* All ranks have the same status, because they have counted the same steps. */
    return status == OK ? OK : session_agree(&training->trainer.session, status, fault);
}

/* Returns how many steps after `step` and up to `last` are multiples of `period`; 0 if `period` is
 * 0. */
static int64_t count_multiples(int64_t period, int64_t step, int64_t last) {
    return period > 0 ? last / period - step / period : 0;
}

/* Returns the expected seconds of an evaluation: the duration of the last one; before the first
 * one, a third of the time of steps over as many rows, because there is no backward pass. */
static double evaluation_seconds(const struct training *training) {
    const struct trainer *trainer = &training->trainer;
    const struct session *session = &trainer->session;
    const int64_t asked = settings_eval_rows(&session->settings);
    const int64_t all = trainer->validation.window_count;
    const int64_t rows = asked == 0 || asked > all ? all : asked;
    return training->evaluated_step > 0 ? training->evaluate_seconds
                                        : training->microbatch_seconds * (double)rows /
                                              (3 * (double)step_rows_at_once(session));
}

/* Returns the expected seconds of evaluations, saves and the export until this start ends. */
static double expected_seconds_between_steps(const struct training *training) {
    const struct trainer *trainer = &training->trainer;
    const struct settings *settings = &trainer->session.settings;
    /* the last step is always followed by an evaluation and a save */
    const int64_t last = training->until - 1;
    double seconds = training->save_seconds *
                     (double)(1 + count_multiples(settings->snapshot_every, training->step, last));
    if (trainer->validation.file_count > 0) {
        seconds += evaluation_seconds(training) *
                   (double)(1 + count_multiples(settings->eval_every, training->step, last));
    }
    if (training->until == settings->steps) {
        seconds += training->save_seconds * (double)trainer->outputs.export.bytes /
                   (double)trainer->outputs.writer.bytes;
    }
    return seconds;
}

static enum status execute_step(struct training *training, struct fault *fault) {
    struct trainer *trainer = &training->trainer;
    struct session *session = &trainer->session;
    int64_t microbatches = session->program.schedule.options.accumulation;
    struct step_limits limits = {.stop_within_s = session->settings.stop_within_s,
                                 .microbatch_s = training->microbatch_seconds,
                                 .final_s = training->save_seconds,
                                 .microbatches_left = microbatches};
    const struct step_source source = {
        .data = &trainer->train, .seed = (uint64_t)session->settings.seed, .limits = &limits};
    struct step_result result;
    int64_t begin_ns = clock_monotonic_ns();
    step_trace_begin_step(session, &training->trace, training->step + 1);
    enum status status = step_execute_from_stream(session, &source, training->step,
                                                  &training->cursor, &result, fault);
    if (status != OK) {
        return handle_data_failure(training, status, fault);
    }
    double seconds = clock_seconds_since(begin_ns);
    training->microbatch_seconds = seconds / (double)microbatches;
    training->step++;
    metrics_write_step(&trainer->metrics, training->step, &result, seconds);
    const struct progress_position at = {.step = training->step,
                                         .until = training->until,
                                         .steps = session->settings.steps,
                                         .other_s = expected_seconds_between_steps(training)};
    progress_show_step(&trainer->progress, &at, &result, seconds);
    return count_skipped_step(training, result.skipped, fault);
}

static enum status run_evaluation(void *owner, struct fault *fault) {
    struct training *training = owner;
    struct trainer *trainer = &training->trainer;
    if (trainer->validation.file_count == 0 || training->evaluated_step == training->step) {
        return OK;
    }
    struct step_limits limits = {0};
    struct evaluation_result result;
    int64_t begin_ns = clock_monotonic_ns();
    enum status status = trainer_evaluate(trainer, &limits, &result, fault);
    training->evaluate_seconds = clock_seconds_since(begin_ns);
    if (status != OK) {
        return handle_data_failure(training, status, fault);
    }
    training->evaluated_step = training->step;
    trainer_log_evaluation(trainer, training->step, result.loss);
    TRY(trainer_collect_memory_use(trainer, fault));
    metrics_write_memory(&trainer->metrics, &trainer->session, trainer->memories);
    return OK;
}

static bool is_due(int64_t period, int64_t step) {
    return period > 0 && step % period == 0;
}

static enum status evaluate_and_save_if_due(struct training *training, struct fault *fault) {
    struct trainer *trainer = &training->trainer;
    const struct settings *settings = &trainer->session.settings;
    enum status status = OK;
    if (is_due(settings->snapshot_every, training->step) && trainer->skipped_in_row == 0) {
        TRY(save_snapshot(training, fault));
    }
    if (is_due(settings->eval_every, training->step) && training->step < settings->steps) {
        TRY(run_evaluation(training, fault));
    }
    if (stop_requested()) {
        status = fault_set(fault, STATUS_STOPPED, "run", NULL, "stopped, as requested by a signal");
    }
    /* The ranks may receive a signal at different times. By agreement they all stop after the same
     * step. */
    return session_agree(&trainer->session, status, fault);
}

static enum status run_steps(struct training *training, struct fault *fault) {
    enum status status = OK;
    while (training->step < training->until && status == OK) {
        status = execute_step(training, fault);
        step_trace_end_step(&training->trainer.session, &training->trace, training->step,
                            status != OK || training->step == training->until);
        if (status == OK) {
            status = evaluate_and_save_if_due(training, fault);
        }
    }
    return status;
}

/* ---- the whole run ---- */

static enum status export_model(void *owner, struct fault *fault) {
    struct training *training = owner;
    return trainer_export(&training->trainer, fault);
}

static void log_skipped_steps(const struct trainer *trainer) {
    if (trainer->skipped > 0 && session_is_rank0(&trainer->session)) {
        log_line(LOG_WARNING, "skipped %lld %s with gradients that were not finite",
                 (long long)trainer->skipped, trainer->skipped == 1 ? "step" : "steps");
    }
}

/* Logs the length of the run, and what a crash would cost. */
static void log_run_length(const struct training *training) {
    const struct trainer *trainer = &training->trainer;
    const struct settings *settings = &trainer->session.settings;
    const int64_t last = training->until - 1;
    log_line(LOG_INFO, "%lld step%s of %lld tokens: %.3g passes over the data",
             (long long)settings->steps, settings->steps == 1 ? "" : "s",
             (long long)settings->batch_tokens, data_pass_count(settings, &trainer->train));
    if (trainer->train.short_count > 0) {
        log_line(LOG_INFO, "%d of the %d data files %s shorter than a row and %s no row: %s%s",
                 trainer->train.short_count, trainer->train.file_count,
                 trainer->train.short_count == 1 ? "is" : "are",
                 trainer->train.short_count == 1 ? "adds" : "add", trainer->train.short_path,
                 trainer->train.short_count == 1 ? "" : " and others");
    }
    if (training->step < last &&
        count_multiples(settings->snapshot_every, training->step, last) == 0) {
        log_line(
            LOG_INFO,
            "no snapshot is due before the end, so a crash loses all steps%s; set snapshot.every",
            training->step > 0 ? " since this start" : "");
    }
}

enum status training_run(struct training *training, struct fault *fault) {
    static const struct trainer_callbacks ACTS = {
        .save = save_snapshot, .evaluate = run_evaluation, .export_model = export_model};
    struct trainer *trainer = &training->trainer;
    const struct settings *settings = &trainer->session.settings;
    bool pauses = settings->pause_at > 0 && settings->pause_at < settings->steps;
    training->until = pauses ? settings->pause_at : settings->steps;
    training->first_step = training->step;
    training->has_started = true;
    trainer_seal(trainer);
    if (session_is_rank0(&trainer->session)) {
        log_run_length(training);
    }
    if (training->step >= training->until) {
        log_line(
            LOG_INFO, "the run is already at its last step, %lld of %lld; a larger %s extends it",
            (long long)training->step, (long long)settings->steps, pauses ? "pause_at" : "steps");
    }
    enum status status = run_steps(training, fault);
    log_skipped_steps(trainer);
    if (status != OK && status != STATUS_STOPPED) {
        return status;
    }
    bool finished = status == OK && !pauses;
    enum status concluded =
        trainer_conclude(trainer, &ACTS, training, finished, status == OK, fault);
    if (concluded != OK && concluded != STATUS_STOPPED) {
        return concluded;
    }
    TRY(trainer_collect_memory_use(trainer, fault));
    trainer_end_metrics(trainer, finished && concluded == OK);
    if (session_is_rank0(&trainer->session) && !(finished && concluded == OK)) {
        log_line(LOG_INFO, "stopped at step %lld of %lld; the same command resumes the run",
                 (long long)training->step, (long long)settings->steps);
    }
    return concluded == OK && !finished ? STATUS_STOPPED : concluded;
}
