/* join_parts: what the files of a member's computing thread do for each other. */
#ifndef SKEP_INNER_TRAINING_JOIN_PARTS_H
#define SKEP_INNER_TRAINING_JOIN_PARTS_H

#include "runtime/inner_training/join.h"

/* The durable state (join_state.c). outer_state_plan: what of it this rank saves and loads.
 * outer_state_load: the outer state: newest snapshot and what was applied after it, else the first
 * weights; fills the replica, joining->at and what is known of stored results. On rank 0. */
void outer_state_plan(struct member_run *joining);
MUST_CHECK enum status outer_state_load(struct member_run *joining, struct fault *fault);

/* outer_state_save: a snapshot of where the member stands, unless there is one; then what it makes
 * superfluous goes. On rank 0. outer_state_write: of it what every rank does. */
MUST_CHECK enum status outer_state_save(struct member_run *joining, struct fault *fault);
MUST_CHECK enum status outer_state_write(struct member_run *joining,
                                         const struct training_position *at, struct fault *fault);

/* inner_reset: inner weights and what computes with them are the outer ones, on all ranks; nothing
 * is trained. inner_reset_done: the same when the replica has made the inner weights follow
 * already.
 * errors  of several ranks those of site_exchange */
MUST_CHECK enum status inner_reset(struct member_run *joining, struct fault *fault);
MUST_CHECK enum status inner_reset_done(struct member_run *joining, struct fault *fault);

/* inner_forget_sent: a commit is applied without the contribution that this member made to it, if
 * it made one: replica_clear_sent_feedback. */
void inner_forget_sent(struct member_run *joining, const struct entry *entry);

/* member_job_execute: one piece of work, and its answer (member_job_execute.c). What a full disk
 * refuses is told, and answered as refused. inner_train: the windows given, until they or the time
 * are over; then the contribution (inner_train.c).
 * errors  of data: training cannot go on */
MUST_CHECK enum status member_job_execute(struct member_run *joining, const struct member_job *work,
                                          struct fault *fault);
MUST_CHECK enum status inner_train(struct member_run *joining, const struct member_job *work,
                                   struct fault *fault);

/* A round that was just applied. */
struct applied_round {
    uint32_t round, members, contributors;
    struct hash root;
    double loss; /* of the own steps; NaN without any */
};

/* What is told (join_tell.c). member_log_round: the metrics' line of a round and a person's.
 * member_log_swarm: what of the swarm has changed. member_log_disk: what the disk refuses, once;
 * NULL when it took something again. member_evaluate: the loss on held-out text, if there is any,
 * of the outer weights; between rounds only as long as the others can wait. */
void member_log_round(struct member_run *joining, const struct applied_round *round);
void member_log_swarm(struct member_run *joining);
void member_log_disk(struct member_run *joining, const struct fault *fault);
MUST_CHECK enum status member_log_memory(struct member_run *joining, struct fault *fault);
MUST_CHECK enum status member_evaluate(struct member_run *joining, bool is_last,
                                       struct fault *fault);

#endif
