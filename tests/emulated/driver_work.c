/* driver_work: queued work runs, in an order drawn among all that are allowed. */
#include "tests/emulated/driver_parts.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QUEUES_MAX = 512, CHANGES_ONE_IN = 4, MOOD_LASTS = 24 };

/* How many pieces run at most while a call enqueues another: the device is idle for a while, keeps
 * up, or falls behind. */
static const uint32_t MOODS[] = {0, 0, 1, 2, 6};

void work_add_queue(struct work_queue *queue) {
    queue->next = emulated.queues;
    emulated.queues = queue;
}

void work_remove_queue(struct work_queue *queue) {
    for (struct work_queue **at = &emulated.queues; *at != NULL; at = &(*at)->next) {
        if (*at == queue) {
            *at = queue->next;
            return;
        }
    }
}

bool work_done(struct moment moment) {
    return moment.queue == NULL || moment.queue->completed > moment.place;
}

static struct work *head_of(const struct work_queue *queue) {
    return queue->completed < queue->issued ? &queue->pieces[queue->completed % queue->capacity]
                                            : NULL;
}

/* A graph begins when no other launch of it runs, and ends when all its pieces have run. */
static bool may_run(const struct work_queue *queue) {
    const struct work *work = head_of(queue);
    if (work == NULL || !work_done(work->after)) {
        return false;
    }
    if (work->kind == WORK_HOST && work->as.host.ready != NULL && emulated.broken == CUDA_SUCCESS) {
        return work->as.host.ready(work->as.host.context);
    }
    return work->kind != WORK_GRAPH || !graph_running(work->as.graph);
}

static void check_range(const void *address, size_t bytes, const char *what) {
    enum place_kind kind;
    if (emulated.broken == CUDA_SUCCESS && memory_place(address, bytes, &kind) != CUDA_SUCCESS) {
        emulated.broken = CUDA_ERROR_ILLEGAL_ADDRESS;
        emulated.reason_code = CUDA_ERROR_ILLEGAL_ADDRESS;
        size_t length = strlen(emulated.reason);
        snprintf(emulated.reason + length, sizeof emulated.reason - length, ", when a %s ran",
                 what);
    }
}

static void move_bytes(struct work *work) {
    char *to = work->as.move.to;
    check_range(to, work->as.move.bytes, work->kind == WORK_COPY ? "copy" : "fill");
    const char *from = work->as.move.staged;
    if (work->kind == WORK_COPY && from == NULL) {
        from = work->as.move.from;
        check_range(from, work->as.move.bytes, "copy");
    }
    if (emulated.broken == CUDA_SUCCESS && work->kind == WORK_COPY) {
        memmove(to, from, work->as.move.bytes);
    } else if (emulated.broken == CUDA_SUCCESS) {
        memset(to, work->as.move.value, work->as.move.bytes);
    }
    free(work->as.move.staged);
    work->as.move.staged = NULL;
}

/* A function of the host's sees what the host sees; one that stands for a library's kernel sees the
 * device's memory. */
static void run_host(const struct work *work) {
    int depth = emulated.open_depth;
    for (int i = 0; work->as.host.closed && i < depth; i++) {
        memory_close();
    }
    work->as.host.run(work->as.host.context);
    while (emulated.open_depth < depth) {
        memory_open();
    }
}

static void carry_out(struct work *work) {
    bool real = work->kind != WORK_MARK && work->kind != WORK_WAIT && work->kind != WORK_GRAPH;
    if (real && emulated.broken == CUDA_SUCCESS) {
        emulated.broken = driver_work_failure();
    }
    if (real && !(work->kind == WORK_HOST && work->as.host.closed)) {
        memory_use();
    }
    switch (work->kind) {
    case WORK_MARK:
        if (work->as.mark != NULL) {
            work->as.mark->time_ns = clock_monotonic_ns();
        }
        break;
    case WORK_COPY:
    case WORK_FILL:
        move_bytes(work);
        break;
    case WORK_KERNEL:
        if (emulated.broken == CUDA_SUCCESS) {
            work->as.launch.code->run(work->as.launch.code, work->as.launch.grid,
                                      work->as.launch.threads, work->as.launch.shared_bytes,
                                      work->as.launch.params);
        }
        break;
    case WORK_HOST:
        if (emulated.broken == CUDA_SUCCESS) {
            run_host(work);
        }
        break;
    case WORK_GRAPH:
        graph_launch_end(work->as.graph);
        break;
    case WORK_WAIT:
        break;
    }
}

static void run_head(struct work_queue *queue) {
    struct work *work = head_of(queue);
    if (work->kind == WORK_GRAPH && !work->begun) {
        work->begun = true;
        graph_launch_begin(work->as.graph);
        return;
    }
    carry_out(work);
    work->begun = false;
    queue->completed++;
}

static bool step(void) {
    struct work_queue *ready[QUEUES_MAX];
    uint32_t count = 0;
    struct work_queue *chosen = NULL;
    for (struct work_queue *queue = emulated.queues; queue != NULL; queue = queue->next) {
        if (may_run(queue)) {
            ASSERT(count < QUEUES_MAX);
            ready[count++] = queue;
            chosen = queue == emulated.favourite ? queue : chosen;
        }
    }
    if (count == 0) {
        return false;
    }
    if (chosen == NULL || driver_draw(CHANGES_ONE_IN) == 0) {
        chosen = ready[driver_draw(count)];
        emulated.favourite = chosen;
    }
    run_head(chosen);
    return true;
}

static bool waits_for_others(const struct work_queue *queue) {
    const struct work *work = head_of(queue);
    return work != NULL && work_done(work->after) && work->kind == WORK_HOST &&
           work->as.host.ready != NULL;
}

/* Nothing can run, but another process may change that. */
static bool await_others(void) {
    for (const struct work_queue *queue = emulated.queues; queue != NULL; queue = queue->next) {
        if (waits_for_others(queue)) {
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
            return true;
        }
    }
    return false;
}

void work_run_until(struct moment moment) {
    memory_open();
    while (!work_done(moment)) {
        /* what is waited for was enqueued before: something can always run, here or there */
        ASSERT(step() || await_others());
    }
    memory_close();
}

void work_try_until(struct moment moment) {
    memory_open();
    while (!work_done(moment) && step()) {
    }
    memory_close();
}

void work_run_queue(struct work_queue *queue) {
    if (queue->issued > 0) {
        work_run_until((struct moment){queue, queue->issued - 1});
    }
}

void work_run_all(void) {
    memory_open();
    while (step() || await_others()) {
    }
    memory_close();
}

void work_run_some(void) {
    enum emulated_pace pace = emulated.options.pace;
    if (pace == EMULATED_EARLY) {
        memory_open();
        while (step()) {
        }
        memory_close();
        return;
    }
    if (emulated.draws == 0 || driver_draw(MOOD_LASTS) == 0) {
        emulated.mood = MOODS[driver_draw(ARRAY_COUNT(MOODS))];
    }
    uint32_t steps = pace == EMULATED_LATE ? 0 : driver_draw(emulated.mood + 1);
    if (steps > 0) {
        memory_open();
        while (steps-- > 0 && step()) {
        }
        memory_close();
    }
}

bool work_queued(void) {
    for (const struct work_queue *queue = emulated.queues; queue != NULL; queue = queue->next) {
        if (queue->completed < queue->issued) {
            return true;
        }
    }
    return false;
}

struct work *work_next(struct work_queue *queue) {
    if (queue->issued - queue->completed == queue->capacity) {
        work_run_until((struct moment){queue, queue->completed});
    }
    struct work *work = &queue->pieces[queue->issued % queue->capacity];
    work->begun = false;
    work->after = (struct moment){NULL, 0};
    return work;
}
