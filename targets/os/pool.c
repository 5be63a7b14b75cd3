#include "targets/os/pool.h"

#include "targets/os/futex.h"
#include "targets/os/thread.h"

#include <string.h>

/* A waiting thread first polls ("spins"), because the next kernel usually starts within tens of
 * microseconds and one poll takes 15 to 50 ns. Where threads share cores, a longer spin takes time
 * from the threads that it waits for: with four threads on two busy cores an empty pool_run takes
 * 0.4 ms at 2000 spins, 4 ms at 20000. */
enum { SPINS_BEFORE_SLEEP = 2000, WORKER_STACK_BYTES = 512 * 1024 };

struct worker_start {
    struct pool *pool;
    int thread;            /* index of the new worker; the caller is thread 0 */
    _Atomic int is_copied; /* set when the worker has copied `pool` and `thread` */
};

static void execute_items(struct pool *pool, int thread) {
    for (;;) {
        int64_t item = atomic_fetch_add_explicit(&pool->next_item, 1, memory_order_relaxed);
        if (item >= pool->item_count) {
            return;
        }
        pool->task(pool->context, item, thread);
    }
}

/* A sleeper counts itself before it reads the word a last time, and a waker reads that count after
 * it has changed the word. All four accesses are sequentially consistent, so at least one of the
 * two sees the other, and waking without sleepers costs no system call. */
static void wait_for_new_work(struct pool *pool, uint32_t seen_generation) {
    for (int spin = 0; spin < SPINS_BEFORE_SLEEP; spin++) {
        if (atomic_load_explicit(&pool->generation, memory_order_acquire) != seen_generation) {
            return;
        }
        futex_pause();
    }
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->generation) == seen_generation) {
        futex_sleep(&pool->generation, seen_generation);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void wait_for_workers(struct pool *pool) {
    for (int spin = 0; spin < SPINS_BEFORE_SLEEP; spin++) {
        if (atomic_load_explicit(&pool->busy_workers, memory_order_acquire) == 0) {
            return;
        }
        futex_pause();
    }
    atomic_store(&pool->caller_sleeps, 1);
    uint32_t busy = atomic_load(&pool->busy_workers);
    while (busy != 0) {
        futex_sleep(&pool->busy_workers, busy);
        busy = atomic_load(&pool->busy_workers);
    }
    atomic_store(&pool->caller_sleeps, 0);
}

static void *worker_main(void *argument) {
    struct worker_start *start = argument;
    struct pool *pool = start->pool;
    int thread = start->thread;
    atomic_store(&start->is_copied, 1);
    uint32_t seen_generation = 0;
    for (;;) {
        wait_for_new_work(pool, seen_generation);
        seen_generation++;
        if (atomic_load_explicit(&pool->stopping, memory_order_relaxed)) {
            return NULL;
        }
        execute_items(pool, thread);
        if (atomic_fetch_sub(&pool->busy_workers, 1) == 1 && atomic_load(&pool->caller_sleeps)) {
            futex_wake(&pool->busy_workers);
        }
    }
}

static int start_worker(struct pool *pool, int thread) {
    struct worker_start start = {.pool = pool, .thread = thread};
    int failure = thread_start(&pool->threads[thread], WORKER_STACK_BYTES, worker_main, &start);
    while (failure == 0 && !atomic_load(&start.is_copied)) {
        futex_pause();
    }
    return failure;
}

enum status pool_init(struct pool *pool, int thread_count, struct fault *fault) {
    ASSERT(thread_count >= 1 && thread_count <= THREADS_MAX);
    memset(pool, 0, sizeof *pool);
    for (int thread = 1; thread < thread_count; thread++) {
        int failure = start_worker(pool, thread);
        if (failure != 0) {
            pool->thread_count = thread;
            pool_finish(pool);
            return fault_set_errno(fault, STATUS_FAILED, "thread pool",
                                   "cannot start a compute thread", failure);
        }
    }
    pool->thread_count = thread_count;
    return OK;
}

static void post_work(struct pool *pool) {
    atomic_store_explicit(&pool->busy_workers, (uint32_t)(pool->thread_count - 1),
                          memory_order_relaxed);
    atomic_store_explicit(&pool->next_item, 0, memory_order_relaxed);
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers) != 0) {
        futex_wake(&pool->generation);
    }
}

void pool_run(struct pool *pool, pool_task *task, void *context, int64_t item_count) {
    ASSERT(!pool->running);
    pool->running = 1;
    if (pool->thread_count == 1 || item_count <= 1) {
        for (int64_t item = 0; item < item_count; item++) {
            task(context, item, 0);
        }
    } else {
        pool->task = task;
        pool->context = context;
        pool->item_count = item_count;
        post_work(pool);
        execute_items(pool, 0);
        wait_for_workers(pool);
    }
    pool->running = 0;
}

void pool_finish(struct pool *pool) {
    if (pool->thread_count > 1) {
        atomic_store(&pool->stopping, 1);
        post_work(pool);
        for (int thread = 1; thread < pool->thread_count; thread++) {
            pthread_join(pool->threads[thread], NULL);
        }
    }
    pool->thread_count = 0;
}
