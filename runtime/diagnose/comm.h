/* comm: ranks that share an arena for nothing but trying out the transport between them. */
#ifndef SKEP_DIAGNOSE_COMM_H
#define SKEP_DIAGNOSE_COMM_H

#include "runtime/session/session.h"
#include "targets/ports/ports.h"
#include "transport/collectives/collectives.h"

enum comm_group {
    COMM_ALL,        /* every rank, in order */
    COMM_NEIGHBOURS, /* ranks in a row, as many as the smallest divisor above 1: a shard group */
    COMM_APART,      /* one of each such row: replicas */
    COMM_REVERSED,   /* every rank, from the last to the first */
    COMM_GROUPS
};

const char *comm_group_name(enum comm_group group);

/* One rank of the trial. */
struct comm {
    struct site *site;
    struct region *region;
    int rank, world;
    struct communicator communicator;
    struct port port;
    unsigned char *arena; /* SPACE_DEVICE, registered */
    uint64_t bytes;       /* of it */
};

/* comm_open: reserve an arena and join the others over it. Every rank calls it.
 * memory  in `region`; *comm must stay where it is
 * errors  STATUS_FIT, STATUS_FAILED; the same on all ranks */
MUST_CHECK enum status comm_open(struct site *site, struct region *region, uint64_t bytes,
                                 struct comm *comm, struct fault *fault);
void comm_close(struct comm *comm);

enum { COMM_CHECKS = 9, COMM_FAILURE_BYTES = 160 };

/* One collective in one group, over all sizes and all ranks. */
struct comm_verdict {
    int64_t calls, elements, wrong;
    char first[COMM_FAILURE_BYTES]; /* what was wrong first, "" when nothing */
};

struct comm_check {
    const char *name;
    enum collective_kind kind;
    enum dtype wire;
};
extern const struct comm_check COMM_CHECK_ROWS[COMM_CHECKS];

/* comm_test: every collective in every group, on data whose outcome each rank works out itself;
 * sums are compared bit by bit. Every rank calls it and receives all ranks' verdicts, added up.
 * errors  those of site_exchange */
MUST_CHECK enum status comm_test(struct comm *comm,
                                 struct comm_verdict verdicts[COMM_CHECKS][COMM_GROUPS],
                                 struct fault *fault);

/* comm_test_bytes: of the arena that comm_test needs. */
uint64_t comm_test_bytes(int world);

enum { COMM_RATES = 7, COMM_SIZES_MAX = 16 };

/* How long one call takes at rank 0. */
struct comm_rate {
    const struct comm_check *row;
    uint64_t bytes; /* of the whole buffer on the wire; 0: a barrier */
    double median_s, best_s;
    double algorithm_rate; /* buffer bytes a second, by the best time */
    double bus_rate;       /* bytes that a rank receives a second */
};

/* comm_bandwidth: time every collective between all ranks at every size. Every rank calls it; only
 * rank 0's times are to be looked at.
 * sizes   bytes of the buffer; rounded up so that every rank has an equal slot
 * rates   room for COMM_RATES * size_count; gives how many
 * errors  those of site_exchange */
MUST_CHECK enum status comm_bandwidth(struct comm *comm, const uint64_t *sizes, int size_count,
                                      struct comm_rate *rates, int *rate_count,
                                      struct fault *fault);

/* comm_bandwidth_bytes: of the arena that sizes up to `largest` need. */
uint64_t comm_bandwidth_bytes(uint64_t largest, int world);

#endif
