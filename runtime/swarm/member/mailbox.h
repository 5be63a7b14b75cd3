/* mailbox: shared memory in which a member's network thread posts jobs for the compute thread and
 * collects the answers, one at a time.
 *
 *     network thread  post ───►| job      |──► wait_job   compute thread: a job before training,
 *                     post ───►| training |──► wait_job   newer training replaces older
 *                  collect ◄───| answer   |◄── answer     waits until the last one was collected
 *
 * The *current job* is the one that was posted last, until its answer is collected. Training is
 * never the current job: it ends when a newer job is posted. */
#ifndef SKEP_SWARM_MEMBER_MAILBOX_H
#define SKEP_SWARM_MEMBER_MAILBOX_H

#include "runtime/swarm/member/member.h"

#include <pthread.h>
#include <stdatomic.h>

/* number of entries: one for the running job, one for the posted job */
enum { MAILBOX_ENTRIES = 2 };

struct mailbox {                    /* exchange of jobs and answers between the two threads */
    pthread_mutex_t lock;           /* protects the fields that both threads use */
    pthread_cond_t work_posted;     /* wakes the compute thread for a job or the shutdown */
    pthread_cond_t answer_released; /* lets the compute thread post its next answer */
    int wake_fd;                    /* eventfd that wakes the network thread */
    bool is_shut_down;              /* the compute thread must end */
    uint32_t slice_count;           /* number of slices of each entry in `entries` */

    /* posted and not started yet: a job, training, a LEFT job */
    bool has_job, has_training, has_left_job;
    bool is_running;            /* the compute thread executes a job that it has not answered yet */
    bool is_job_unanswered;     /* `job` is the current job; for the network thread only */
    struct member_job job;      /* the job posted last; written by the network thread only */
    struct member_job training; /* the training job posted last */
    struct entry entries[MAILBOX_ENTRIES]; /* copies of the entries of the jobs */
    uint32_t next_entry;                   /* index in `entries` for the next job */
    int64_t training_posted_ns;  /* when `training` was posted, from which its deadline counts */
    uint64_t running_generation; /* generation at the start of the running job */
    atomic_uint_least64_t generation;  /* number of events so far that made training stale */
    atomic_uint_least32_t ended_round; /* round whose training ends after its current step */

    bool has_answer;     /* `answer` is posted and not collected yet */
    struct event answer; /* the event that answers a job or training */

    bool wants_to_leave;                   /* the operator has requested to leave the swarm */
    struct timing_measured measured;       /* times measured by the compute thread */
    struct hash stored[STORED_STATES_MAX]; /* roots of the stored states; unused: zero */
    struct member_loop_view view;          /* newest published view of the network thread */
};

/* mailbox_memory_bytes: size of the arrays. mailbox_open: initialize an empty mailbox with its
 * arrays in `memory`.
 * errors  STATUS_FAILED when no eventfd can be created */
size_t mailbox_memory_bytes(uint32_t slice_count);
MUST_CHECK enum status mailbox_open(struct mailbox *mailbox, void *memory, uint32_t slice_count,
                                    struct fault *fault);
void mailbox_close(struct mailbox *mailbox);

/* ---- for the network thread ---- */

/* mailbox_post_job: copy the job and its entry. Makes running training stale, and discards posted
 * training that has not started.
 * limits  there is no current job, except an ADOPT that the new job supersedes, or a cancelled
 *         job */
void mailbox_post_job(struct mailbox *mailbox, const struct member_job *job);

/* mailbox_cancel_job: discard posted jobs that have not started, and make running training
 * stale. */
void mailbox_cancel_job(struct mailbox *mailbox);

/* mailbox_end_training: end training of this round after its current step, so that the member
 * declares the steps done so far. Training that has not started yet then does no step. */
void mailbox_end_training(struct mailbox *mailbox, uint32_t round);

/* mailbox_is_busy: whether a job or training is posted or running. */
bool mailbox_is_busy(struct mailbox *mailbox);

/* mailbox_current_job: the job that was posted last, or NULL once its answer has been collected.
 * The pointer is valid until the next mailbox_post_job. */
const struct member_job *mailbox_current_job(const struct mailbox *mailbox);

/* What the compute thread has posted since the last call of mailbox_collect_updates. */
struct mailbox_updates {
    bool has_event; /* `event` is set */
    /* event that answers a job or training; valid until mailbox_release_answer */
    struct event event;
    const struct member_job *answered_job; /* the job that `event` answers, or NULL */
    bool wants_to_leave;                   /* the operator has requested to leave the swarm */
    struct timing_measured measured;       /* times measured by the compute thread */
    struct hash stored[STORED_STATES_MAX]; /* roots of the stored states */
};

/* mailbox_collect_updates: read the updates. mailbox_release_answer: mark the event as handled,
 * so that the compute thread may post its next answer. */
void mailbox_collect_updates(struct mailbox *mailbox, struct mailbox_updates *updates);
void mailbox_release_answer(struct mailbox *mailbox);
void mailbox_publish_view(struct mailbox *mailbox, const struct member_loop_view *view);

/* ---- for the compute thread ---- */

/* mailbox_wait_job: sleep until there is a job. Returns false after `timeout_ms` (-1: no timeout)
 * or a shutdown.
 * mailbox_is_job_stale: whether a newer job has superseded the running TRAIN or ADOPT, which must
 * then be abandoned without an answer. It is cheap enough to call between microbatches.
 * mailbox_is_training_ended: whether mailbox_end_training was called for this round.
 * mailbox_post_answer: post the event that ends a job other than ROOT and LEFT: TRAINED (round,
 * trained, root), SUMMED (job, hash), STORED (job), APPLIED (job, root), SKETCHED (job), CHECKED
 * (job, slice, opposed), RECHECKED (job, refusal). */
bool mailbox_wait_job(struct mailbox *mailbox, int timeout_ms, struct member_job *job);
bool mailbox_is_job_stale(const struct mailbox *mailbox, enum action_kind kind);
bool mailbox_is_training_ended(const struct mailbox *mailbox, uint32_t round);
void mailbox_post_answer(struct mailbox *mailbox, const struct event *event);

/* ---- for any thread ---- */

/* mailbox_request_leave: request that this member leaves. A LEFT job is posted once no other member
 * needs it.
 * mailbox_set_measured_times: publish the medians that the compute thread measured, whenever they
 * change.
 * mailbox_set_stored_states: publish the roots of the stored states [STORED_STATES_MAX].
 * mailbox_read_view: copy the newest view of the network thread. */
void mailbox_request_leave(struct mailbox *mailbox);
void mailbox_set_measured_times(struct mailbox *mailbox, const struct timing_measured *measured);
void mailbox_set_stored_states(struct mailbox *mailbox, const struct hash *roots);
void mailbox_read_view(struct mailbox *mailbox, struct member_loop_view *view);

/* mailbox_wake: wake the network thread. mailbox_shut_down: end all waits, including all later
 * ones. mailbox_is_shut_down: whether mailbox_shut_down was called. */
void mailbox_wake(struct mailbox *mailbox);
void mailbox_shut_down(struct mailbox *mailbox);
bool mailbox_is_shut_down(struct mailbox *mailbox);

#endif
