#include "runtime/program/lanes.h"

#include "targets/os/futex.h"
#include "targets/os/thread.h"

#include <string.h>

/* A waiting thread polls SPINS_BEFORE_SLEEP times and then sleeps. Polling lasts a few
 * microseconds, the time between two neighbouring instructions. Where ranks share cores, longer
 * polling delays the thread that the poller waits for. */
enum { SPINS_BEFORE_SLEEP = 100, LANE_STACK_BYTES = 512 * 1024 };

/* Waits until *word is `value`. A sleeping thread publishes the word that it sleeps on before it
 * reads the word a last time. A waking thread looks for sleepers after it has changed the word. All
 * accesses are sequentially consistent, so at least one of the two threads sees the write of the
 * other. A change without sleepers costs no system call. */
static void wait_until_equal(struct lane_thread *lane, _Atomic uint32_t *word, uint32_t value) {
    for (int spin = 0; spin < SPINS_BEFORE_SLEEP; spin++) {
        if (atomic_load_explicit(word, memory_order_acquire) == value) {
            return;
        }
        futex_pause();
    }
    atomic_store(&lane->sleeps_on, word);
    for (uint32_t seen = atomic_load(word); seen != value; seen = atomic_load(word)) {
        futex_sleep(word, seen);
    }
    atomic_store(&lane->sleeps_on, NULL);
}

static void set_word_and_wake(struct lanes *lanes, _Atomic uint32_t *word, uint32_t value) {
    atomic_store(word, value);
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        if (atomic_load(&lanes->threads[lane].sleeps_on) == word) {
            futex_wake(word);
        }
    }
}

static void *lane_main(void *argument) {
    struct lane_thread *lane = argument;
    struct lanes *lanes = lane->lanes;
    for (uint32_t run = 1;; run++) {
        wait_until_equal(lane, &lane->posted, run);
        if (atomic_load_explicit(&lanes->stopping, memory_order_relaxed)) {
            return NULL;
        }
        lanes->work(lanes->context, lane->lane);
        set_word_and_wake(lanes, &lane->finished, run);
    }
}

enum status lanes_init(struct lanes *lanes, const struct lanes_args *args, struct region *region,
                       struct fault *fault) {
    ASSERT((args->mask & (1u << LANE_COMPUTE)) == 0 && args->mask < 1u << LANE_COUNT);
    memset(lanes, 0, sizeof *lanes);
    lanes->work = args->work;
    lanes->context = args->context;
    lanes->event_count = args->event_count;
    lanes->events = region_alloc(region, (size_t)args->event_count + 1, sizeof *lanes->events);
    for (int i = 0; i < LANE_COUNT; i++) {
        struct lane_thread *lane = &lanes->threads[i];
        lane->lanes = lanes;
        lane->lane = (enum lane)i;
        if ((args->mask & 1u << i) == 0) {
            continue;
        }
        int failure = thread_start(&lane->thread, LANE_STACK_BYTES, lane_main, lane);
        if (failure != 0) {
            lanes_finish(lanes);
            return fault_set_errno(fault, STATUS_FAILED, "lanes", "cannot start a lane's thread",
                                   failure);
        }
        lanes->mask |= 1u << i;
    }
    return OK;
}

/* Lets the threads of the lanes in `mask` begin the current call of lanes_run. */
static void post_run(struct lanes *lanes, unsigned mask) {
    for (int i = 0; i < LANE_COUNT; i++) {
        struct lane_thread *lane = &lanes->threads[i];
        if ((mask & 1u << i) != 0) {
            set_word_and_wake(lanes, &lane->posted, ++lane->posted_runs);
        }
    }
}

void lanes_run(struct lanes *lanes, unsigned mask) {
    ASSERT((mask & ~lanes->mask) == 0);
    /* run_number is never 0, because events are 0 before they are first signalled */
    lanes->run_number += lanes->run_number == UINT32_MAX ? 2 : 1;
    post_run(lanes, mask);
    lanes->work(lanes->context, LANE_COMPUTE);
    lanes_wait_all(lanes);
}

/* A lane that is not part of the current call of lanes_run has already finished its last one. */
void lanes_wait_all(struct lanes *lanes) {
    for (int i = 0; i < LANE_COUNT; i++) {
        struct lane_thread *lane = &lanes->threads[i];
        wait_until_equal(&lanes->threads[LANE_COMPUTE], &lane->finished, lane->posted_runs);
    }
}

void lanes_signal_event(struct lanes *lanes, uint32_t event) {
    ASSERT(event != EVENT_NONE && event <= lanes->event_count);
    set_word_and_wake(lanes, &lanes->events[event], lanes->run_number);
}

bool lanes_is_event_signalled(const struct lanes *lanes, uint32_t event) {
    ASSERT(event != EVENT_NONE && event <= lanes->event_count);
    return atomic_load_explicit(&lanes->events[event], memory_order_acquire) == lanes->run_number;
}

void lanes_wait_for_event(struct lanes *lanes, enum lane lane, uint32_t event) {
    ASSERT(event != EVENT_NONE && event <= lanes->event_count);
    wait_until_equal(&lanes->threads[lane], &lanes->events[event], lanes->run_number);
}

void lanes_finish(struct lanes *lanes) {
    atomic_store(&lanes->stopping, 1);
    post_run(lanes, lanes->mask);
    for (int i = 0; i < LANE_COUNT; i++) {
        if ((lanes->mask & 1u << i) != 0) {
            pthread_join(lanes->threads[i].thread, NULL);
        }
    }
    lanes->mask = 0;
}
