/* member_run_state: what the files of a member's compute thread call of each other. */
#ifndef SKEP_INNER_TRAINING_MEMBER_RUN_STATE_H
#define SKEP_INNER_TRAINING_MEMBER_RUN_STATE_H

#include "runtime/inner_training/inner_training.h"

/* ---- member_outer_state.c ---- */

/* outer_state_plan: the tensor groups of the member's snapshots. */
void outer_state_plan(struct member_run *member);

/* outer_state_load: the newest snapshot and the rounds applied after it, or the first weights.
 * Fills the replica, member->position and the reports of stored results. On rank 0. */
MUST_CHECK enum status outer_state_load(struct member_run *member, struct fault *fault);

/* outer_state_save: a snapshot of the current round, unless there is one; then results that it
 * makes superfluous are deleted. On rank 0. outer_state_write: the part that every rank does. */
MUST_CHECK enum status outer_state_save(struct member_run *member, struct fault *fault);
MUST_CHECK enum status outer_state_write(struct member_run *member,
                                         const struct training_position *position,
                                         struct fault *fault);

/* inner_reset: makes the inner weights and their compute copies equal to the outer weights, on all
 * ranks; what was trained is dropped. inner_reset_done: the same after the replica has already
 * changed the inner weights.
 * errors  of several ranks those of site_exchange */
MUST_CHECK enum status inner_reset(struct member_run *member, struct fault *fault);
MUST_CHECK enum status inner_reset_done(struct member_run *member, struct fault *fault);

/* inner_forget_sent: replica_clear_sent_feedback, for a commit that is applied without the
 * contribution that this member made to it. */
void inner_forget_sent(struct member_run *member, const struct entry *entry);

/* ---- member_jobs.c, inner_train.c ---- */

/* member_job_execute: one job, and its answer to the network thread. A write that the disk rejects
 * is logged and answered as failed. inner_train: the TRAIN job: trains on the assigned samples
 * until they or the time are used up, then encodes the contribution.
 * errors  of data: training cannot continue */
MUST_CHECK enum status member_job_execute(struct member_run *member, const struct member_job *job,
                                          struct fault *fault);
MUST_CHECK enum status inner_train(struct member_run *member, const struct member_job *job,
                                   struct fault *fault);

/* ---- member_log.c ---- */

/* A round that was just applied. */
struct applied_round {
    uint32_t round, members, contributors;
    struct hash root;
    double loss; /* of this member's steps; NaN without any */
};

/* member_log_round: a round's lines in metrics and progress. member_log_swarm: what has changed in
 * the swarm since the last call. member_log_disk: a write that failed, once; NULL after one that
 * succeeded. */
void member_log_round(struct member_run *member, const struct applied_round *round);
void member_log_swarm(struct member_run *member);
void member_log_disk(struct member_run *member, const struct fault *fault);

/* member_evaluate: the loss of the outer weights on held-out text, if there is any. Between rounds
 * it stops when other members would wait for this one. */
MUST_CHECK enum status member_evaluate(struct member_run *member, bool is_last,
                                       struct fault *fault);

/* member_exchange_memory: trainer_exchange_memory on all ranks; `owner` is a struct member_run. */
MUST_CHECK enum status member_exchange_memory(void *owner, struct fault *fault);

#endif
