/* machine_driver: runs the tracker's state machine, and owns the state machine and the store. It
 * passes an event to the state machine and performs the actions that this returns, until no action
 * causes a further event. A promise is durable in the store before a message about it is sent. */
#ifndef SKEP_SWARM_TRACKER_MACHINE_DRIVER_H
#define SKEP_SWARM_TRACKER_MACHINE_DRIVER_H

#include "runtime/swarm/tracker/tracker_durable.h"

#include <stdbool.h>

struct tracker_loop;

/* Whether a fork is possible, because at least half of the electors are missing. */
enum fork_state {
    FORK_NONE,      /* no fork is possible */
    FORK_CONTINUES, /* a fork is possible, but the tracker has enough electors to continue */
    FORK_WAITS,     /* a fork is possible, and the tracker waits for electors or an order */
};

/* The state machine with its store, the last failed write, and what was logged last. */
struct machine_driver {
    struct tracker *tracker;        /* the state machine */
    struct tracker_durable durable; /* the store of the tracker's promises and ledger */
    struct entry
        newest_entry; /* newest entry of the ledger; its seats have the keys of the members */
    struct action *action_rows; /* [ACTIONS_MAX]: the actions that the state machine returns */
    bool is_retrying;           /* a write failed; the state machine is notified at retry_ms */
    int64_t retry_ms;           /* time of the next notification of a failed write */
    /* when a failed write was last logged; 0: the last write succeeded */
    int64_t failure_logged_ms;
    /* time of the last warning that members trained on too few samples; 0: none */
    int64_t training_warned_ms;
    struct fault fault; /* why the last failed write failed */
    bool is_fenced;     /* another process has started with the same store */
    /* Number of members in the file at options.waiting_path; 0: no file was written. */
    uint32_t waiting_count;
    enum fork_state fork;   /* the fork state that was logged last */
    const char *stage;      /* stage of the round, which began at stage_since_ms */
    int64_t stage_since_ms; /* when the current stage began */
};

/* machine_driver_bytes: size of the memory that machine_driver_open allocates from the region,
 * without that of the store. */
uint64_t machine_driver_bytes(const struct tracker_settings *settings);

/* machine_driver_open: opens the store, and starts the state machine from the stored record.
 * errors  those of tracker_durable_open and tracker_durable_replay; STATUS_INPUT: the ledger has a
 *         newer delegation */
MUST_CHECK enum status machine_driver_open(const struct durable_options *options,
                                           const struct tracker_settings *settings,
                                           struct region *region, struct machine_driver **driver,
                                           struct fault *fault);
void machine_driver_close(struct machine_driver *driver);

/* machine_driver_step: handles one event and all events that its actions cause. Does nothing if the
 * tracker is fenced. */
void machine_driver_step(struct tracker_loop *loop, const struct event *event);

/* machine_driver_read_continue_order: read the operator's order to continue, and pass it to the
 * state machine if it is signed for this start and the newest state. */
void machine_driver_read_continue_order(struct tracker_loop *loop);

/* machine_driver_retry_write: notifies the state machine of a failed write when the retry delay has
 * passed. */
void machine_driver_retry_write(struct tracker_loop *loop, int64_t now_ms);

/* machine_driver_store_promise: makes a promise durable that is not part of the state machine's
 * record.
 * errors  false: the promise is not durable. If another tracker has started, the driver is then
 *         fenced */
MUST_CHECK bool machine_driver_store_promise(struct machine_driver *driver,
                                             const struct store_promise *promise);

/* machine_driver_load_promise: loads the bytes of an earlier promise. *count is 0 when there is
 * none.
 * errors  those of ledger_store_read_promise */
MUST_CHECK enum status machine_driver_load_promise(struct machine_driver *driver, const char *name,
                                                   void *bytes, size_t capacity, size_t *count,
                                                   struct fault *fault);

#endif
