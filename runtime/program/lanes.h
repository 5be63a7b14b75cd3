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

/* Executes the work of `lane` in the current call of lanes_run. */
typedef void lane_work(void *context, enum lane lane);

struct lanes;

struct lane_thread {
    struct lanes *lanes;
    enum lane lane;
    pthread_t thread;
    uint32_t runs;                         /* given to it, as the caller counts */
    _Alignas(64) _Atomic uint32_t posted;  /* runs given to it */
    _Atomic uint32_t finished;             /* runs it has executed */
    _Atomic(_Atomic uint32_t *) sleeps_on; /* the word that must change to wake this lane */
};

struct lanes {
    lane_work *work;
    void *context;
    unsigned mask;        /* the bits of lanes that have a thread */
    uint32_t event_count; /* events are [1, event_count] */
    uint32_t run;         /* number of the current run */
    /* the number of the last run that raised the event; never cleared */
    _Atomic uint32_t *events;
    _Atomic int stopping;
    struct lane_thread threads[LANE_COUNT]; /* LANE_COMPUTE is the caller's thread */
};

/* lanes_init: start a thread for each lane in `mask` (bit 1 << lane; never LANE_COMPUTE). Only the
 * calling thread receives signals.
 * memory  events in `region`; thread stacks of the C library, of fixed size
 * errors  STATUS_FAILED when a thread cannot be started; none is left running then */
struct lanes_args {
    lane_work *work;
    void *context;
    unsigned mask;
    uint32_t event_count;
};
MUST_CHECK enum status lanes_init(struct lanes *lanes, const struct lanes_args *args,
                                  struct region *region, struct fault *fault);

/* lanes_run: one run: call work(context, lane) on the thread of each lane in `mask`, a subset of
 * the started ones, and for LANE_COMPUTE on the caller's thread. Returns when all are done; the
 * caller sees everything they wrote. With an empty `mask` it only calls LANE_COMPUTE's work. Never
 * allocates. */
void lanes_run(struct lanes *lanes, unsigned mask);

/* Called within a run, from the thread of `lane`. */
void lanes_signal(struct lanes *lanes, uint32_t event);
bool lanes_signalled(const struct lanes *lanes, uint32_t event);
void lanes_wait(struct lanes *lanes, enum lane lane, uint32_t event);

/* lanes_wait_all: wait until all other lanes have finished the run. Only for the caller's thread,
 * within its work; lanes_run calls it at the end anyway. */
void lanes_wait_all(struct lanes *lanes);

/* lanes_finish: stop and join the threads. */
void lanes_finish(struct lanes *lanes);

#endif
