/* machine_driver: runs the tracker's state machine. Each event goes through it together with all
 * events that follow from it: what the state machine promises is written to the store, and only
 * then are its messages sent. Owns the state machine and the store. */
#ifndef SKEP_SWARM_TRACKER_MACHINE_DRIVER_H
#define SKEP_SWARM_TRACKER_MACHINE_DRIVER_H

#include "runtime/swarm/tracker/tracker_durable.h"

#include <stdbool.h>

struct tracker_loop;

struct machine_driver {
    struct tracker *tracker;
    struct tracker_durable durable;
    struct entry newest;        /* entry of the ledger: its seats verify signed messages */
    struct action *action_rows; /* [ACTIONS_MAX] */
    bool is_retrying;           /* a write failed; the state machine is notified at retry_ms */
    int64_t retry_ms;
    int64_t logged_ms;  /* when a failed write was last logged; 0: the last write succeeded */
    struct fault fault; /* of the last failed write */
    bool is_fenced;     /* another process has started with the same store */
    const char *stage;  /* of the round, and since when */
    int64_t stage_ms;
};

/* machine_driver_bytes: what machine_driver_open takes of the region, without the store's part. */
uint64_t machine_driver_bytes(const struct tracker_settings *settings);

/* machine_driver_open: open the store, and start the state machine from what it recalls.
 * errors  those of tracker_durable_open and tracker_durable_replay */
MUST_CHECK enum status machine_driver_open(const struct durable_options *options,
                                           const struct tracker_settings *settings,
                                           struct region *region, struct machine_driver **driver,
                                           struct fault *fault);
void machine_driver_close(struct machine_driver *driver);

/* machine_driver_step: handle one event and all that follows from it. Does nothing once fenced. */
void machine_driver_step(struct tracker_loop *loop, const struct event *event);

/* machine_driver_retry: notify the state machine of a failed write, once its delay is over. */
void machine_driver_retry(struct tracker_loop *loop, int64_t now_ms);

/* machine_driver_promise: make something durable that the state machine does not own.
 * errors  false: it is not durable; the driver is fenced if that is the reason */
MUST_CHECK bool machine_driver_promise(struct machine_driver *driver,
                                       const struct store_promise *promise);

/* machine_driver_recall: the bytes of an earlier promise; *count is 0 when there are none.
 * errors  those of ledger_store_read_promise */
MUST_CHECK enum status machine_driver_recall(struct machine_driver *driver, const char *name,
                                             void *bytes, size_t capacity, size_t *count,
                                             struct fault *fault);

#endif
