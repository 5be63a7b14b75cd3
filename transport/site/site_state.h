/* site_state: what a site is made of. Only transport/site*.c include it. */
#ifndef SKEP_TRANSPORT_SITE_SITE_STATE_H
#define SKEP_TRANSPORT_SITE_SITE_STATE_H

#include "transport/site/site.h"
#include "transport/site/site_wire.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* One rank at the other end of two connections. Rank 0 has all others, each of them has rank 0. */
struct site_peer {
    int rank;
    int exchange_fd, health_fd; /* -1: closed */
    struct site_run_name name;
    _Atomic bool left;
    int64_t heard_ns; /* on the watching thread's own clock */
    size_t inbox_bytes;
    uint8_t inbox[sizeof(struct site_health) + sizeof(struct site_verdict)];
};

/* How a rank parts from the others by itself. */
enum site_ending { SITE_STAYS, SITE_LEAVES, SITE_FAILS };

struct site_watch {
    pthread_t thread;
    bool running; /* a thread is to be joined; the owner's thread alone knows */
    int wake_fd;  /* eventfd: the owner asks the thread to part */
    struct pollfd *polls;
    site_lost *lost;
    void *context;
    _Atomic int parting;     /* enum site_ending */
    struct fault last_words; /* written before parting becomes SITE_FAILS */
    int64_t seen_ns;         /* the clock when the thread last looked at it */
    int64_t awake_ns;        /* time in which the thread ran when it should */
    int64_t beat_ns;         /* when the next sign of life is due, on the real clock */
    pthread_mutex_t mutex;   /* guards the rest */
    pthread_cond_t reported;
    bool decided; /* a rank is lost and `lost` has returned */
    struct fault verdict;
};

struct site {
    struct launch_info place;
    struct site_run_name name; /* of this process */
    struct site_peer *peers;   /* in the order of ranks */
    int peer_count;
    uint64_t sequence; /* of exchanges */
    bool broken;       /* no further exchange can succeed, for the reason in `trouble` */
    struct fault trouble;
    int32_t *statuses;   /* [world], of site_agree */
    struct fault agreed; /* the newest; none yet: its status is OK */
    struct site_watch watch;
};

extern const char SITE_RESTART[]; /* the remedy when a rank is lost */

/* site_gather, site_join: the meeting, of rank 0 and of the others. Both fill site->peers. */
MUST_CHECK enum status site_gather(struct site *site, struct region *region, struct fault *fault);
MUST_CHECK enum status site_join(struct site *site, struct fault *fault);

/* site_end: end the watching with LEFT, or with the last words; closes the health connections. */
void site_end(struct site *site, enum site_ending parting);

/* site_await_verdict: the exchange's connection with `peer` broke: wait until the watching thread
 * knows why. STATUS_LOST with its fault, or STATUS_FAILED when the peer has left. */
enum status site_await_verdict(struct site *site, const struct site_peer *peer,
                               struct fault *fault);

/* site_fault_lost: "rank 2: is gone (process 1234 on HOST ended without saying why)". */
enum status site_fault_lost(const struct site_peer *peer, struct fault *fault);

void site_close(int *fd);

#endif
