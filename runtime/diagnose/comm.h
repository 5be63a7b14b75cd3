/* comm: tests and times the collectives between the ranks of a site. */
#ifndef SKEP_DIAGNOSE_COMM_H
#define SKEP_DIAGNOSE_COMM_H

#include "runtime/session/session.h"
#include "targets/ports/ports.h"
#include "transport/collectives/collectives.h"

enum comm_group {
    COMM_ALL,        /* every rank, in order */
    COMM_NEIGHBOURS, /* adjacent ranks, like a shard group; the size is the smallest divisor */
    COMM_APART,      /* one rank of each COMM_NEIGHBOURS group, like replicas */
    COMM_REVERSED,   /* every rank, from the last to the first */
    COMM_GROUPS
};

const char *comm_group_name(enum comm_group group);

/* One rank, and the arena that its calls use. */
struct comm {
    struct site *site;
    struct region *region;
    int rank, world;
    struct communicator communicator;
    struct port port;
    unsigned char *arena; /* SPACE_DEVICE, registered */
    uint64_t bytes;       /* size of the arena */
};

/* comm_open: reserve an arena and connect the ranks. Every rank calls it.
 * memory  in `region`; *comm must not move
 * errors  STATUS_FIT, STATUS_FAILED; the same on all ranks */
MUST_CHECK enum status comm_open(struct site *site, struct region *region, uint64_t bytes,
                                 struct comm *comm, struct fault *fault);
void comm_close(struct comm *comm);

enum { COMM_CHECKS = 9, COMM_FAILURE_BYTES = 160 };

/* The result of testing one collective in one group, over all sizes and ranks. */
struct comm_verdict {
    int64_t calls, elements, wrong;
    char first[COMM_FAILURE_BYTES]; /* the first error; "" when there is none */
};

struct comm_check {
    const char *name;
    enum collective_kind kind;
    enum dtype wire;
};
extern const struct comm_check COMM_CHECK_ROWS[COMM_CHECKS];

/* comm_test: run every collective in every group on data with a known result; sums are compared bit
 * by bit. Every rank calls it and receives the sum of the verdicts of all ranks.
 * errors  those of site_exchange */
MUST_CHECK enum status comm_test(struct comm *comm,
                                 struct comm_verdict verdicts[COMM_CHECKS][COMM_GROUPS],
                                 struct fault *fault);

/* comm_test_bytes: the size of the arena that comm_test needs. */
uint64_t comm_test_bytes(int world);

enum { COMM_RATES = 7, COMM_SIZES_MAX = 16 };

/* The time of one call on rank 0. */
struct comm_rate {
    const struct comm_check *row;
    uint64_t bytes; /* size of the whole buffer; 0: a barrier */
    double median_s, best_s;
    double algorithm_rate; /* buffer bytes a second, by the best time */
    double bus_rate;       /* bytes that a rank receives a second */
};

/* comm_bandwidth: time every collective between all ranks at every size. Every rank calls it; only
 * rank 0's times are valid.
 * sizes   bytes of the buffer; rounded up so that every rank has an equal slot
 * rates   [COMM_RATES * size_count]; *rate_count of them are set
 * errors  those of site_exchange */
MUST_CHECK enum status comm_bandwidth(struct comm *comm, const uint64_t *sizes, int size_count,
                                      struct comm_rate *rates, int *rate_count,
                                      struct fault *fault);

/* comm_bandwidth_bytes: the size of the arena for sizes up to `largest`. */
uint64_t comm_bandwidth_bytes(uint64_t largest, int world);

#endif
