/* mailbox: the shared memory through which a member's network thread hands jobs to its compute
 * thread and collects the answers, one at a time.
 *
 *     network thread  post ───►| job      |──► wait_job   compute thread: a job before training,
 *                     post ───►| training |──► wait_job   newer training replaces older
 *                  collect ◄───| answer   |◄── answer     waits until the last one was collected
 *
 * The mailbox is also where the job in hand is described: the one that was posted last and is not
 * answered. Training is not a job in hand: it ends when something newer is posted. */
#ifndef SKEP_SWARM_MEMBER_MAILBOX_H
#define SKEP_SWARM_MEMBER_MAILBOX_H

#include "runtime/swarm/member/member.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAILBOX_ENTRIES = 2 }; /* of the job that is executed, and of the one that is posted */

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t has_work; /* for the compute thread: something was posted, or the end */
    pthread_cond_t has_room; /* for the compute thread: the last answer was released */
    int wake_fd;             /* an eventfd on which the network thread sleeps */
    bool is_over;
    uint32_t slice_count;

    bool has_job, has_training, has_left; /* posted and not begun */
    bool is_running;                      /* begun and not answered */
    bool is_unanswered;                   /* `job` is in hand; used by the network thread only */
    struct member_job job;                /* written by the network thread only */
    struct member_job training;
    struct entry entries[MAILBOX_ENTRIES];
    uint32_t next_entry;         /* for the next job; the other one belongs to the running job */
    int64_t training_posted_ns;  /* its deadline runs from then on */
    uint64_t running_generation; /* used by the compute thread only */
    atomic_uint_least64_t generation; /* counts the events that make training stale */

    bool has_answer;
    struct event answer;
    struct hash *hashes; /* [slice_count]: of an EVENT_TRAINED */

    bool wants_to_leave;
    struct timing_measured measured;
    struct member_loop_view view;
};

/* mailbox_bytes: memory of its arrays. mailbox_open: an empty mailbox in that memory.
 * errors  STATUS_FAILED when the system has no eventfd left */
size_t mailbox_bytes(uint32_t slice_count);
MUST_CHECK enum status mailbox_open(struct mailbox *mailbox, void *memory, uint32_t slice_count,
                                    struct fault *fault);
void mailbox_close(struct mailbox *mailbox);

/* ---- for the network thread ---- */

/* mailbox_post_job: copy the job and its entry. This makes running training stale and drops
 * training that was not begun.
 * limits  no other job is in hand, except for training, an ADOPT that the new one supersedes, and a
 *         job that was cancelled */
void mailbox_post_job(struct mailbox *mailbox, const struct member_job *job);

/* mailbox_cancel_job: drop what was not begun, and make running training stale. */
void mailbox_cancel_job(struct mailbox *mailbox);

/* mailbox_is_busy: a job or training is posted or running. */
bool mailbox_is_busy(struct mailbox *mailbox);

/* mailbox_job_in_hand: the job that was posted last, NULL once its answer was collected. Valid
 * until the next mailbox_post_job. */
const struct member_job *mailbox_job_in_hand(const struct mailbox *mailbox);

/* What the compute thread sent since the last call. */
struct mailbox_updates {
    bool has_event;
    struct event event;             /* valid until mailbox_release */
    const struct member_job *ended; /* the job in hand, if `event` is its answer; else NULL */
    bool wants_to_leave;
    struct timing_measured measured;
};

/* mailbox_collect: read the updates. mailbox_release: the event was handled; the next answer may
 * come. */
void mailbox_collect(struct mailbox *mailbox, struct mailbox_updates *updates);
void mailbox_release(struct mailbox *mailbox);
void mailbox_publish_view(struct mailbox *mailbox, const struct member_loop_view *view);

/* ---- for the compute thread ---- */

/* mailbox_wait_job: sleep until there is a job. False after `timeout_ms` (-1: never).
 * mailbox_is_stale: a newer job makes this TRAIN or ADOPT pointless; it is abandoned without an
 * answer. Cheap enough to call between microbatches.
 * mailbox_answer: the event that ends a job other than ROOT and LEFT: TRAINED (round, tokens,
 * hashes [slice_count]), SUMMED (job, hash), STORED (job), APPLIED (job, root). */
bool mailbox_wait_job(struct mailbox *mailbox, int timeout_ms, struct member_job *job);
bool mailbox_is_stale(const struct mailbox *mailbox, enum action_kind kind);
void mailbox_answer(struct mailbox *mailbox, const struct event *event);

/* ---- for any thread ---- */

/* mailbox_request_leave: take part in no further round. A job LEFT follows once no other member
 * needs this one.
 * mailbox_set_measured: the medians of the compute thread, whenever they change.
 * mailbox_read_view: copy the newest view. */
void mailbox_request_leave(struct mailbox *mailbox);
void mailbox_set_measured(struct mailbox *mailbox, const struct timing_measured *measured);
void mailbox_read_view(struct mailbox *mailbox, struct member_loop_view *view);

/* mailbox_wake: the network thread returns from its wait. mailbox_end: all waits end, for good.
 * mailbox_is_over: it was called. */
void mailbox_wake(struct mailbox *mailbox);
void mailbox_end(struct mailbox *mailbox);
bool mailbox_is_over(struct mailbox *mailbox);

#endif
