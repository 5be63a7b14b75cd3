#include "runtime/swarm/member/work_post.h"

#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int64_t MS = 1000000;
static const int64_t SECOND_NS = 1000000000;

static size_t lines_bytes(uint32_t slice_count) {
    return slice_count * sizeof(struct entry_slice);
}

size_t mailbox_bytes(uint32_t slice_count) {
    return WORK_ENTRIES * lines_bytes(slice_count) + slice_count * sizeof(struct hash);
}

enum status mailbox_open(struct mailbox *post, void *memory, uint32_t slice_count,
                         struct fault *fault) {
    int wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd < 0) {
        return fault_set_errno(fault, STATUS_FAILED, "swarm", "cannot make an eventfd", errno);
    }
    memset(post, 0, sizeof(*post));
    post->wake_fd = wake_fd;
    post->slice_count = slice_count;
    char *at = memory;
    for (int i = 0; i < WORK_ENTRIES; i++) {
        post->entries[i].slices = (struct entry_slice *)at;
        at += lines_bytes(slice_count);
    }
    post->hashes = (struct hash *)at;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&post->given, &attributes);
    pthread_cond_init(&post->taken, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&post->lock, NULL);
    atomic_init(&post->newest, 0);
    return OK;
}

void mailbox_close(struct mailbox *post) {
    pthread_cond_destroy(&post->given);
    pthread_cond_destroy(&post->taken);
    pthread_mutex_destroy(&post->lock);
    close(post->wake_fd);
}

void mailbox_wake(struct mailbox *post) {
    uint64_t one = 1;
    /* It fails only when the counter is full, and then the talking thread is awake anyway. */
    ssize_t written = write(post->wake_fd, &one, sizeof one);
    (void)written;
}

void mailbox_post_job(struct mailbox *post, const struct member_job *work) {
    pthread_mutex_lock(&post->lock);
    post->has_train = false;
    if (work->kind == ACTION_TRAIN) {
        post->train = *work;
        post->train_given_ns = clock_monotonic_ns();
        post->has_train = true;
    } else {
        post->job = *work;
        post->job.entry = NULL;
        if (work->entry != NULL) {
            entry_copy(&post->entries[post->job_entry], work->entry);
            post->job.entry = &post->entries[post->job_entry];
        }
        post->has_job = true;
    }
    atomic_fetch_add(&post->newest, 1);
    pthread_cond_signal(&post->given);
    pthread_mutex_unlock(&post->lock);
}

void mailbox_cancel_job(struct mailbox *post) {
    pthread_mutex_lock(&post->lock);
    post->has_job = false;
    post->has_train = false;
    atomic_fetch_add(&post->newest, 1);
    pthread_mutex_unlock(&post->lock);
}

bool mailbox_is_busy(struct mailbox *post) {
    pthread_mutex_lock(&post->lock);
    bool is_busy = post->has_job || post->has_train || post->is_running;
    pthread_mutex_unlock(&post->lock);
    return is_busy;
}

void mailbox_collect(struct mailbox *post, struct mailbox_updates *news) {
    uint64_t count;
    ssize_t got = read(post->wake_fd, &count, sizeof count);
    (void)got; /* how often it was woken does not matter */
    pthread_mutex_lock(&post->lock);
    news->has_event = post->has_answer;
    news->event = post->answer;
    news->wants_to_leave = post->wants_to_leave;
    news->measured = post->measured;
    post->wants_to_leave = false;
    pthread_mutex_unlock(&post->lock);
}

void mailbox_release(struct mailbox *post) {
    pthread_mutex_lock(&post->lock);
    post->has_answer = false;
    pthread_cond_signal(&post->taken);
    pthread_mutex_unlock(&post->lock);
}

void mailbox_publish_view(struct mailbox *post, const struct member_loop_view *view) {
    pthread_mutex_lock(&post->lock);
    post->view = *view;
    pthread_mutex_unlock(&post->lock);
}

static struct timespec after_ms(int timeout_ms) {
    int64_t at_ns = clock_monotonic_ns() + timeout_ms * MS;
    return (struct timespec){.tv_sec = at_ns / SECOND_NS, .tv_nsec = at_ns % SECOND_NS};
}

/* Until there is work, the end has come or the time has passed; with the lock held. */
static void wait_for_work(struct mailbox *post, int timeout_ms) {
    struct timespec until = after_ms(timeout_ms < 0 ? 0 : timeout_ms);
    int result = 0;
    while (!post->has_job && !post->has_train && !post->is_over && result != ETIMEDOUT) {
        result = timeout_ms < 0 ? pthread_cond_wait(&post->given, &post->lock)
                                : pthread_cond_timedwait(&post->given, &post->lock, &until);
    }
}

static void begin_job(struct mailbox *post) {
    post->running = post->job;
    post->has_job = false;
    post->job_entry = (post->job_entry + 1) % WORK_ENTRIES;
}

/* The time that it lay here is not to train in. */
static void begin_training(struct mailbox *post) {
    post->running = post->train;
    post->has_train = false;
    int64_t waited_ms = (clock_monotonic_ns() - post->train_given_ns) / MS;
    uint32_t *deadline_ms = &post->running.deadline_ms;
    *deadline_ms = waited_ms < *deadline_ms ? *deadline_ms - (uint32_t)waited_ms : 0;
}

bool mailbox_wait_job(struct mailbox *post, int timeout_ms, struct member_job *work) {
    pthread_mutex_lock(&post->lock);
    post->is_running = false;
    wait_for_work(post, timeout_ms);
    bool has_work = (post->has_job || post->has_train) && !post->is_over;
    if (has_work) {
        post->running_number = atomic_load(&post->newest);
        if (post->has_job) {
            begin_job(post);
        } else {
            begin_training(post);
        }
        post->is_running = true;
        *work = post->running;
    }
    pthread_mutex_unlock(&post->lock);
    return has_work;
}

bool mailbox_is_stale(const struct mailbox *post, enum action_kind kind) {
    return (kind == ACTION_TRAIN || kind == ACTION_ADOPT) &&
           atomic_load(&post->newest) != post->running_number;
}

struct entry *mailbox_entry(struct mailbox *post) {
    ASSERT(post->running.entry != NULL);
    return &post->entries[(post->job_entry + 1) % WORK_ENTRIES];
}

void mailbox_answer(struct mailbox *post, const struct event *event) {
    pthread_mutex_lock(&post->lock);
    while (post->has_answer && !post->is_over) {
        pthread_cond_wait(&post->taken, &post->lock);
    }
    post->has_answer = true;
    post->answer = *event;
    if (event->hashes != NULL) {
        memcpy(post->hashes, event->hashes, post->slice_count * sizeof(struct hash));
        post->answer.hashes = post->hashes;
    }
    post->is_running = false;
    pthread_mutex_unlock(&post->lock);
    mailbox_wake(post);
}

void mailbox_request_leave(struct mailbox *post) {
    pthread_mutex_lock(&post->lock);
    post->wants_to_leave = true;
    pthread_mutex_unlock(&post->lock);
    mailbox_wake(post);
}

void mailbox_set_measured(struct mailbox *post, const struct timing_measured *measured) {
    pthread_mutex_lock(&post->lock);
    post->measured = *measured;
    pthread_mutex_unlock(&post->lock);
}

void mailbox_read_view(struct mailbox *post, struct member_loop_view *view) {
    pthread_mutex_lock(&post->lock);
    *view = post->view;
    pthread_mutex_unlock(&post->lock);
}

void mailbox_end(struct mailbox *post) {
    pthread_mutex_lock(&post->lock);
    post->is_over = true;
    pthread_cond_broadcast(&post->given);
    pthread_cond_broadcast(&post->taken);
    pthread_mutex_unlock(&post->lock);
    mailbox_wake(post);
}
