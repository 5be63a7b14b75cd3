/* work_post: where a member's two threads meet: work there, one answer back.
 *
 *     talking     give ──►| job   |──► next        computing: a job first; it makes training stale
 *                 give ──►| train |──► next        a newer one replaces it
 *                 take ◄──| answer|◄── answer      waits until the one before was taken */
#ifndef SKEP_SWARM_MEMBER_WORK_POST_H
#define SKEP_SWARM_MEMBER_WORK_POST_H

#include "runtime/swarm/member/member_loop.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WORK_ENTRIES = 2 }; /* of the job that is done and of the one that is pending */

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t given; /* to the computing thread: work, or the end */
    pthread_cond_t taken; /* to it: the last answer was taken */
    int wake_fd;          /* an eventfd: the talking thread sleeps on it */
    bool is_over;
    uint32_t slice_count;

    bool has_job, has_train, is_running;
    struct member_job job, train, running;
    struct entry entries[WORK_ENTRIES];
    uint32_t job_entry;           /* which of them; the other one belongs to the running work */
    int64_t train_given_ns;       /* since when its deadline runs */
    uint64_t running_number;      /* the computing thread's */
    atomic_uint_least64_t newest; /* counts what makes training stale */

    bool has_answer;
    struct event answer;
    struct hash *hashes; /* [slice_count]: of an EVENT_TRAINED */

    bool wants_to_leave;
    struct timing_measured measured;
    struct member_loop_view view;
};

/* mailbox_bytes: memory of the arrays. mailbox_open: a post in it.
 * errors  STATUS_FAILED without an eventfd */
size_t mailbox_bytes(uint32_t slice_count);
MUST_CHECK enum status mailbox_open(struct mailbox *post, void *memory, uint32_t slice_count,
                                    struct fault *fault);
void mailbox_close(struct mailbox *post);

/* By the talking thread. mailbox_post_job copies the work and its entry, and makes what is under
 * way stale; training that was not begun is dropped. mailbox_cancel_job does the same without new
 * work, and drops a job that was not begun. */
void mailbox_post_job(struct mailbox *post, const struct member_job *work);
void mailbox_cancel_job(struct mailbox *post);

/* mailbox_is_busy: whether there is work that waits or is under way. */
bool mailbox_is_busy(struct mailbox *post);

/* What the computing thread has said since the last time. `event` is valid, with has_event, until
 * mailbox_release, which lets the next one come. */
struct mailbox_updates {
    bool has_event;
    struct event event;
    bool wants_to_leave;
    struct timing_measured measured;
};
void mailbox_collect(struct mailbox *post, struct mailbox_updates *news);
void mailbox_release(struct mailbox *post);
void mailbox_publish_view(struct mailbox *post, const struct member_loop_view *view);

/* By the computing thread; as member_loop_wait_job and so on say. */
bool mailbox_wait_job(struct mailbox *post, int timeout_ms, struct member_job *work);
bool mailbox_is_stale(const struct mailbox *post, enum action_kind kind);
void mailbox_answer(struct mailbox *post, const struct event *event);
/* mailbox_entry: of the work that it has. */
struct entry *mailbox_entry(struct mailbox *post);

/* By anybody. mailbox_wake: the talking thread looks around. */
void mailbox_request_leave(struct mailbox *post);
void mailbox_set_measured(struct mailbox *post, const struct timing_measured *measured);
void mailbox_read_view(struct mailbox *post, struct member_loop_view *view);
void mailbox_wake(struct mailbox *post);
/* mailbox_end: nobody waits any more. */
void mailbox_end(struct mailbox *post);

#endif
