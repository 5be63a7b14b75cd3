/* comm_test: runs collectives on data with a known result. Every rank writes numbers that depend on
 * its rank, the slot and the element, makes the call, and computes the expected result. The numbers
 * are exact in bf16 and have many different exponents, so that a sum in a different order or
 * precision has different bits. */
#include "runtime/diagnose/comm.h"

#include "base/bytes.h"
#include "runtime/checkpoint/piece.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    GUARD_BYTES = 4096, /* Number of bytes before and after each buffer that no call may change. */
    GUARD_VALUE = 0xa5, /* Value of each guard byte. */
    ELEMENTS_MAX =
        /* Maximum number of elements in a buffer, which keeps a test of many ranks short. */
    1 << 18
};

static const int64_t SLOT_ELEMENTS[] = {1, 63, 4097, 65536};

const struct comm_check COMM_CHECK_ROWS[COMM_CHECK_COUNT] = {
    {"all-gather", COLLECTIVE_ALL_GATHER, DTYPE_F32},
    {"all-gather", COLLECTIVE_ALL_GATHER, DTYPE_BF16},
    {"reduce-scatter", COLLECTIVE_REDUCE_SCATTER, DTYPE_F32},
    {"reduce-scatter", COLLECTIVE_REDUCE_SCATTER, DTYPE_BF16},
    {"all-reduce", COLLECTIVE_ALL_REDUCE, DTYPE_F32},
    {"all-to-all", COLLECTIVE_ALL_TO_ALL, DTYPE_F32},
    {"all-to-all", COLLECTIVE_ALL_TO_ALL, DTYPE_BF16},
    {"broadcast", COLLECTIVE_BROADCAST, DTYPE_F32},
    {"barrier", COLLECTIVE_BARRIER, DTYPE_F32},
};

/* One tested call, and the location of its buffers on this rank. */
struct trial {
    struct comm *comm;
    const struct comm_check *check;
    const struct collective_group *group;
    struct collective_call call;
    int64_t elements;     /* Number of elements in a slot. */
    enum dtype in, out;   /* Element types of the buffers `from` and `to`. */
    unsigned char *begin; /* Memory of both buffers and their guard bytes. */
    uint64_t bytes;       /* Size of the memory at `begin`. */
};

static float input_value(int rank, int slot, int64_t element) {
    int64_t number = (rank * 37 + slot * 59 + element * 11) % 251 - 125;
    return ldexpf((float)number, (int)((rank * 5 + element) % 24) - 12);
}

static bool is_sum(enum collective_kind kind) {
    return kind == COLLECTIVE_REDUCE_SCATTER || kind == COLLECTIVE_ALL_REDUCE;
}

static bool is_out_of_place(const struct comm_check *check) {
    return check->kind == COLLECTIVE_ALL_TO_ALL ||
           (is_sum(check->kind) && check->wire == DTYPE_BF16);
}

/* Assigns the memory of a call: [guard][from][guard][to][guard], or [guard][buffer][guard] for a
 * call in place. */
static struct trial make_trial(struct comm *comm, const struct comm_check *check, int group,
                               int64_t elements) {
    struct trial trial = {.comm = comm,
                          .check = check,
                          .group = &comm->communicator.groups[group],
                          .elements = elements,
                          .in = check->wire,
                          .out = is_sum(check->kind) ? DTYPE_F32 : check->wire};
    uint64_t slots = check->kind == COLLECTIVE_BROADCAST ? 1 : (uint64_t)trial.group->size;
    uint64_t from = (uint64_t)(elements * dtype_bytes(trial.in)) * slots;
    uint64_t to = (uint64_t)(elements * dtype_bytes(trial.out)) * slots;
    from = align_up(from, GUARD_BYTES);
    trial.call =
        (struct collective_call){.kind = check->kind,
                                 .group = group,
                                 .wire = check->wire,
                                 .from = GUARD_BYTES,
                                 .to = GUARD_BYTES,
                                 .slot_bytes = (uint64_t)(elements * dtype_bytes(trial.in))};
    if (is_out_of_place(check)) {
        trial.call.to += from + GUARD_BYTES;
    }
    trial.begin = comm->arena;
    trial.bytes = trial.call.to + to + GUARD_BYTES;
    ASSERT(trial.bytes <= comm->bytes);
    return trial;
}

/* Fills the slots that the call reads, and sets all other bytes to GUARD_VALUE. */
static void fill_inputs(const struct trial *trial) {
    const struct collective_group *group = trial->group;
    enum collective_kind kind = trial->check->kind;
    unsigned char *from = trial->comm->arena + trial->call.from;
    memset(trial->begin, GUARD_VALUE, trial->bytes);
    int slots = kind == COLLECTIVE_BROADCAST ? 1 : group->size;
    for (int slot = 0; slot < slots; slot++) {
        bool needed = kind == COLLECTIVE_BROADCAST    ? group->index == trial->call.root
                      : kind == COLLECTIVE_ALL_GATHER ? group->index == slot
                                                      : true;
        for (int64_t i = 0; needed && i < trial->elements; i++) {
            float number = input_value(trial->comm->rank, slot, i);
            int64_t index = slot * trial->elements + i;
            convert_from_f32(trial->in, &number, 1, from + index * dtype_bytes(trial->in));
        }
    }
}

/* Returns the correct value of element `i` in slot `slot` of `to` after the call. */
static float expected_value(const struct trial *trial, int slot, int64_t i) {
    const struct collective_group *group = trial->group;
    switch (trial->check->kind) {
    case COLLECTIVE_ALL_GATHER:
        return input_value(group->ranks[slot], slot, i);
    case COLLECTIVE_ALL_TO_ALL:
        return input_value(group->ranks[slot], group->index, i);
    case COLLECTIVE_BROADCAST:
        return input_value(group->ranks[trial->call.root], 0, i);
    default: {
        float sum = input_value(group->ranks[0], slot, i);
        for (int member = 1; member < group->size; member++) {
            sum += input_value(group->ranks[member], slot, i);
        }
        return sum;
    }
    }
}

static bool is_written_slot(const struct trial *trial, int slot) {
    enum collective_kind kind = trial->check->kind;
    return kind == COLLECTIVE_REDUCE_SCATTER ? slot == trial->group->index
           : kind == COLLECTIVE_BROADCAST    ? slot == 0
                                             : kind != COLLECTIVE_BARRIER;
}

static void record_error(const struct trial *trial, int slot, int64_t element, float got,
                         struct comm_verdict *verdict) {
    if (verdict->wrong++ == 0) {
        snprintf(verdict->first, sizeof verdict->first,
                 "rank %d, %lld elements per slot: slot %d, element %lld is %.9g, expected %.9g",
                 trial->comm->rank, (long long)trial->elements, slot, (long long)element,
                 (double)got, (double)expected_value(trial, slot, element));
    }
}

static void check_guard_bytes(const struct trial *trial, struct comm_verdict *verdict) {
    const unsigned char *end = trial->begin + trial->bytes;
    const unsigned char *to = trial->comm->arena + trial->call.to;
    for (int i = 0; i < GUARD_BYTES; i++) {
        bool good = trial->begin[i] == GUARD_VALUE && end[-1 - i] == GUARD_VALUE &&
                    to[-1 - i] == GUARD_VALUE;
        if (!good && verdict->wrong++ == 0) {
            snprintf(verdict->first, sizeof verdict->first,
                     "rank %d, %lld elements per slot: the collective wrote outside its buffers",
                     trial->comm->rank, (long long)trial->elements);
        }
    }
}

static void check_result(const struct trial *trial, struct comm_verdict *verdict) {
    const unsigned char *to = trial->comm->arena + trial->call.to;
    for (int slot = 0; slot < trial->group->size; slot++) {
        for (int64_t i = 0; is_written_slot(trial, slot) && i < trial->elements; i++) {
            float must = expected_value(trial, slot, i);
            float got;
            int64_t index = slot * trial->elements + i;
            convert_to_f32(trial->out, to + index * dtype_bytes(trial->out), 1, &got);
            verdict->elements++;
            if (memcmp(&must, &got, sizeof got) != 0) {
                record_error(trial, slot, i, got, verdict);
            }
        }
    }
    check_guard_bytes(trial, verdict);
}

static void run_trial(struct trial *trial, struct comm_verdict *verdict) {
    fill_inputs(trial);
    collective_run(&trial->comm->communicator, &trial->call);
    verdict->calls++;
    check_result(trial, verdict);
}

static void run_check(struct comm *comm, const struct comm_check *row, int group,
                      struct comm_verdict *verdict) {
    int size = comm->communicator.groups[group].size;
    for (size_t i = 0; i < ARRAY_COUNT(SLOT_ELEMENTS); i++) {
        int64_t elements = min_i64(SLOT_ELEMENTS[i], ELEMENTS_MAX / size);
        struct trial trial = make_trial(comm, row, group, elements);
        int roots = row->kind == COLLECTIVE_BROADCAST ? size : 1;
        for (int root = 0; root < roots; root++) {
            trial.call.root = root;
            run_trial(&trial, verdict);
        }
    }
}

static void add_verdict(const struct comm_verdict *part, struct comm_verdict *sum) {
    if (sum->wrong == 0) {
        memcpy(sum->first, part->first, sizeof sum->first);
    }
    sum->calls += part->calls;
    sum->elements += part->elements;
    sum->wrong += part->wrong;
}

enum status comm_test(struct comm *comm,
                      struct comm_verdict verdicts[COMM_CHECK_COUNT][COMM_GROUP_COUNT],
                      struct fault *fault) {
    struct comm_verdict *all =
        region_alloc(comm->region, (size_t)comm->world * COMM_GROUP_COUNT, sizeof *all);
    for (int row = 0; row < COMM_CHECK_COUNT; row++) {
        struct comm_verdict own[COMM_GROUP_COUNT] = {{.calls = 0}};
        for (int group = 0; group < COMM_GROUP_COUNT; group++) {
            run_check(comm, &COMM_CHECK_ROWS[row], group, &own[group]);
        }
        TRY(site_exchange(comm->site, own, sizeof own, all, fault));
        memset(verdicts[row], 0, sizeof verdicts[row]);
        for (int i = 0; i < comm->world * COMM_GROUP_COUNT; i++) {
            add_verdict(&all[i], &verdicts[row][i % COMM_GROUP_COUNT]);
        }
    }
    return OK;
}

uint64_t comm_test_arena_bytes(int world) {
    uint64_t buffer = (uint64_t)(ELEMENTS_MAX + world) * sizeof(float) + 2 * GUARD_BYTES;
    return 2 * (buffer + 2 * GUARD_BYTES);
}
