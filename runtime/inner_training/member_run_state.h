/* member_run_state: declares the functions that the files of a member's compute thread share. */
#ifndef SKEP_INNER_TRAINING_MEMBER_RUN_STATE_H
#define SKEP_INNER_TRAINING_MEMBER_RUN_STATE_H

#include "runtime/inner_training/inner_training.h"

/* ---- member_outer_state.c ---- */

/* outer_state_plan_snapshots: adds the tensor groups of the member's snapshots. */
void outer_state_plan_snapshots(struct member_run *member);

/* outer_state_load: loads the newest snapshot and replays the rounds applied after it, or loads the
 * initial weights. Fills the replica, member->position and the reports of stored results. Called on
 * rank 0. */
MUST_CHECK enum status outer_state_load(struct member_run *member, struct fault *fault);

/* outer_state_save: writes a snapshot of the current round, unless it exists, and deletes results
 * that are no longer needed. Called on rank 0. outer_state_save_rank_part: writes the part of the
 * snapshot that a rank saves; called on every rank. */
MUST_CHECK enum status outer_state_save(struct member_run *member, struct fault *fault);
MUST_CHECK enum status outer_state_save_rank_part(struct member_run *member,
                                                  const struct training_position *position,
                                                  struct fault *fault);

/* inner_reset_weights: makes the inner weights and their compute copies equal to the outer weights,
 * on all ranks; training since the last commit is discarded. inner_finish_weights_reset: does the
 * remaining part of inner_reset_weights when the replica has already updated the inner weights.
 * errors  with several ranks, faults of site_exchange */
MUST_CHECK enum status inner_reset_weights(struct member_run *member, struct fault *fault);
MUST_CHECK enum status inner_finish_weights_reset(struct member_run *member, struct fault *fault);

/* inner_reset_moments: sets the moments to zero on all ranks.
 * errors  with several ranks, faults of site_exchange */
MUST_CHECK enum status inner_reset_moments(struct member_run *member, struct fault *fault);

/* inner_clear_sent_feedback: calls replica_clear_sent_feedback for a commit that is applied without
 * the contribution that this member made to it. */
void inner_clear_sent_feedback(struct member_run *member, const struct entry *entry);

/* ---- member_jobs.c, inner_train.c ---- */

/* member_job_execute: executes one job and answers the network thread. If a write fails, it logs
 * the error and reports the job as failed. inner_train: executes the TRAIN job: trains on the
 * assigned samples until all are used or the time is over, then encodes the contribution.
 * errors  faults of data, after which training cannot continue */
MUST_CHECK enum status member_job_execute(struct member_run *member, const struct member_job *job,
                                          struct fault *fault);
MUST_CHECK enum status inner_train(struct member_run *member, const struct member_job *job,
                                   struct fault *fault);

/* ---- member_checks.c ---- */

/* member_check_execute: executes a SKETCH, CHECK or RECHECK job and answers the network thread. */
void member_check_execute(struct member_run *member, const struct member_job *job);

/* ---- member_log.c ---- */

/* The values that are logged for an applied round. */
struct applied_round {
    uint32_t round, members, contributors; /* number of the round, of members and of contributors */
    struct hash root;                      /* root of the outer state after the round */
    double loss;                           /* mean loss of this member's steps; NaN without steps */
};

/* member_log_round: logs a round in metrics and progress. member_log_step: shows a step of `round`
 * that took `seconds`. member_log_contributions: logs what this member contributed since its start.
 * member_log_swarm_changes: logs changes in the swarm since the last call, and what a member that
 * is_idle waits for. member_log_disk_state: logs a failed write once; `fault` is NULL when a
 * write has succeeded again. member_log_recording_state: the same for the files of recorded rounds
 * (swarm.record); `fault` is NULL when the last file of a round was written. */
void member_log_round(struct member_run *member, const struct applied_round *round);
void member_log_step(const struct member_run *member, uint32_t round,
                     const struct step_result *result, double seconds);
void member_log_contributions(const struct member_run *member);
void member_log_swarm_changes(struct member_run *member, bool is_idle);
void member_log_disk_state(struct member_run *member, const struct fault *fault);
void member_log_recording_state(struct member_run *member, uint32_t round,
                                const struct fault *fault);

/* member_log_missed_round: logs that the commit of a round in which this member had a seat does not
 * contain its contribution, at most once in 10 s. `row` is the member's row of the commit. */
void member_log_missed_round(struct member_run *member, uint32_t round,
                             const struct entry_member *row);

/* member_evaluate: computes the loss of the outer weights on held-out text, if the run has any.
 * Between rounds it stops early when other members would have to wait for this member. */
MUST_CHECK enum status member_evaluate(struct member_run *member, bool is_last,
                                       struct fault *fault);

/* member_collect_memory_use: calls trainer_collect_memory_use on all ranks. */
MUST_CHECK enum status member_collect_memory_use(struct member_run *member, struct fault *fault);

/* ---- stored_states.c ---- */

/* stored_states_publish: reports the roots of the stored states to the network thread.
 * stored_states_update: called for each commit or rollback whose state this member now has.
 * Records whether the member was drawn to store that state, and removes states that the swarm can
 * no longer return to.
 * stored_states_write_if_due: called after each job, before the next one is waited for, because the
 * network thread may change the state in between. Writes the state if that is due. A failure is
 * logged; the write is repeated after the training that follows. All are called on rank 0. */
void stored_states_publish(struct member_run *member);
void stored_states_update(struct member_run *member, const struct entry *entry);
void stored_states_write_if_due(struct member_run *member, enum action_kind ended_job);

#endif
