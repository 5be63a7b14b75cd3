/* site_state: the state of a site, for the source files of transport/site. */
#ifndef SKEP_TRANSPORT_SITE_SITE_STATE_H
#define SKEP_TRANSPORT_SITE_SITE_STATE_H

#include "transport/site/site.h"
#include "transport/site/site_wire.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Another rank, with its two connections. The peers of rank 0 are all other ranks; each of them has
 * rank 0 as its only peer. */
struct site_peer {
    int rank;
    int exchange_fd, health_fd; /* -1: closed */
    struct site_process process;
    _Atomic bool has_left;    /* the rank left in order */
    int64_t last_received_ns; /* value of awake_ns when data was last received from the rank */
    size_t inbox_bytes;       /* number of bytes in `inbox` */
    /* [inbox_bytes]: the received part of the next message */
    uint8_t inbox[sizeof(struct site_health) + sizeof(struct site_verdict)];
};

/* How a rank leaves its site. */
enum rank_departure { DEPARTURE_NONE, DEPARTURE_LEAVE, DEPARTURE_FAIL };

struct site_watch {
    pthread_t thread; /* the heartbeat thread */
    /* whether the heartbeat thread runs; used only by the thread that owns the site */
    bool is_running;
    int wake_fd; /* eventfd with which the owner wakes the thread to end it */
    struct pollfd *polls;
    site_lost *on_lost;
    void *context;              /* context of `on_lost` */
    _Atomic int departure;      /* an enum rank_departure, set by the owner */
    struct fault failure_sent;  /* written before `departure` is set to DEPARTURE_FAIL */
    int64_t last_tick_ns;       /* monotonic clock at the last update of awake_ns */
    int64_t awake_ns;           /* time during which this process was running */
    int64_t next_heartbeat_ns;  /* when to send the next heartbeat, on the monotonic clock */
    pthread_mutex_t mutex;      /* guards the fields below */
    pthread_cond_t verdict_set; /* signalled when `has_verdict` becomes true */
    bool has_verdict;           /* a rank was lost and `on_lost` has returned */
    struct fault verdict;       /* fault that describes the loss of a rank */
};

struct site {
    struct launch_info launch;
    struct site_process process; /* of this rank */
    struct site_peer *peers;     /* [peer_count], in the order of their ranks */
    int peer_count;              /* rank 0: all other ranks; other ranks: 1 */
    uint64_t exchange_count;     /* exchanges made so far */
    bool is_broken;              /* every further exchange fails with `failure` */
    struct fault failure;        /* first failure of an exchange */
    int32_t *outcomes;           /* [world], exchanged by site_agree */
    struct fault agreed_fault;   /* the newest agreed fault; status OK: none yet */
    struct site_watch watch;
};

extern const char SITE_RESTART[]; /* remedy for the loss of a rank */

/* site_accept_ranks, site_join: connect the ranks; rank 0 calls the first, the other ranks the
 * second. Both fill site->peers. */
MUST_CHECK enum status site_accept_ranks(struct site *site, struct region *region,
                                         struct fault *fault);
MUST_CHECK enum status site_join(struct site *site, struct fault *fault);

/* site_stop_watch: end the heartbeat thread, notify the other ranks, and close the heartbeat
 * connections. */
void site_stop_watch(struct site *site, enum rank_departure departure);

/* site_await_verdict: after the exchange connection with `peer` broke, wait until the heartbeat
 * thread knows the cause. Returns STATUS_LOST with the fault of the lost rank, or STATUS_FAILED if
 * the peer has left. */
enum status site_await_verdict(struct site *site, const struct site_peer *peer,
                               struct fault *fault);

/* site_set_lost_fault: set the fault "rank 2: was lost (process 1234 on HOST ended without a
 * message)". */
enum status site_set_lost_fault(const struct site_peer *peer, struct fault *fault);

void site_close_fd(int *fd);

#endif
