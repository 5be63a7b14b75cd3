/* inner_train: trains a member on its assigned samples in a round, and encodes the contribution. */
#include "base/clock.h"
#include "base/log.h"
#include "base/statistics.h"
#include "runtime/inner_training/lockstep.h"
#include "runtime/inner_training/member_run_state.h"
#include "runtime/swarm_setup/member_rates.h"

#include <stdio.h>

/* The limits under which a member trains in one round. */
struct training_period {
    const struct member_run *member;
    const struct member_job *job;
    struct step_limits limits;
};

static bool job_is_current(void *context) {
    const struct training_period *period = context;
    return !mailbox_is_job_stale(member_loop_mailbox(period->member->loop), period->job->kind);
}

/* ---- time ---- */

static double median_step_s(const struct inner_state *inner) {
    int count = inner->step_count < STEP_TIMES_MAX ? (int)inner->step_count : STEP_TIMES_MAX;
    return count == 0 ? 0 : median_f64(inner->step_seconds, count);
}

static void record_step_time(struct member_run *member, double seconds) {
    struct inner_state *inner = &member->inner;
    inner->step_seconds[inner->step_count++ % STEP_TIMES_MAX] = seconds;
    double ms = 1e3 * median_step_s(inner);
    struct timing_measured measured = {.step_ms = ms < 1 ? 1 : (uint32_t)ms};
    mailbox_set_measured_times(member_loop_mailbox(member->loop), &measured);
}

/* Returns whether the time for which the tracker waits for this member is enough for one more step
 * and the encoding. The first step is always tried, because its duration is not known. */
static bool has_time_left(const struct training_period *period) {
    const struct inner_state *inner = &period->member->inner;
    if (mailbox_is_training_ended(member_loop_mailbox(period->member->loop), period->job->round)) {
        return false;
    }
    double left_s = ns_to_seconds(period->limits.deadline_ns - clock_monotonic_ns());
    return left_s > median_step_s(inner) + inner->encode_seconds;
}

/* ---- steps ---- */

/* Returns the schedule of the next step. Its step number and the number of members come from the
 * ledger, but the number of updates counts only this member's steps. After an aborted round a
 * member may execute more than inner_steps steps. */
static struct step_schedule step_schedule_of_job(const struct member_run *member,
                                                 const struct member_job *job) {
    const struct settings *settings = &member->trainer.session.settings;
    int64_t inner = member->position.inner_steps;
    int64_t last = settings->swarm_inner_steps - 1;
    int64_t step =
        (int64_t)job->commits * settings->swarm_inner_steps + (inner < last ? inner : last);
    const struct member_adamw_rates rates = member_adamw_rates_of(settings, job->members);
    return (struct step_schedule){
        .learning_rate =
            settings_learning_rate(settings, step < settings->steps ? step : settings->steps - 1),
        .weight_decay = rates.weight_decay,
        .mean_share = rates.mean_share,
        .betas = rates.betas,
        .products = member->position.products,
        .updates = member->position.updates};
}

static int64_t select_next_windows(struct member_run *member,
                                   struct assignment_position *position) {
    const struct settings *settings = &member->trainer.session.settings;
    struct inner_state *inner = &member->inner;
    int64_t rows = settings->batch_tokens / settings->sequence_tokens;
    int64_t count = 0;
    while (count < rows && assignment_next_window(&inner->assignment, &inner->order, position,
                                                  &inner->windows[count])) {
        count++;
    }
    return count;
}

static enum status add_step_to_position(struct member_run *member,
                                        const struct step_schedule *schedule, struct fault *fault) {
    struct training_position *position = &member->position;
    const struct step_result *result = &member->lockstep.step_result;
    char step[NAME_BYTES];
    position->inner_steps++;
    if (!result->skipped) {
        position->updates++;
        position->products = decay_products_add_update(&position->products, schedule->betas);
    }
    position->loss_sum += result->loss * (double)result->tokens;
    position->loss_tokens += result->tokens;
    snprintf(step, sizeof step, "step %lld of round %u", (long long)position->inner_steps,
             position->round + 1);
    return trainer_count_skipped_step(
        &member->trainer, result->skipped, step, member->swarm.manifest.name,
        "ask the swarm's operator to start a swarm with a lower optimizer.lr", fault);
}

/* Executes the step at *position. Sets *continues to false when no samples or no time remain. */
static enum status train_step(struct training_period *period, struct member_run *member,
                              struct assignment_position *position, bool *continues,
                              struct fault *fault) {
    const struct assignment_position from = *position;
    struct assignment_position to = *position;
    const struct lockstep_command command = {.kind = COMMAND_STEP,
                                             .windows = select_next_windows(member, &to),
                                             .schedule = step_schedule_of_job(member, period->job)};
    *continues = false;
    if (command.windows == 0) {
        return OK;
    }
    int64_t begin_ns = clock_monotonic_ns();
    enum status status = lockstep_execute_within(member, &command, &period->limits, fault);
    if (status != OK) {
        return status == STATUS_STOPPED ? OK : status;
    }
    const struct step_result *result = &member->lockstep.step_result;
    const double seconds = clock_seconds_since(begin_ns);
    record_step_time(member, seconds);
    assignment_mark_trained(&member->inner.assignment, &from, &to,
                            result->skipped ? 0 : result->tokens);
    *position = to;
    *continues = true;
    TRY(add_step_to_position(member, &command.schedule, fault));
    member_log_step(member, period->job->round, result, seconds);
    return OK;
}

/* ---- the contribution ---- */

/* Discards weights that are not finite, and resets the moments, which caused them. */
static enum status discard_weights(struct member_run *member, uint32_t round, struct fault *fault) {
    log_line(LOG_WARNING,
             "round %u: training gave weights that are not finite; they are discarded, and this "
             "member contributes nothing to the round",
             round);
    TRY(inner_reset_weights(member, fault));
    return inner_reset_moments(member, fault);
}

/* Encodes the contribution and sets its root, its norm and the number of tokens that it was trained
 * on; the norm and the number of tokens are 0 if the weights are not finite. */
static enum status encode_contribution(struct member_run *member, struct event *event,
                                       struct fault *fault) {
    struct inner_state *inner = &member->inner;
    int64_t begin_ns = clock_monotonic_ns();
    TRY(lockstep_execute_kind(member, COMMAND_GATHER, fault));
    bool finite = replica_encode_contribution(&member->outer.replica);
    event->root = replica_declare_contribution(&member->outer.replica, &event->trained.norm);
    inner->encode_seconds = clock_seconds_since(begin_ns);
    member->position.encoded_round = event->round;
    if (!finite) {
        return discard_weights(member, event->round, fault);
    }
    event->trained.tokens = (uint64_t)inner->assignment.tokens;
    return OK;
}

/* Declares the contribution to the swarm, unless the device has failed. */
static enum status declare_contribution(struct member_run *member, const struct member_job *job,
                                        struct fault *fault) {
    struct staging staging = session_staging(&member->trainer.session);
    struct fault unwritten;
    struct event event = {.kind = EVENT_TRAINED, .round = job->round};
    TRY(encode_contribution(member, &event, fault));
    TRY(program_failure(&member->trainer.session.bound, fault));
    if (round_record_write_contribution(&member->outer.record, job->round, &staging, &unwritten) !=
        OK) {
        member_log_recording_state(member, job->round, &unwritten);
    }
    event.trained.samples = assignment_trained_samples(&member->inner.assignment);
    mailbox_post_answer(member_loop_mailbox(member->loop), &event);
    return OK;
}

/* Assigns the ranges of the job, and returns whether what this member has trained since its weights
 * were reset is a part of its contribution: all of it is assigned to this member, and not all steps
 * were skipped. If no step counts, training again shows whether the run has diverged. With a sparse
 * codec a commit without contributions leaves the state, so that nothing resets the weights. */
static bool can_resume_training(struct sample_assignment *assignment,
                                const struct member_job *job) {
    bool is_assigned = assignment_set_ranges(assignment, job->ranges, job->range_count);
    return is_assigned && (assignment->tokens > 0 || assignment->trained_count == 0);
}

enum status inner_train(struct member_run *member, const struct member_job *job,
                        struct fault *fault) {
    struct training_period period = {.member = member, .job = job};
    period.limits =
        (struct step_limits){.should_continue = job_is_current,
                             .context = &period,
                             .deadline_ns = clock_monotonic_ns() + job->time_left_ms * NS_PER_MS};
    struct assignment_position position = {0};
    bool continues = true;
    member->position.encoded_round = 0;
    if (!can_resume_training(&member->inner.assignment, job)) {
        TRY(inner_reset_weights(member, fault));
    }
    while (continues && step_should_continue(&period.limits) && has_time_left(&period)) {
        TRY(train_step(&period, member, &position, &continues, fault));
    }
    return mailbox_is_job_stale(member_loop_mailbox(member->loop), job->kind)
               ? OK
               : declare_contribution(member, job, fault);
}
