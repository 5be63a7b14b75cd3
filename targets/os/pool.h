/* pool: the one thread pool that runs all compute. Work is cut into items by shape, never by
 * thread, so that results do not depend on the thread count. */
#ifndef SKEP_TARGETS_OS_POOL_H
#define SKEP_TARGETS_OS_POOL_H

#include "base/fault.h"
#include "base/limits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* One item of work. `thread` in [0, pool->thread_count) names private scratch; results must not
 * depend on it. */
typedef void pool_task(void *context, int64_t item, int thread);

struct pool {
    int thread_count; /* the caller is thread 0 */
    pthread_t threads[THREADS_MAX];
    pool_task *task;
    void *context;
    int64_t item_count;
    int running; /* inside pool_run */
    _Alignas(64) _Atomic int64_t next_item;
    _Alignas(64) _Atomic uint32_t generation; /* raised when work is posted; waited on by futex */
    _Alignas(64) _Atomic uint32_t busy;       /* workers that have not finished this generation */
    _Alignas(64) _Atomic uint32_t sleepers;   /* workers that may sleep on `generation` */
    _Atomic uint32_t caller_sleeps;           /* the caller may sleep on `busy` */
    _Atomic int stopping;
};

/* pool_init: start thread_count - 1 workers. Signals are left to the calling thread.
 * limits  1 <= thread_count <= THREADS_MAX
 * memory  caller's struct; the C library's thread stacks (64 KiB each is touched at most)
 * errors  STATUS_FAILED when a thread cannot be started; none is left running then */
MUST_CHECK enum status pool_init(struct pool *pool, int thread_count, struct fault *fault);

/* pool_run: call task(context, i, thread) once for every i in [0, item_count), in any order, and
 * come back when all are done. Items are dealt one by one; what the tasks wrote is visible to the
 * caller. Never allocates. Not reentrant, and only for the thread that called pool_init. */
void pool_run(struct pool *pool, pool_task *task, void *context, int64_t item_count);

/* pool_finish: stop and join the workers. */
void pool_finish(struct pool *pool);

#endif
