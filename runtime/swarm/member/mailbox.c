#include "runtime/swarm/member/mailbox.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static size_t slices_bytes(uint32_t slice_count) {
    return slice_count * sizeof(struct entry_slice);
}

size_t mailbox_bytes(uint32_t slice_count) {
    return MAILBOX_ENTRIES * slices_bytes(slice_count) + slice_count * sizeof(struct hash);
}

enum status mailbox_open(struct mailbox *mailbox, void *memory, uint32_t slice_count,
                         struct fault *fault) {
    int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd < 0) {
        return fault_set_errno(fault, STATUS_FAILED, "swarm", "cannot make an eventfd", errno);
    }
    memset(mailbox, 0, sizeof(*mailbox));
    mailbox->wake_fd = wake_fd;
    mailbox->slice_count = slice_count;
    char *at = memory;
    for (int i = 0; i < MAILBOX_ENTRIES; i++) {
        mailbox->entries[i].slices = (struct entry_slice *)at;
        at += slices_bytes(slice_count);
    }
    mailbox->hashes = (struct hash *)at;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&mailbox->has_work, &attributes);
    pthread_cond_init(&mailbox->has_room, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&mailbox->lock, NULL);
    atomic_init(&mailbox->generation, 0);
    return OK;
}

void mailbox_close(struct mailbox *mailbox) {
    pthread_cond_destroy(&mailbox->has_work);
    pthread_cond_destroy(&mailbox->has_room);
    pthread_mutex_destroy(&mailbox->lock);
    close(mailbox->wake_fd);
}

void mailbox_wake(struct mailbox *mailbox) {
    uint64_t one = 1;
    /* It fails only when the counter is full, and then the network thread is awake anyway. */
    ssize_t written = write(mailbox->wake_fd, &one, sizeof one);
    (void)written;
}

static void set_job(struct mailbox *mailbox, const struct member_job *job) {
    ASSERT(!mailbox->has_job || mailbox->job.kind == ACTION_ADOPT); /* one at a time */
    mailbox->job = *job;
    mailbox->job.entry = NULL;
    if (job->entry != NULL) {
        entry_copy(&mailbox->entries[mailbox->next_entry], job->entry);
        mailbox->job.entry = &mailbox->entries[mailbox->next_entry];
    }
    mailbox->has_job = true;
    mailbox->is_unanswered = true;
}

void mailbox_post_job(struct mailbox *mailbox, const struct member_job *job) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->has_training = false;
    if (job->kind == ACTION_TRAIN) {
        mailbox->training = *job;
        mailbox->training_posted_ns = clock_monotonic_ns();
        mailbox->has_training = true;
    } else if (job->kind == ACTION_LEFT) {
        mailbox->has_left = true;
    } else {
        set_job(mailbox, job);
    }
    atomic_fetch_add(&mailbox->generation, 1);
    pthread_cond_signal(&mailbox->has_work);
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_cancel_job(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->has_job = false;
    mailbox->has_training = false;
    atomic_fetch_add(&mailbox->generation, 1);
    pthread_mutex_unlock(&mailbox->lock);
}

static bool has_work(const struct mailbox *mailbox) {
    return mailbox->has_job || mailbox->has_left || mailbox->has_training;
}

bool mailbox_is_busy(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    bool is_busy = has_work(mailbox) || mailbox->is_running;
    pthread_mutex_unlock(&mailbox->lock);
    return is_busy;
}

const struct member_job *mailbox_job_in_hand(const struct mailbox *mailbox) {
    return mailbox->is_unanswered ? &mailbox->job : NULL;
}

void mailbox_collect(struct mailbox *mailbox, struct mailbox_updates *updates) {
    uint64_t count;
    ssize_t got = read(mailbox->wake_fd, &count, sizeof count);
    (void)got; /* the number of wakes does not matter */
    pthread_mutex_lock(&mailbox->lock);
    updates->has_event = mailbox->has_answer;
    updates->event = mailbox->answer;
    updates->wants_to_leave = mailbox->wants_to_leave;
    updates->measured = mailbox->measured;
    mailbox->wants_to_leave = false;
    pthread_mutex_unlock(&mailbox->lock);
    const struct event *event = &updates->event;
    bool is_end = updates->has_event && event->kind != EVENT_TRAINED && mailbox->is_unanswered &&
                  event->job == mailbox->job.job;
    updates->ended = is_end ? &mailbox->job : NULL;
    mailbox->is_unanswered = mailbox->is_unanswered && !is_end;
}

void mailbox_release(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    ASSERT(mailbox->has_answer); /* by one mailbox_collect before */
    mailbox->has_answer = false;
    pthread_cond_signal(&mailbox->has_room);
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_publish_view(struct mailbox *mailbox, const struct member_loop_view *view) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->view = *view;
    pthread_mutex_unlock(&mailbox->lock);
}

static struct timespec after_ms(int timeout_ms) {
    int64_t at_ns = clock_monotonic_ns() + timeout_ms * NS_PER_MS;
    return (struct timespec){.tv_sec = at_ns / NS_PER_SECOND, .tv_nsec = at_ns % NS_PER_SECOND};
}

/* With the lock held. */
static void wait_for_work(struct mailbox *mailbox, int timeout_ms) {
    struct timespec until = after_ms(timeout_ms < 0 ? 0 : timeout_ms);
    int result = 0;
    while (!has_work(mailbox) && !mailbox->is_over && result != ETIMEDOUT) {
        result = timeout_ms < 0
                     ? pthread_cond_wait(&mailbox->has_work, &mailbox->lock)
                     : pthread_cond_timedwait(&mailbox->has_work, &mailbox->lock, &until);
    }
}

/* The deadline runs from the post, so the time that the job waited is subtracted. */
static void begin_training(struct mailbox *mailbox, struct member_job *job) {
    *job = mailbox->training;
    mailbox->has_training = false;
    int64_t waited_ms = (clock_monotonic_ns() - mailbox->training_posted_ns) / NS_PER_MS;
    job->deadline_ms = waited_ms < job->deadline_ms ? job->deadline_ms - (uint32_t)waited_ms : 0;
}

static void begin(struct mailbox *mailbox, struct member_job *job) {
    mailbox->running_generation = atomic_load(&mailbox->generation);
    mailbox->is_running = true;
    if (mailbox->has_job) {
        *job = mailbox->job;
        mailbox->has_job = false;
        mailbox->next_entry = (mailbox->next_entry + 1) % MAILBOX_ENTRIES;
    } else if (mailbox->has_left) {
        *job = (struct member_job){.kind = ACTION_LEFT, .seat = -1};
        mailbox->has_left = false;
    } else {
        begin_training(mailbox, job);
    }
}

bool mailbox_wait_job(struct mailbox *mailbox, int timeout_ms, struct member_job *job) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->is_running = false;
    wait_for_work(mailbox, timeout_ms);
    bool is_begun = has_work(mailbox) && !mailbox->is_over;
    if (is_begun) {
        begin(mailbox, job);
    }
    pthread_mutex_unlock(&mailbox->lock);
    return is_begun;
}

bool mailbox_is_stale(const struct mailbox *mailbox, enum action_kind kind) {
    return (kind == ACTION_TRAIN || kind == ACTION_ADOPT) &&
           atomic_load(&mailbox->generation) != mailbox->running_generation;
}

void mailbox_answer(struct mailbox *mailbox, const struct event *event) {
    pthread_mutex_lock(&mailbox->lock);
    while (mailbox->has_answer && !mailbox->is_over) {
        pthread_cond_wait(&mailbox->has_room, &mailbox->lock);
    }
    mailbox->has_answer = true;
    mailbox->answer = *event;
    if (event->hashes != NULL) {
        memcpy(mailbox->hashes, event->hashes, mailbox->slice_count * sizeof(struct hash));
        mailbox->answer.hashes = mailbox->hashes;
    }
    mailbox->is_running = false;
    pthread_mutex_unlock(&mailbox->lock);
    mailbox_wake(mailbox);
}

void mailbox_request_leave(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->wants_to_leave = true;
    pthread_mutex_unlock(&mailbox->lock);
    mailbox_wake(mailbox);
}

void mailbox_set_measured(struct mailbox *mailbox, const struct timing_measured *measured) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->measured = *measured;
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_read_view(struct mailbox *mailbox, struct member_loop_view *view) {
    pthread_mutex_lock(&mailbox->lock);
    *view = mailbox->view;
    pthread_mutex_unlock(&mailbox->lock);
}

void mailbox_end(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    mailbox->is_over = true;
    pthread_cond_broadcast(&mailbox->has_work);
    pthread_cond_broadcast(&mailbox->has_room);
    pthread_mutex_unlock(&mailbox->lock);
    mailbox_wake(mailbox);
}

bool mailbox_is_over(struct mailbox *mailbox) {
    pthread_mutex_lock(&mailbox->lock);
    bool is_over = mailbox->is_over;
    pthread_mutex_unlock(&mailbox->lock);
    return is_over;
}
