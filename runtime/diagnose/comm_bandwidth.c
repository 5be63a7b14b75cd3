/* comm_bandwidth: what a call takes, as the mean of calls that follow each other (a single one can
 * look short: the peers may have begun it before): the median and the best of several batches. */
#include "runtime/diagnose/comm.h"

#include "base/clock.h"

#include <stdlib.h>

enum { BATCHES = 7, CALLS_FIRST = 4 };

static const int64_t BATCH_NS = 10000000;

static const struct comm_check ROWS[COMM_RATES] = {
    {"all-gather", COLLECTIVE_ALL_GATHER, DTYPE_F32},
    {"reduce-scatter", COLLECTIVE_REDUCE_SCATTER, DTYPE_F32},
    {"reduce-scatter", COLLECTIVE_REDUCE_SCATTER, DTYPE_BF16},
    {"all-reduce", COLLECTIVE_ALL_REDUCE, DTYPE_F32},
    {"all-to-all", COLLECTIVE_ALL_TO_ALL, DTYPE_F32},
    {"broadcast", COLLECTIVE_BROADCAST, DTYPE_F32},
    {"barrier", COLLECTIVE_BARRIER, DTYPE_F32},
};

/* Equal slots of whole cache lines. */
static uint64_t rounded(uint64_t bytes, int world) {
    uint64_t step = 64 * (uint64_t)world;
    return (bytes + step - 1) / step * step;
}

static struct collective_call call_of(const struct comm_check *row, uint64_t bytes, int world) {
    bool apart = row->kind == COLLECTIVE_ALL_TO_ALL || row->wire == DTYPE_BF16;
    bool whole = row->kind == COLLECTIVE_BROADCAST;
    return (struct collective_call){.kind = row->kind,
                                    .group = COMM_ALL,
                                    .wire = row->wire,
                                    .to = apart ? bytes : 0,
                                    .slot_bytes = whole ? bytes : bytes / (uint64_t)world};
}

static double run_batch(struct comm *comm, const struct collective_call *call, int64_t calls) {
    int64_t begin = clock_monotonic_ns();
    for (int64_t i = 0; i < calls; i++) {
        collective_run(&comm->communicator, call);
    }
    return (double)(clock_monotonic_ns() - begin) / (double)calls * 1e-9;
}

static int by_time(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All ranks make as many calls as rank 0's first ones let expect. */
static enum status agree_on_calls(struct comm *comm, double first_s, int64_t *calls,
                                  struct fault *fault) {
    int64_t all[RANKS_MAX];
    int64_t mine = (int64_t)((double)BATCH_NS * 1e-9 / (first_s > 1e-9 ? first_s : 1e-9));
    mine = mine < 1 ? 1 : mine;
    enum status status = site_exchange(comm->site, &mine, sizeof mine, all, fault);
    *calls = status == OK ? all[0] : 0;
    return status;
}

static void set_rates(const struct comm *comm, struct comm_rate *rate) {
    double world = comm->world;
    double received = rate->row->kind == COLLECTIVE_BROADCAST ? 1 : (world - 1) / world;
    received *= rate->row->kind == COLLECTIVE_ALL_REDUCE ? 2 : 1;
    rate->algorithm_rate = (double)rate->bytes / rate->best_s;
    rate->bus_rate = rate->algorithm_rate * received;
}

static enum status measure(struct comm *comm, struct comm_rate *rate, struct fault *fault) {
    double times[BATCHES];
    int64_t calls;
    struct collective_call call = call_of(rate->row, rate->bytes, comm->world);
    TRY(agree_on_calls(comm, run_batch(comm, &call, CALLS_FIRST), &calls, fault));
    for (int i = 0; i < BATCHES; i++) {
        times[i] = run_batch(comm, &call, calls);
    }
    qsort(times, BATCHES, sizeof *times, by_time);
    rate->median_s = times[BATCHES / 2];
    rate->best_s = times[0];
    set_rates(comm, rate);
    return OK;
}

enum status comm_bandwidth(struct comm *comm, const uint64_t *sizes, int size_count,
                           struct comm_rate *rates, int *rate_count, struct fault *fault) {
    int count = 0;
    for (int row = 0; row < COMM_RATES; row++) {
        bool moves = ROWS[row].kind != COLLECTIVE_BARRIER;
        for (int i = 0; i < (moves ? size_count : 1); i++) {
            rates[count] = (struct comm_rate){.row = &ROWS[row],
                                              .bytes = moves ? rounded(sizes[i], comm->world) : 0};
            TRY(measure(comm, &rates[count], fault));
            count++;
        }
    }
    *rate_count = count;
    return OK;
}

/* Sums of bf16 are twice as long as what was on the wire. */
uint64_t comm_bandwidth_bytes(uint64_t largest, int world) {
    return 3 * rounded(largest, world);
}
