/* Tests of targets/pool: every item once, at any thread count; sleeping, waking and stopping. */
#include "base/clock.h"
#include "targets/os/pool.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

enum { ITEMS_MAX = 5000 };

static const int64_t WAIT_NS = 20000000000; /* only a broken pool makes a test wait that long */

struct tally {
    int thread_count;
    int64_t item_count;
    int calls[ITEMS_MAX]; /* plain: each item's slot is written by one thread only */
    _Atomic int bad_threads;
    _Atomic int64_t total;
};

static struct fault fault;
static struct pool pool;
static struct tally tally;

static void count_item(void *context, int64_t item, int thread) {
    struct tally *counted = context;
    if (thread < 0 || thread >= counted->thread_count) {
        atomic_fetch_add(&counted->bad_threads, 1);
    }
    counted->calls[item]++;
    atomic_fetch_add_explicit(&counted->total, item, memory_order_relaxed);
}

static void run_and_check(int64_t item_count) {
    memset(&tally, 0, sizeof tally);
    tally.thread_count = pool.thread_count;
    pool_run(&pool, count_item, &tally, item_count);
    for (int64_t i = 0; i < ITEMS_MAX; i++) {
        if (tally.calls[i] != (i < item_count)) {
            fail_msg("%d threads, %lld items: item %lld ran %d times", pool.thread_count,
                     (long long)item_count, (long long)i, tally.calls[i]);
        }
    }
    assert_int_equal(tally.bad_threads, 0);
    assert_int_equal(tally.total, item_count * (item_count - 1) / 2);
}

static void run_calls_every_item_once_at_any_thread_count(void **state) {
    (void)state;
    static const int THREADS[] = {1, 2, 3, 8, 33};
    static const int64_t ITEMS[] = {0, 1, 2, 3, 7, 64, 1000, ITEMS_MAX};
    for (size_t t = 0; t < ARRAY_COUNT(THREADS); t++) {
        assert_int_equal(pool_init(&pool, THREADS[t], &fault), OK);
        assert_int_equal(pool.thread_count, THREADS[t]);
        for (size_t i = 0; i < ARRAY_COUNT(ITEMS); i++) {
            run_and_check(ITEMS[i]);
        }
        pool_finish(&pool);
        assert_int_equal(pool.thread_count, 0);
    }
}

static void run_makes_plain_writes_visible_when_runs_follow_at_once(void **state) {
    (void)state;
    assert_int_equal(pool_init(&pool, 4, &fault), OK);
    for (int round = 0; round < 300; round++) {
        run_and_check(2 + round % 9);
    }
    pool_finish(&pool);
}

static void wait_for_sleepers(uint32_t count) {
    int64_t limit = clock_monotonic_ns() + WAIT_NS;
    while (atomic_load(&pool.sleepers) < count) {
        assert_true(clock_monotonic_ns() < limit);
        sched_yield();
    }
}

static void run_wakes_workers_that_went_to_sleep(void **state) {
    (void)state;
    assert_int_equal(pool_init(&pool, 3, &fault), OK);
    for (int round = 0; round < 5; round++) {
        int64_t limit = clock_monotonic_ns() + 5000000000;
        while (atomic_load(&pool.sleepers) < 2) {
            assert_true(clock_monotonic_ns() < limit);
            sched_yield();
        }
        run_and_check(50);
    }
    pool_finish(&pool);
}

/* Holds its item back until every thread has one: passes only if all of them work at once. */
static void meet_all(void *context, int64_t item, int thread) {
    (void)item;
    (void)thread;
    struct tally *counted = context;
    atomic_fetch_add(&counted->total, 1);
    int64_t limit = clock_monotonic_ns() + WAIT_NS;
    while (atomic_load(&counted->total) < counted->item_count && clock_monotonic_ns() < limit) {
        sched_yield();
    }
    if (atomic_load(&counted->total) < counted->item_count) {
        atomic_fetch_add(&counted->bad_threads, 1);
    }
}

static void run_uses_all_threads_at_once(void **state) {
    (void)state;
    memset(&tally, 0, sizeof tally);
    tally.item_count = 6;
    assert_int_equal(pool_init(&pool, 6, &fault), OK);
    pool_run(&pool, meet_all, &tally, 6);
    assert_int_equal(tally.bad_threads, 0);
    pool_finish(&pool);
}

/* The worker holds its item back until the caller has run out of its own and gone to sleep. */
static void outlast_the_caller(void *context, int64_t item, int thread) {
    (void)item;
    struct tally *counted = context;
    int64_t limit = clock_monotonic_ns() + WAIT_NS;
    if (thread != 0) {
        while (!atomic_load(&pool.caller_sleeps) && clock_monotonic_ns() < limit) {
            sched_yield();
        }
        if (!atomic_load(&pool.caller_sleeps)) {
            atomic_fetch_add(&counted->bad_threads, 1);
        }
        atomic_fetch_add(&counted->total, 1);
    } else {
        while (atomic_load(&pool.next_item) < 2) {
            sched_yield();
        }
    }
}

static void run_sleeps_until_a_slow_worker_is_done(void **state) {
    (void)state;
    assert_int_equal(pool_init(&pool, 2, &fault), OK);
    for (int round = 0; round < 10; round++) {
        memset(&tally, 0, sizeof tally);
        pool_run(&pool, outlast_the_caller, &tally, 2);
        assert_int_equal(atomic_load(&pool.busy_workers), 0);
        assert_int_equal(tally.bad_threads, 0);
        assert_true(tally.total >= 1);
    }
    pool_finish(&pool);
}

static void finish_stops_workers_awake_or_asleep(void **state) {
    (void)state;
    for (int round = 0; round < 20; round++) {
        assert_int_equal(pool_init(&pool, 4, &fault), OK);
        if (round % 2 == 1) {
            wait_for_sleepers(3);
        }
        pool_finish(&pool);
    }
}

static void report_blocked_signals(void *context, int64_t item, int thread) {
    (void)item;
    struct tally *counted = context;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    if ((thread == 0) == sigismember(&mask, SIGTERM)) {
        atomic_fetch_add(&counted->bad_threads, 1);
    }
    meet_all(context, item, thread);
}

static void workers_leave_signals_to_the_caller(void **state) {
    (void)state;
    memset(&tally, 0, sizeof tally);
    tally.item_count = 3;
    assert_int_equal(pool_init(&pool, 3, &fault), OK);
    pool_run(&pool, report_blocked_signals, &tally, 3);
    assert_int_equal(tally.bad_threads, 0);
    pool_finish(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_calls_every_item_once_at_any_thread_count),
        cmocka_unit_test(run_makes_plain_writes_visible_when_runs_follow_at_once),
        cmocka_unit_test(run_wakes_workers_that_went_to_sleep),
        cmocka_unit_test(run_uses_all_threads_at_once),
        cmocka_unit_test(run_sleeps_until_a_slow_worker_is_done),
        cmocka_unit_test(finish_stops_workers_awake_or_asleep),
        cmocka_unit_test(workers_leave_signals_to_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
