/* lanes: one thread for each lane of a program except the compute lane, which the caller's thread
 * executes, and the events between them. A waiting thread polls a few times and then sleeps,
 * because there may be fewer cores than lanes. */
#ifndef SKEP_PROGRAM_LANES_H
#define SKEP_PROGRAM_LANES_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/schedule/schedule.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* Called on the thread of `lane` to execute its part of the current call of lanes_run. */
typedef void lane_work(void *context, enum lane lane);

struct lanes;

struct lane_thread {
    struct lanes *lanes; /* the lanes that this thread belongs to */
    enum lane lane;      /* lane that this thread executes */
    pthread_t thread;
    /* number of calls of lanes_run for this lane so far; only the caller's thread reads it */
    uint32_t posted_runs;
    _Alignas(64) _Atomic uint32_t posted; /* copy of posted_runs that the thread waits for */
    /* number of calls of lanes_run that this thread has finished */
    _Atomic uint32_t finished;
    _Atomic(_Atomic uint32_t *) sleeps_on; /* address of the word whose change wakes this lane */
};

struct lanes {
    lane_work *work;      /* function that each thread calls once per call of lanes_run */
    void *context;        /* first argument of `work` */
    unsigned mask;        /* bit 1 << lane for each lane that has a thread */
    uint32_t event_count; /* event numbers are [1, event_count] */
    uint32_t run_number;  /* number of the current call of lanes_run */
    /* [event_count + 1]: number of the last call of lanes_run in which the event was signalled;
     * never cleared */
    _Atomic uint32_t *events;
    _Atomic int stopping;                   /* whether the threads must end */
    struct lane_thread threads[LANE_COUNT]; /* threads[LANE_COMPUTE] is the caller's thread */
};

/* lanes_init: start a thread for each lane in `mask` (bit 1 << lane; never LANE_COMPUTE). Only the
 * calling thread receives signals.
 * memory  events in `region`; thread stacks of the C library, of fixed size
 * errors  STATUS_FAILED when a thread cannot be started; no thread is then left running */
struct lanes_args {
    lane_work *work;
    void *context;
    unsigned mask;
    uint32_t event_count;
};
MUST_CHECK enum status lanes_init(struct lanes *lanes, const struct lanes_args *args,
                                  struct region *region, struct fault *fault);

/* lanes_run: execute one run: call work(context, lane) on the thread of each lane in `mask`, a
 * subset of the started ones, and for LANE_COMPUTE on the caller's thread. Returns when all lanes
 * are done; the caller then sees all their writes. With an empty `mask` it only calls
 * LANE_COMPUTE's work. Never allocates. */
void lanes_run(struct lanes *lanes, unsigned mask);

/* Signal, test or await an event of the current call of lanes_run. These functions are called on
 * the threads of lanes. */
void lanes_signal_event(struct lanes *lanes, uint32_t event);
bool lanes_is_event_signalled(const struct lanes *lanes, uint32_t event);
void lanes_wait_for_event(struct lanes *lanes, enum lane lane, uint32_t event);

/* lanes_wait_all: wait until all other lanes have finished the run. Only the caller's thread may
 * call it, within LANE_COMPUTE's work. lanes_run calls it at the end of each run. */
void lanes_wait_all(struct lanes *lanes);

/* lanes_finish: stop and join the threads of all lanes. */
void lanes_finish(struct lanes *lanes);

#endif
