/* site_state: the state of a site, for the files of this room. */
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
    struct site_process name;
    _Atomic bool left;
    int64_t last_received_ns; /* on the clock of awake_ns */
    size_t inbox_bytes;
    uint8_t inbox[sizeof(struct site_health) + sizeof(struct site_verdict)];
};

/* How a rank ends its membership. */
enum site_ending { SITE_STAYS, SITE_LEAVES, SITE_FAILS };

struct site_watch {
    pthread_t thread;
    bool running; /* the thread exists; used by the owner's thread only */
    int wake_fd;  /* eventfd, by which the owner wakes the thread to end it */
    struct pollfd *polls;
    site_lost *lost;
    void *context;
    _Atomic int parting;       /* enum site_ending, set by the owner */
    struct fault failure_sent; /* written before `parting` becomes SITE_FAILS */
    int64_t last_tick_ns;      /* the real clock at the last update of awake_ns */
    int64_t awake_ns;          /* time during which this process was running */
    int64_t next_heartbeat_ns; /* when to send the next heartbeat, on the real clock */
    pthread_mutex_t mutex;     /* guards the rest */
    pthread_cond_t reported;
    bool decided; /* a rank was lost and `lost` has returned */
    struct fault verdict;
};

struct site {
    struct launch_info launch;
    struct site_process name; /* of this process */
    struct site_peer *peers;  /* by rank */
    int peer_count;
    uint64_t sequence; /* of exchanges */
    bool broken;       /* every further exchange fails with `trouble` */
    struct fault trouble;
    int32_t *statuses;   /* [world], of site_agree */
    struct fault agreed; /* the newest agreed fault; status OK: none yet */
    struct site_watch watch;
};

extern const char SITE_RESTART[]; /* remedy for the loss of a rank */

/* site_gather, site_join: connect the ranks, as rank 0 and as another rank. Both fill
 * site->peers. */
MUST_CHECK enum status site_gather(struct site *site, struct region *region, struct fault *fault);
MUST_CHECK enum status site_join(struct site *site, struct fault *fault);

/* site_end: end the heartbeat thread, notify the other ranks, and close the heartbeat
 * connections. */
void site_end(struct site *site, enum site_ending parting);

/* site_await_verdict: after the exchange connection with `peer` broke, wait until the heartbeat
 * thread knows the cause. STATUS_LOST with the fault, or STATUS_FAILED if the peer has left. */
enum status site_await_verdict(struct site *site, const struct site_peer *peer,
                               struct fault *fault);

/* site_fault_lost: "rank 2: was lost (process 1234 on HOST ended without a message)". */
enum status site_fault_lost(const struct site_peer *peer, struct fault *fault);

void site_close(int *fd);

#endif
