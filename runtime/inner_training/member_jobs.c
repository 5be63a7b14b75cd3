/* member_jobs: executes the jobs that the network thread assigns to the compute thread of a
 * member. */
#include "base/log.h"
#include "runtime/inner_training/lockstep.h"
#include "runtime/inner_training/member_run_state.h"

#include <math.h>

/* ---- stored results ---- */

/* Returns a hash that identifies the results of an entry. Equal slices and sums have equal
 * hashes. */
static struct hash hash_results(const struct entry *entry) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, &entry->round, sizeof entry->round);
    for (uint32_t s = 0; s < entry->slice_count; s++) {
        const struct entry_slice *slice = &entry->slices[s];
        hash_add(&state, &slice->epoch, sizeof slice->epoch);
        hash_add(&state, &slice->contributors, sizeof slice->contributors);
        hash_add(&state, slice->hash.bytes, HASH_BYTES);
    }
    return hash_end(&state);
}

static enum status store_results(struct outer_state *outer, const struct entry *entry,
                                 struct fault *fault) {
    struct hash results = hash_results(entry);
    if (hash_equal(&results, &outer->stored_results_hash)) {
        return OK;
    }
    TRY(member_store_add_results(&outer->store, entry, &outer->replica, fault));
    outer->stored_results_hash = results;
    return OK;
}

/* Reports to the network thread that the job failed. The network thread will assign the job again
 * later. */
static void report_failed_job(struct member_run *member, const struct member_job *job,
                              enum event_kind kind, const struct fault *rejected) {
    struct event event = {.kind = kind,
                          .job = job->job,
                          .write_outcome = WRITE_FAILED,
                          .root = member->outer.replica.root};
    member_log_disk_state(member, rejected);
    mailbox_post_answer(member_loop_mailbox(member->loop), &event);
}

static void execute_store_job(struct member_run *member, const struct member_job *job) {
    struct event event = {.kind = EVENT_STORED, .job = job->job};
    struct fault rejected;
    if (store_results(&member->outer, job->entry, &rejected) != OK ||
        member_store_write_lease(&member->outer.store, &member->swarm.manifest.hash, &job->lease,
                                 &rejected) != OK) {
        report_failed_job(member, job, EVENT_STORED, &rejected);
        return;
    }
    member_log_disk_state(member, NULL);
    mailbox_post_answer(member_loop_mailbox(member->loop), &event);
}

static void execute_resign_job(struct member_run *member, const struct member_job *job) {
    struct event event = {.kind = EVENT_RESIGNED, .job = job->job};
    struct fault rejected;
    if (member_store_write_lease(&member->outer.store, &member->swarm.manifest.hash, &job->lease,
                                 &rejected) != OK) {
        report_failed_job(member, job, EVENT_RESIGNED, &rejected);
        return;
    }
    mailbox_post_answer(member_loop_mailbox(member->loop), &event);
}

/* ---- apply ---- */

static uint32_t count_contributors(const struct entry *entry) {
    uint32_t count = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        count += entry->members[seat].contributed > 0;
    }
    return count;
}

/* Returns this member's seat if its error feedback can advance, because its contribution and the
 * weights that it was encoded from are still present. Otherwise, as for a contribution of an
 * earlier start, the error of the encoding is unknown: clears the feedback that was sent and
 * returns -1. */
static int find_feedback_seat(struct member_run *member, const struct member_job *job) {
    if (job->seat < 0 || member->position.encoded_round != job->entry->round) {
        inner_clear_sent_feedback(member, job->entry);
        return -1;
    }
    return job->seat;
}

static enum status apply_results(struct member_run *member, const struct member_job *job,
                                 struct applied_round *applied, struct fault *fault) {
    const struct entry *entry = job->entry;
    struct training_position *position = &member->position;
    *applied = (struct applied_round){
        .round = entry->round,
        .members = entry->seat_count,
        .contributors = count_contributors(entry),
        .loss = position->loss_tokens == 0 ? (double)NAN
                                           : position->loss_sum / (double)position->loss_tokens};
    ASSERT(entry->round > position->round && entry->commits >= position->commits);
    if (job->seat >= 0 && entry->members[job->seat].contributed > 0) {
        member->contributed.tokens += entry->members[job->seat].tokens;
        member->contributed.rounds++;
    } else if (job->seat >= 0) {
        member_log_missed_round(member, entry->round, &entry->members[job->seat]);
    }
    applied->root = replica_apply(&member->outer.replica, entry, find_feedback_seat(member, job));
    position->round = entry->round;
    position->commits = entry->commits;
    return inner_finish_weights_reset(member, fault);
}

/* Logs, evaluates and saves a round after the network thread has been answered, so that the swarm
 * need not wait. */
static enum status log_and_save_round(struct member_run *member, const struct applied_round *round,
                                      struct fault *fault) {
    const struct settings *settings = &member->trainer.session.settings;
    const struct training_position *position = &member->position;
    struct staging staging = session_staging(&member->trainer.session);
    struct fault rejected;
    enum status recorded =
        round_record_write_outer_state(&member->outer.record, round->round, &staging, &rejected);
    member_log_recording_state(member, round->round, recorded == OK ? NULL : &rejected);
    member_log_round(member, round);
    int64_t step = (int64_t)position->commits * settings->swarm_inner_steps;
    bool evaluates =
        settings->eval_every > 0 &&
        step / settings->eval_every > (step - settings->swarm_inner_steps) / settings->eval_every;
    if (evaluates) {
        TRY(member_evaluate(member, false, fault));
    }
    bool is_due = position->commits - position->saved_commits >= swarm_snapshot_rounds(settings);
    if (is_due && outer_state_save(member, &rejected) != OK) {
        member_log_disk_state(member, &rejected);
    }
    return OK;
}

/* Makes the results durable before the round is applied, so that a restart can replay them. */
static enum status sync_round_files(struct outer_state *outer, const struct entry *entry,
                                    struct fault *fault) {
    TRY(store_results(outer, entry, fault));
    TRY(ledger_copy_sync(&outer->ledger, fault));
    return member_store_add_commit(&outer->store, entry, fault);
}

static enum status execute_apply_job(struct member_run *member, const struct member_job *job,
                                     struct fault *fault) {
    struct applied_round round;
    struct fault rejected;
    if (sync_round_files(&member->outer, job->entry, &rejected) != OK) {
        report_failed_job(member, job, EVENT_APPLIED, &rejected);
        return OK;
    }
    member_log_disk_state(member, NULL);
    if (round_record_write_commit(&member->outer.record, job->entry, &rejected) != OK) {
        member_log_recording_state(member, job->entry->round, &rejected);
    }
    TRY(apply_results(member, job, &round, fault));
    TRY(program_failure(&member->trainer.session.bound, fault));
    stored_states_update(member, job->entry);
    struct event event = {.kind = EVENT_APPLIED, .job = job->job, .root = round.root};
    mailbox_post_answer(member_loop_mailbox(member->loop), &event);
    return log_and_save_round(member, &round, fault);
}

/* ---- adopt ---- */

static enum status save_adopted_state(struct member_run *member, struct fault *fault) {
    TRY(ledger_copy_sync(&member->outer.ledger, fault));
    return outer_state_save(member, fault);
}

/* Resets the moments after a rollback, because they come from rounds that the rollback discards,
 * and may contain values that are not finite. */
static enum status reset_moments_after_rollback(struct member_run *member, struct fault *fault) {
    return inner_reset_moments(member, fault);
}

/* Executes an ADOPT job. A state received from other members is saved immediately, because it
 * cannot be reproduced from stored results. */
static enum status execute_adopt_job(struct member_run *member, const struct member_job *job,
                                     struct fault *fault) {
    struct replica *replica = &member->outer.replica;
    struct training_position *position = &member->position;
    struct fault rejected;
    replica_refresh_hashes(replica);
    replica_clear_feedback(replica);
    position->round = job->entry->round;
    position->commits = job->entry->commits;
    position->saved_round = 0;
    position->saved_commits = position->commits;
    member->outer.state_is_due = false;
    if (job->entry->kind == ENTRY_ROLLBACK) {
        TRY(reset_moments_after_rollback(member, fault));
    }
    TRY(inner_reset_weights(member, fault));
    TRY(program_failure(&member->trainer.session.bound, fault));
    enum status saved = save_adopted_state(member, &rejected);
    if (mailbox_is_job_stale(member_loop_mailbox(member->loop), job->kind)) {
        return OK;
    }
    if (saved != OK) {
        report_failed_job(member, job, EVENT_APPLIED, &rejected);
        return OK;
    }
    member_log_disk_state(member, NULL);
    stored_states_update(member, job->entry);
    struct event event = {.kind = EVENT_APPLIED, .job = job->job, .root = replica->root};
    mailbox_post_answer(member_loop_mailbox(member->loop), &event);
    return OK;
}

/* ---- sum, root ---- */

static void execute_sum_job(struct member_run *member, const struct member_job *job) {
    struct replica *replica = &member->outer.replica;
    struct event event = {.kind = EVENT_SUMMED, .job = job->job};
    if (slices_are_sparse(&replica->shape.slices)) {
        const struct addend_list list = {.seats = job->contributors,
                                         .addends = job->addends,
                                         .proofs = job->proofs,
                                         .value_limit = job->value_limit};
        event.hash = replica_write_list(replica, job->round, job->slice, &list);
    } else {
        event.hash = replica_sum(replica, job->round, job->slice, job->addends, job->addend_count);
    }
    mailbox_post_answer(member_loop_mailbox(member->loop), &event);
}

/* Executes a ROOT job. A commit usually has the same results as its proposal, whose root is already
 * known. A root that a failed device has computed is not sent. */
static enum status execute_root_job(struct member_run *member, const struct member_job *job,
                                    struct fault *fault) {
    struct replica *replica = &member->outer.replica;
    struct hash results = hash_results(job->entry);
    bool is_known = replica->voted_round == job->entry->round &&
                    hash_equal(&results, &member->outer.rooted_results_hash);
    member->outer.rooted_results_hash = results;
    const struct hash root =
        is_known ? replica->voted_root
                 : replica_root_after(replica, job->entry->round, job->entry->seat_count);
    TRY(program_failure(&member->trainer.session.bound, fault));
    if (hash_is_zero(&root)) {
        log_line(LOG_WARNING,
                 "round %u: the proposed results would make the outer state infinite or NaN; this "
                 "member votes against them",
                 job->entry->round);
    }
    member_loop_vote(member->loop, job, &root);
    return OK;
}

enum status member_job_execute(struct member_run *member, const struct member_job *job,
                               struct fault *fault) {
    switch (job->kind) {
    case ACTION_TRAIN:
        return inner_train(member, job, fault);
    case ACTION_SUM:
        execute_sum_job(member, job);
        return OK;
    case ACTION_ROOT:
        return execute_root_job(member, job, fault);
    case ACTION_STORE:
        execute_store_job(member, job);
        return OK;
    case ACTION_RESIGN:
        execute_resign_job(member, job);
        return OK;
    case ACTION_SKETCH:
    case ACTION_CHECK:
    case ACTION_RECHECK:
        member_check_execute(member, job);
        return OK;
    case ACTION_APPLY:
        return execute_apply_job(member, job, fault);
    case ACTION_ADOPT:
        return execute_adopt_job(member, job, fault);
    default:
        ASSERT(job->kind == ACTION_LEFT);
        member->has_left = true;
        return OK;
    }
}
