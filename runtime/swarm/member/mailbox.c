#include "runtime/swarm/member/mailbox.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static size_t entry_slices_bytes(uint32_t slice_count) {
    return slice_count * sizeof(struct entry_slice);
}

size_t mailbox_memory_bytes(uint32_t slice_count) {
    return MAILBOX_ENTRIES * entry_slices_bytes(slice_count);
}

enum status mailbox_open(struct mailbox *mailbox, void *memory, uint32_t slice_count,
                         struct fault *fault) {
    int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd < 0) {
        return fault_set_errno(fault, STATUS_FAILED, "swarm",
                               "cannot create the eventfd of the mailbox", errno);
    }
    memset(mailbox, 0, sizeof(*mailbox));
    mailbox->wake_fd = wake_fd;
    mailbox->slice_count = slice_count;
    char *at = memory;
    for (int i = 0; i < MAILBOX_ENTRIES; i++) {
        mailbox->entries[i].slices = (struct entry_slice *)at;
        at += entry_slices_bytes(slice_count);
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&mailbox->work_posted, &attributes);
    pthread_cond_init(&mailbox->answer_released, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&mailbox->lock, NULL);
    atomic_init(&mailbox->generation, 0);
    atomic_init(&mailbox->ended_round, 0);
    return OK;
}

void mailbox_close(struct mailbox *mailbox) {
    pthread_cond_destroy(&mailbox->work_posted);
    pthread_cond_destroy(&mailbox->answer_released);
    pthread_mutex_destroy(&mailbox->lock);
    close(mailbox->wake_fd);
}

void mailbox_wake(struct mailbox *mailbox) {
    uint64_t one = 1;
    /* The write fails only when the counter is at its maximum, and then the network thread is awake
     * anyway. */
    ssize_t written = write(mailbox->wake_fd, &one, sizeof one);
    (void)written;
}

static void copy_job(struct mailbox *mailbox, const struct member_job *job) {
    ASSERT(!mailbox->has_job || mailbox->job.kind == ACTION_ADOPT); /* one at a time */
    mailbox->job = *job;
    mailbox->job.entry = NULL;
    if (job->entry != NULL) {
        entry_copy(&mailbox->entries[mailbox->next_entry], job->entry);
        mailbox->job.entry = &mailbox->entries[mailbox->next_entry];
    }
    mailbox->has_job = true;
    mailbox->is_job_unanswered = true;
}

void mailbox_post_job(struct mailbox *mailbox, const struct member_job *job) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->has_training = false;
    if (job->kind == ACTION_TRAIN) {
        mailbox->training = *job;
        mailbox->training_posted_ns = clock_monotonic_ns();
        mailbox->has_training = true;
    } else if (job->kind == ACTION_LEFT) {
        mailbox->has_left_job = true;
    } else {
        copy_job(mailbox, job);
    }
    atomic_fetch_add(&mailbox->generation, 1);
    pthread_cond_signal(&mailbox->work_posted);
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_cancel_job(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->has_job = false;
    mailbox->has_training = false;
    atomic_fetch_add(&mailbox->generation, 1);
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_end_training(struct mailbox *mailbox, uint32_t round) {
    atomic_store(&mailbox->ended_round, round);
}

bool mailbox_is_training_ended(const struct mailbox *mailbox, uint32_t round) {
    return atomic_load(&mailbox->ended_round) == round;
}

static bool has_work(const struct mailbox *mailbox) {
    return mailbox->has_job || mailbox->has_left_job || mailbox->has_training;
}

bool mailbox_is_busy(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    bool is_busy = has_work(mailbox) || mailbox->is_running;
    pthread_mutex_unlock(&mailbox->lock);
    return is_busy;
}

const struct member_job *mailbox_current_job(const struct mailbox *mailbox) {
    return mailbox->is_job_unanswered ? &mailbox->job : NULL;
}

void mailbox_collect_updates(struct mailbox *mailbox, struct mailbox_updates *updates) {
    uint64_t count;
    ssize_t got = read(mailbox->wake_fd, &count, sizeof count);
    (void)got; /* the number of wake-ups is not needed */
    pthread_mutex_lock(&mailbox->lock);
    updates->has_event = mailbox->has_answer;
    updates->event = mailbox->answer;
    updates->wants_to_leave = mailbox->wants_to_leave;
    updates->measured = mailbox->measured;
    memcpy(updates->stored, mailbox->stored, sizeof updates->stored);
    mailbox->wants_to_leave = false;
    pthread_mutex_unlock(&mailbox->lock);
    const struct event *event = &updates->event;
    bool is_end = updates->has_event && event->kind != EVENT_TRAINED &&
                  mailbox->is_job_unanswered && event->job == mailbox->job.job;
    updates->answered_job = is_end ? &mailbox->job : NULL;
    mailbox->is_job_unanswered = mailbox->is_job_unanswered && !is_end;
}

void mailbox_release_answer(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    ASSERT(mailbox->has_answer); /* mailbox_collect_updates was called before */
    mailbox->has_answer = false;
    pthread_cond_signal(&mailbox->answer_released);
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_publish_view(struct mailbox *mailbox, const struct member_loop_view *view) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->view = *view;
    pthread_mutex_unlock(&mailbox->lock);
}

static struct timespec time_after_ms(int timeout_ms) {
    int64_t at_ns = clock_monotonic_ns() + timeout_ms * NS_PER_MS;
    return (struct timespec){.tv_sec = at_ns / NS_PER_SECOND, .tv_nsec = at_ns % NS_PER_SECOND};
}

/* Waits until work is posted or the timeout has passed. The caller holds the lock. */
static void wait_for_work(struct mailbox *mailbox, int timeout_ms) {
    struct timespec until = time_after_ms(timeout_ms < 0 ? 0 : timeout_ms);
    int result = 0;
    while (!has_work(mailbox) && !mailbox->is_shut_down && result != ETIMEDOUT) {
        result = timeout_ms < 0
                     ? pthread_cond_wait(&mailbox->work_posted, &mailbox->lock)
                     : pthread_cond_timedwait(&mailbox->work_posted, &mailbox->lock, &until);
    }
}

/* Takes the training job. Its deadline counts from when it was posted, so the time since then is
 * subtracted. */
static void take_training(struct mailbox *mailbox, struct member_job *job) {
    *job = mailbox->training;
    mailbox->has_training = false;
    int64_t waited_ms = (clock_monotonic_ns() - mailbox->training_posted_ns) / NS_PER_MS;
    job->time_left_ms = waited_ms < job->time_left_ms ? job->time_left_ms - (uint32_t)waited_ms : 0;
}

/* Takes the next posted job: a job, else a LEFT job, else training. The caller holds the lock. */
static void take_job(struct mailbox *mailbox, struct member_job *job) {
    mailbox->running_generation = atomic_load(&mailbox->generation);
    mailbox->is_running = true;
    if (mailbox->has_job) {
        *job = mailbox->job;
        mailbox->has_job = false;
        mailbox->next_entry = (mailbox->next_entry + 1) % MAILBOX_ENTRIES;
    } else if (mailbox->has_left_job) {
        *job = (struct member_job){.kind = ACTION_LEFT, .seat = -1};
        mailbox->has_left_job = false;
    } else {
        take_training(mailbox, job);
    }
}

bool mailbox_wait_job(struct mailbox *mailbox, int timeout_ms, struct member_job *job) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->is_running = false;
    wait_for_work(mailbox, timeout_ms);
    bool is_begun = has_work(mailbox) && !mailbox->is_shut_down;
    if (is_begun) {
        take_job(mailbox, job);
    }
    pthread_mutex_unlock(&mailbox->lock);
    return is_begun;
}

bool mailbox_is_job_stale(const struct mailbox *mailbox, enum action_kind kind) {
    return (kind == ACTION_TRAIN || kind == ACTION_ADOPT) &&
           atomic_load(&mailbox->generation) != mailbox->running_generation;
}

void mailbox_post_answer(struct mailbox *mailbox, const struct event *event) {
    pthread_mutex_lock(&mailbox->lock);
    while (mailbox->has_answer && !mailbox->is_shut_down) {
        pthread_cond_wait(&mailbox->answer_released, &mailbox->lock);
    }
    mailbox->has_answer = true;
    mailbox->answer = *event;
    pthread_mutex_unlock(&mailbox->lock);
    mailbox_wake(mailbox);
}

void mailbox_request_leave(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->wants_to_leave = true;
    pthread_mutex_unlock(&mailbox->lock);
    mailbox_wake(mailbox);
}

void mailbox_set_measured_times(struct mailbox *mailbox, const struct timing_measured *measured) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->measured = *measured;
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_set_stored_states(struct mailbox *mailbox, const struct hash *roots) {
    pthread_mutex_lock(&mailbox->lock);
    memcpy(mailbox->stored, roots, sizeof mailbox->stored);
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_read_view(struct mailbox *mailbox, struct member_loop_view *view) {
    pthread_mutex_lock(&mailbox->lock);
    *view = mailbox->view;
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_shut_down(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->is_shut_down = true;
    pthread_cond_broadcast(&mailbox->work_posted);
    pthread_cond_broadcast(&mailbox->answer_released);
    pthread_mutex_unlock(&mailbox->lock);
    mailbox_wake(mailbox);
}

bool mailbox_is_shut_down(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    bool is_shut_down = mailbox->is_shut_down;
    pthread_mutex_unlock(&mailbox->lock);
    return is_shut_down;
}
