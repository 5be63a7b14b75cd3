/* join_parts: what the files of a member's computing thread do for each other. */
#ifndef SKEP_INNER_TRAINING_JOIN_PARTS_H
#define SKEP_INNER_TRAINING_JOIN_PARTS_H

#include "runtime/inner_training/join.h"

/* The durable state (join_state.c). join_state_plan: what of it this rank saves and loads.
 * join_state_begin: the outer state: newest snapshot and what was applied after it, else the first
 * weights; fills the replica, joining->at and what is known of stored results. On rank 0. */
void join_state_plan(struct joining *joining);
MUST_CHECK enum status join_state_begin(struct joining *joining, struct fault *fault);

/* join_state_save: a snapshot of where the member stands, unless there is one; then what it makes
 * superfluous goes. On rank 0. join_state_write: of it what every rank does. */
MUST_CHECK enum status join_state_save(struct joining *joining, struct fault *fault);
MUST_CHECK enum status join_state_write(struct joining *joining, const struct join_position *at,
                                        struct fault *fault);

/* join_follow: inner weights and what computes with them are the outer ones, on all ranks; nothing
 * is trained. join_followed: the same when the replica has made the inner weights follow already.
 * errors  of several ranks those of site_exchange */
MUST_CHECK enum status join_follow(struct joining *joining, struct fault *fault);
MUST_CHECK enum status join_followed(struct joining *joining, struct fault *fault);

/* join_forget_sent: a commit is applied without the contribution that this member made to it, if it
 * made one: replica_forget_sent. */
void join_forget_sent(struct joining *joining, const struct entry *entry);

/* join_work: one piece of work, and its answer (join_work.c). What a full disk refuses is told, and
 * answered as refused. join_train: the windows given, until they or the time are over; then the
 * contribution (join_train.c).
 * errors  of data: training cannot go on */
MUST_CHECK enum status join_work(struct joining *joining, const struct member_work *work,
                                 struct fault *fault);
MUST_CHECK enum status join_train(struct joining *joining, const struct member_work *work,
                                  struct fault *fault);

/* A round that was just applied. */
struct join_round {
    uint32_t round, members, contributors;
    struct hash root;
    double loss; /* of the own steps; NaN without any */
};

/* What is told (join_tell.c). join_note_round: the metrics' line of a round and a person's.
 * join_note_swarm: what of the swarm has changed. join_note_disk: what the disk refuses, once; NULL
 * when it took something again. join_evaluate: the loss on held-out text, if there is any, of the
 * outer weights; between rounds only as long as the others can wait. */
void join_note_round(struct joining *joining, const struct join_round *round);
void join_note_swarm(struct joining *joining);
void join_note_disk(struct joining *joining, const struct fault *fault);
MUST_CHECK enum status join_note_memory(struct joining *joining, struct fault *fault);
MUST_CHECK enum status join_evaluate(struct joining *joining, bool is_last, struct fault *fault);

#endif
