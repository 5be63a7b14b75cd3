/* pool: the thread pool that runs all CPU compute. Work is divided into items by shape, never by
 * thread count, so that results do not depend on it. */
#ifndef SKEP_TARGETS_OS_POOL_H
#define SKEP_TARGETS_OS_POOL_H

#include "base/fault.h"
#include "base/limits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* One item of work. `thread` in [0, pool->thread_count) selects private scratch memory; results
 * must not depend on it. */
typedef void pool_task(void *context, int64_t item, int thread);

struct pool {
    int thread_count; /* number of threads, including the caller, which is thread 0 */
    pthread_t threads[THREADS_MAX];
    pool_task *task;                        /* function that pool_run calls for each item */
    void *context;                          /* first argument of every call of `task` */
    int64_t item_count;                     /* number of items of the current call of pool_run */
    int running;                            /* 1 while pool_run is executing */
    _Alignas(64) _Atomic int64_t next_item; /* index of the next item to run */
    /* incremented when work is posted; workers sleep on it */
    _Alignas(64) _Atomic uint32_t generation;
    _Alignas(64) _Atomic uint32_t busy_workers; /* workers that have not finished the posted work */
    _Alignas(64) _Atomic uint32_t sleepers; /* number of workers that may sleep on `generation` */
    _Atomic uint32_t caller_sleeps;         /* 1: the caller may sleep on `busy_workers` */
    _Atomic int stopping; /* 1: pool_finish was called, and the workers must exit */
};

/* pool_init: start thread_count - 1 workers. Only the calling thread receives signals.
 * limits  1 <= thread_count <= THREADS_MAX
 * memory  caller's struct, and a stack for each worker, of which at most 64 KiB are touched
 * errors  STATUS_FAILED when a thread cannot be started; no worker is left running then */
MUST_CHECK enum status pool_init(struct pool *pool, int thread_count, struct fault *fault);

/* pool_run: call task(context, i, thread) once for every i in [0, item_count), in any order, and
 * return when all are done. Threads take items one at a time. The caller sees everything that the
 * tasks wrote. Never allocates. Not reentrant; only the thread that called pool_init may call
 * it. */
void pool_run(struct pool *pool, pool_task *task, void *context, int64_t item_count);

/* pool_finish: stop and join the workers. */
void pool_finish(struct pool *pool);

#endif
