/* lanes: one thread for each lane of a program beside the caller's, and the events between them. A
 * thread that waits looks a few times and then sleeps: ranks may have fewer cores than lanes. */
#ifndef SKEP_PROGRAM_LANES_H
#define SKEP_PROGRAM_LANES_H

#include "base/fault.h"
#include "base/region.h"
#include "runtime/schedule/schedule.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* Carries out what `lane` has to do in the run under way. */
typedef void lane_work(void *context, enum lane lane);

struct lanes;

struct lane_thread {
    struct lanes *lanes;
    enum lane lane;
    pthread_t thread;
    uint32_t runs;                         /* handed to it; the caller's own count */
    _Alignas(64) _Atomic uint32_t posted;  /* runs handed to it */
    _Atomic uint32_t finished;             /* runs it has carried out */
    _Atomic(_Atomic uint32_t *) sleeps_on; /* the word that must change to wake this lane */
};

struct lanes {
    lane_work *work;
    void *context;
    unsigned mask;            /* bit of each lane that has a thread */
    uint32_t event_count;     /* events are [1, event_count] */
    uint32_t run;             /* number of the run under way */
    _Atomic uint32_t *events; /* the number of the last run that raised it: none is ever cleared */
    _Atomic int stopping;
    struct lane_thread threads[LANE_COUNT]; /* that of LANE_COMPUTE is the caller's */
};

/* lanes_init: start a thread for each lane in `mask` (bit 1 << lane; never LANE_COMPUTE). Signals
 * are left to the calling thread.
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

/* lanes_run: one run: work(context, lane) on the thread of each lane in `mask`, a part of those
 * started, and for LANE_COMPUTE on the caller's; comes back when all are done, and what they wrote
 * is visible to the caller. Without lanes in `mask` it is one call. Never allocates. */
void lanes_run(struct lanes *lanes, unsigned mask);

/* Within a run, from the thread of `lane`. */
void lanes_signal(struct lanes *lanes, uint32_t event);
bool lanes_signalled(const struct lanes *lanes, uint32_t event);
void lanes_wait(struct lanes *lanes, enum lane lane, uint32_t event);

/* lanes_wait_all: until all other lanes have finished the run; for the caller's thread, from its
 * own work at the earliest. lanes_run does it too. */
void lanes_wait_all(struct lanes *lanes);

/* lanes_finish: stop and join the threads. */
void lanes_finish(struct lanes *lanes);

#endif
