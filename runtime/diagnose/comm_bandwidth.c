/* comm_bandwidth: times collectives in batches of calls. The time of a call is the mean of its
 * batch, because a single call appears shorter on a rank that starts it later; the median and the
 * best batch are reported. */
#include "runtime/diagnose/comm.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/statistics.h"

enum {
    BATCH_COUNT = 7, /* number of timed batches */
    /* number of first calls, from whose time the number of calls in a batch follows */
    FIRST_CALL_COUNT = 4
};

static const int64_t BATCH_NS = 10 * NS_PER_MS;

static const struct comm_check ROWS[COMM_RATE_COUNT] = {
    {"all-gather", COLLECTIVE_ALL_GATHER, DTYPE_F32},
    {"reduce-scatter", COLLECTIVE_REDUCE_SCATTER, DTYPE_F32},
    {"reduce-scatter", COLLECTIVE_REDUCE_SCATTER, DTYPE_BF16},
    {"all-reduce", COLLECTIVE_ALL_REDUCE, DTYPE_F32},
    {"all-to-all", COLLECTIVE_ALL_TO_ALL, DTYPE_F32},
    {"broadcast", COLLECTIVE_BROADCAST, DTYPE_F32},
    {"barrier", COLLECTIVE_BARRIER, DTYPE_F32},
};

/* Returns the size of a buffer in which every rank has a slot of the same size, a multiple of the
 * cache line. */
static uint64_t round_up_to_slots(uint64_t bytes, int world) {
    return (uint64_t)round_up((int64_t)bytes, 64 * (int64_t)world);
}

static struct collective_call make_call(const struct comm_check *row, uint64_t bytes, int world) {
    bool is_out_of_place = row->kind == COLLECTIVE_ALL_TO_ALL || row->wire == DTYPE_BF16;
    bool is_one_slot = row->kind == COLLECTIVE_BROADCAST;
    return (struct collective_call){.kind = row->kind,
                                    .group = COMM_GROUP_ALL,
                                    .wire = row->wire,
                                    .to = is_out_of_place ? bytes : 0,
                                    .slot_bytes = is_one_slot ? bytes : bytes / (uint64_t)world};
}

static double seconds_per_call(struct comm *comm, const struct collective_call *call,
                               int64_t calls) {
    int64_t begin = clock_monotonic_ns();
    for (int64_t i = 0; i < calls; i++) {
        collective_run(&comm->communicator, call);
    }
    return (double)(clock_monotonic_ns() - begin) / (double)calls * 1e-9;
}

/* Sets *calls to the number of calls in a batch, which is equal on all ranks. Rank 0 derives the
 * number from the time of its first calls. */
static enum status agree_on_call_count(struct comm *comm, double first_s, int64_t *calls,
                                       struct fault *fault) {
    int64_t all[RANKS_MAX];
    int64_t own_calls = (int64_t)((double)BATCH_NS * 1e-9 / (first_s > 1e-9 ? first_s : 1e-9));
    own_calls = own_calls < 1 ? 1 : own_calls;
    enum status status = site_exchange(comm->site, &own_calls, sizeof own_calls, all, fault);
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

static enum status measure_rate(struct comm *comm, struct comm_rate *rate, struct fault *fault) {
    double times[BATCH_COUNT];
    int64_t calls;
    struct collective_call call = make_call(rate->row, rate->bytes, comm->world);
    TRY(agree_on_call_count(comm, seconds_per_call(comm, &call, FIRST_CALL_COUNT), &calls, fault));
    for (int i = 0; i < BATCH_COUNT; i++) {
        times[i] = seconds_per_call(comm, &call, calls);
        rate->best_s = i == 0 || times[i] < rate->best_s ? times[i] : rate->best_s;
    }
    rate->median_s = median_f64(times, BATCH_COUNT);
    set_rates(comm, rate);
    return OK;
}

enum status comm_measure_bandwidth(struct comm *comm, const uint64_t *sizes, int size_count,
                                   struct comm_rate *rates, int *rate_count, struct fault *fault) {
    int count = 0;
    for (int row = 0; row < COMM_RATE_COUNT; row++) {
        bool moves = ROWS[row].kind != COLLECTIVE_BARRIER;
        for (int i = 0; i < (moves ? size_count : 1); i++) {
            rates[count] = (struct comm_rate){
                .row = &ROWS[row], .bytes = moves ? round_up_to_slots(sizes[i], comm->world) : 0};
            TRY(measure_rate(comm, &rates[count], fault));
            count++;
        }
    }
    *rate_count = count;
    return OK;
}

/* Returns the size of an arena with space for the transferred valuesand for their sums: the f32
 * sums of bf16 values are twice as large. */
uint64_t comm_bandwidth_arena_bytes(uint64_t largest, int world) {
    return 3 * round_up_to_slots(largest, world);
}
