/* comm: tests and times the collectives between the ranks of a site. */
#ifndef SKEP_DIAGNOSE_COMM_H
#define SKEP_DIAGNOSE_COMM_H

#include "runtime/session/session.h"
#include "targets/ports/ports.h"
#include "transport/collectives/collectives.h"

/* Kinds of groups that the collectives are tested in. */
enum comm_group {
    COMM_GROUP_ALL, /* All ranks, in ascending order. */
    /* Adjacent ranks, like a shard group. The group size is the smallest divisor of the
     * world size above 1. */
    COMM_GROUP_ADJACENT,
    COMM_GROUP_STRIDED,  /* One rank of each adjacent group, like a replica group. */
    COMM_GROUP_REVERSED, /* All ranks, in descending order. */
    COMM_GROUP_COUNT
};

const char *comm_group_name(enum comm_group group);

/* The state of one rank: its connections, and the arena that its collectives use. */
struct comm {
    struct site *site;
    struct region *region;
    int rank, world; /* This rank, and the number of ranks. */
    struct communicator communicator;
    struct port port;     /* Memory port that reserves the arena. */
    unsigned char *arena; /* SPACE_DEVICE, registered */
    uint64_t bytes;       /* Size of the arena. */
};

/* comm_open: reserve an arena and connect the ranks. Every rank calls it.
 * memory  in `region`; *comm must not move
 * errors  STATUS_FIT, STATUS_FAILED; all ranks return the same status */
MUST_CHECK enum status comm_open(struct site *site, struct region *region, uint64_t bytes,
                                 struct comm *comm, struct fault *fault);
void comm_close(struct comm *comm);

enum {
    COMM_CHECK_COUNT = 9,     /* number of collectives that are tested */
    COMM_FAILURE_BYTES = 160, /* size of the text of an error */
};

/* The test result of one collective in one group, over all sizes and ranks. */
struct comm_verdict {
    /* Number of calls, of checked elements, and of wrong elements. */
    int64_t calls, elements, wrong;
    char first[COMM_FAILURE_BYTES]; /* Text of the first error; "" when there is none. */
};

struct comm_check {
    const char *name; /* name of the collective in reports */
    enum collective_kind kind;
    enum dtype wire; /* Element type in transfers. */
};
extern const struct comm_check COMM_CHECK_ROWS[COMM_CHECK_COUNT];

/* comm_test: run every collective in every group on data with a known result; sums are compared bit
 * by bit. Every rank calls it and receives the sum of the verdicts of all ranks.
 * errors  those of site_exchange */
MUST_CHECK enum status comm_test(struct comm *comm,
                                 struct comm_verdict verdicts[COMM_CHECK_COUNT][COMM_GROUP_COUNT],
                                 struct fault *fault);

/* comm_test_arena_bytes: return the size of the arena that comm_test needs. */
uint64_t comm_test_arena_bytes(int world);

enum {
    COMM_RATE_COUNT = 7, /* number of collectives that are measured */
    COMM_SIZES_MAX = 16, /* maximum number of buffer sizes that are measured */
};

/* The measured time of one collective at one size, on rank 0. */
struct comm_rate {
    const struct comm_check *row; /* the collective */
    uint64_t bytes;               /* Size of the whole buffer; 0 for a barrier. */
    /* Duration in seconds of one call: in the median batch, and in the best one. */
    double median_s, best_s;
    double algorithm_rate; /* Buffer bytes per second in the best batch. */
    double bus_rate;       /* Bytes that each rank receives per second. */
};

/* comm_measure_bandwidth: time every collective between all ranks at every size. Every rank calls
 * it; only rank 0's times are valid.
 * sizes   buffer sizes in bytes, rounded up so that every rank has an equal slot
 * rates   [COMM_RATE_COUNT * size_count]; *rate_count of them are set
 * errors  those of site_exchange */
MUST_CHECK enum status comm_measure_bandwidth(struct comm *comm, const uint64_t *sizes,
                                              int size_count, struct comm_rate *rates,
                                              int *rate_count, struct fault *fault);

/* comm_bandwidth_arena_bytes: return the size of the arena that comm_measure_bandwidth needs for
 * buffers of up to `largest` bytes. */
uint64_t comm_bandwidth_arena_bytes(uint64_t largest, int world);

#endif
