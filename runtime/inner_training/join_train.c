/* inner_train: a member's own steps of a round, from the ranges it was given to an encoded
 * contribution. */
#include "base/clock.h"
#include "base/log.h"
#include "runtime/inner_training/join_order.h"
#include "runtime/inner_training/join_parts.h"
#include "runtime/train/loop.h"
#include "transport/site/stop.h"

/* A round's training: how long it may go on. */
struct training_window {
    const struct member_run *joining;
    const struct member_job *work;
    int64_t deadline_ns;
};

static bool is_over(const struct training_window *season) {
    return stop_requested() || clock_monotonic_ns() >= season->deadline_ns ||
           member_loop_is_stale(season->joining->loop, season->work);
}

static bool keep_on(void *context) {
    return !is_over(context);
}

/* ---- time ---- */

static double median_step(const struct member_run *joining) {
    double sorted[STEP_TIMES_MAX];
    int count = joining->step_count < STEP_TIMES_MAX ? (int)joining->step_count : STEP_TIMES_MAX;
    for (int i = 0; i < count; i++) {
        double value = joining->step_seconds[i];
        int at = i;
        for (; at > 0 && sorted[at - 1] > value; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = value;
    }
    return count == 0 ? 0 : sorted[count / 2];
}

static void note_time(struct member_run *joining, double seconds) {
    joining->step_seconds[joining->step_count++ % STEP_TIMES_MAX] = seconds;
    double ms = 1e3 * median_step(joining);
    struct timing_measured measured = {.step_ms = ms < 1 ? 1 : (uint32_t)ms};
    member_loop_set_measured(joining->loop, &measured);
}

/* Whether one more step can be done and encoded in time; the first one is always tried. */
static bool has_time(const struct training_window *season) {
    const struct member_run *joining = season->joining;
    double left = (double)(season->deadline_ns - clock_monotonic_ns()) * 1e-9;
    return left > median_step(joining) + joining->encode_seconds;
}

/* ---- steps ---- */

/* The ledger says how far the run is; the moments have seen the own steps only. */
static struct step_schedule pace_of(const struct member_run *joining,
                                    const struct member_job *work) {
    const struct run *run = &joining->session.run;
    int64_t inner = joining->at.inner_steps;
    int64_t last = run->swarm_inner_steps - 1; /* after an aborted round there may be more */
    int64_t step = (int64_t)work->commits * run->swarm_inner_steps + (inner < last ? inner : last);
    return (struct step_schedule){
        .learning_rate = settings_learning_rate(run, step < run->steps ? step : run->steps - 1),
        .updates = joining->at.updates};
}

static int64_t next_windows(struct member_run *joining, struct assignment_position *place) {
    const struct run *run = &joining->session.run;
    int64_t rows = run->batch_tokens / run->sequence;
    int64_t count = 0;
    while (count < rows &&
           assignment_next(&joining->share, &joining->order, place, &joining->windows[count])) {
        count++;
    }
    return count;
}

/* A step whose gradients are not finite happens, rarely, to healthy runs; a row of them is a run
 * that has diverged. */
static enum status note_skipped(struct member_run *joining, bool skipped, struct fault *fault) {
    struct training_position *at = &joining->at;
    at->skipped_in_row = skipped ? at->skipped_in_row + 1 : 0;
    if (at->skipped_in_row == 1) {
        log_line(LOG_WARNING,
                 "step %lld of round %u: gradients are not finite; nothing was updated",
                 (long long)at->inner_steps, at->round + 1);
    }
    return at->skipped_in_row < SKIPPED_IN_ROW_MAX
               ? OK
               : fault_set(fault, STATUS_FAILED, joining->manifest.name,
                           "ask the swarm's operator for a lower optimizer.lr",
                           "the run has diverged: gradients were not finite in %d steps in a row",
                           SKIPPED_IN_ROW_MAX);
}

/* One step behind *place. *went_on is false when there was nothing left, or no time. */
static enum status take_step(struct training_window *season, struct member_run *joining,
                             struct assignment_position *place, bool *went_on,
                             struct fault *fault) {
    struct assignment_position from = *place;
    struct assignment_position to = *place;
    const struct lockstep_command order = {.kind = COMMAND_STEP,
                                           .windows = next_windows(joining, &to),
                                           .pace = pace_of(joining, season->work)};
    *went_on = false;
    if (order.windows == 0) {
        return OK;
    }
    int64_t begin_ns = clock_monotonic_ns();
    enum status status = lockstep_do_while(joining, &order, keep_on, season, fault);
    if (status != OK) {
        return status == STATUS_STOPPED ? OK : status;
    }
    const struct step_result result = joining->stepped;
    note_time(joining, (double)(clock_monotonic_ns() - begin_ns) * 1e-9);
    assignment_mark_trained(&joining->share, &from, &to, result.skipped ? 0 : result.tokens);
    joining->at.inner_steps++;
    joining->at.updates += !result.skipped;
    joining->at.loss_sum += result.loss * (double)result.tokens;
    joining->at.loss_tokens += result.tokens;
    *place = to;
    *went_on = true;
    return note_skipped(joining, result.skipped, fault);
}

/* ---- the contribution ---- */

/* Weights that are not finite are given up, with what made them so. */
static enum status give_up(struct member_run *joining, uint32_t round, struct fault *fault) {
    log_line(LOG_WARNING,
             "round %u: weights are not finite; they are dropped, and nothing is contributed",
             round);
    enum status status = inner_reset(joining, fault);
    if (status == OK) {
        status = lockstep_do_plain(joining, COMMAND_RESET_MOMENTS, fault);
    }
    joining->at.updates = 0;
    return status;
}

/* The contribution as it stands, and the tokens that it counts for. */
static enum status encode(struct member_run *joining, uint32_t round, uint64_t *tokens,
                          struct fault *fault) {
    int64_t begin_ns = clock_monotonic_ns();
    enum status status = lockstep_do_plain(joining, COMMAND_GATHER, fault);
    if (status != OK) {
        return status;
    }
    bool finite = replica_encode(&joining->replica, joining->hashes);
    joining->encode_seconds = (double)(clock_monotonic_ns() - begin_ns) * 1e-9;
    joining->at.encoded_round = round;
    *tokens = finite ? (uint64_t)joining->share.tokens : 0;
    return finite ? OK : give_up(joining, round, fault);
}

/* Weights of a device that failed meanwhile are told to nobody. */
static enum status declare(struct member_run *joining, const struct member_job *work,
                           struct fault *fault) {
    struct staging staging = session_staging(&joining->session);
    struct fault unwritten;
    struct event event = {.kind = EVENT_TRAINED, .round = work->round, .hashes = joining->hashes};
    enum status status = encode(joining, work->round, &event.tokens, fault);
    if (status == OK) {
        status = program_failure(&joining->session.bound, fault);
    }
    if (status != OK) {
        return status;
    }
    if (round_record_declared(&joining->record, work->round, &staging, &unwritten) != OK) {
        member_log_disk(joining, &unwritten);
    }
    member_loop_answer(joining->loop, &event);
    return OK;
}

enum status inner_train(struct member_run *joining, const struct member_job *work,
                        struct fault *fault) {
    struct training_window season = {.joining = joining,
                                     .work = work,
                                     .deadline_ns = clock_monotonic_ns() +
                                                    (int64_t)work->deadline_ms * 1000000};
    struct assignment_position place = {0};
    bool went_on = true;
    enum status status = OK;
    joining->at.encoded_round = 0;
    if (!assignment_set(&joining->share, work->ranges, work->range_count)) {
        status = inner_reset(joining, fault); /* what was trained is somebody else's now */
    }
    while (status == OK && went_on && !is_over(&season) && has_time(&season)) {
        status = take_step(&season, joining, &place, &went_on, fault);
    }
    if (status == OK && !member_loop_is_stale(joining->loop, work)) {
        status = declare(joining, work, fault);
    }
    return status;
}
