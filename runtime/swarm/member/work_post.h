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

struct work_post {
    pthread_mutex_t lock;
    pthread_cond_t given; /* to the computing thread: work, or the end */
    pthread_cond_t taken; /* to it: the last answer was taken */
    int wake_fd;          /* an eventfd: the talking thread sleeps on it */
    bool is_over;
    uint32_t slice_count;

    bool has_job, has_train, is_running;
    struct member_work job, train, running;
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

/* work_post_bytes: memory of the arrays. work_post_open: a post in it.
 * errors  STATUS_FAILED without an eventfd */
size_t work_post_bytes(uint32_t slice_count);
MUST_CHECK enum status work_post_open(struct work_post *post, void *memory, uint32_t slice_count,
                                      struct fault *fault);
void work_post_close(struct work_post *post);

/* By the talking thread. work_post_give copies the work and its entry, and makes what is under way
 * stale; training that was not begun is dropped. work_post_cancel does the same without new work,
 * and drops a job that was not begun. */
void work_post_give(struct work_post *post, const struct member_work *work);
void work_post_cancel(struct work_post *post);

/* work_post_is_busy: whether there is work that waits or is under way. */
bool work_post_is_busy(struct work_post *post);

/* What the computing thread has said since the last time. `event` is valid, with has_event, until
 * work_post_release, which lets the next one come. */
struct work_news {
    bool has_event;
    struct event event;
    bool wants_to_leave;
    struct timing_measured measured;
};
void work_post_take(struct work_post *post, struct work_news *news);
void work_post_release(struct work_post *post);
void work_post_show(struct work_post *post, const struct member_loop_view *view);

/* By the computing thread; as member_loop_next and so on say. */
bool work_post_next(struct work_post *post, int timeout_ms, struct member_work *work);
bool work_post_is_stale(const struct work_post *post, enum action_kind kind);
void work_post_answer(struct work_post *post, const struct event *event);
/* work_post_entry: of the work that it has. */
struct entry *work_post_entry(struct work_post *post);

/* By anybody. work_post_wake: the talking thread looks around. */
void work_post_leave(struct work_post *post);
void work_post_measured(struct work_post *post, const struct timing_measured *measured);
void work_post_look(struct work_post *post, struct member_loop_view *view);
void work_post_wake(struct work_post *post);
/* work_post_end: nobody waits any more. */
void work_post_end(struct work_post *post);

#endif
