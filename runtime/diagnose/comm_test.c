/* comm_test: runs collectives on data with a known result. Every rank writes numbers that depend on
 * its rank, the slot and the element, makes the call, and computes the expected result. The numbers
 * are exact in bf16 and have many different exponents, so that a sum in another order, or in
 * another precision, has other bits. */
#include "runtime/diagnose/comm.h"

#include "base/bytes.h"
#include "runtime/checkpoint/piece.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    GUARD_BYTES = 4096, /* bytes around each buffer that no call may write */
    GUARD = 0xa5,
    ELEMENTS_MAX = 1 << 18 /* elements of a buffer; keeps a test of many ranks short */
};

static const int64_t SLOT_ELEMENTS[] = {1, 63, 4097, 65536};

const struct comm_check COMM_CHECK_ROWS[COMM_CHECKS] = {
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

/* One call, and where its buffers are on this rank. */
struct exercise {
    struct comm *comm;
    const struct comm_check *check;
    const struct collective_group *group;
    struct collective_call call;
    int64_t elements;     /* elements of a slot */
    enum dtype in, out;   /* element types of `from` and `to` */
    unsigned char *begin; /* both buffers and their guards */
    uint64_t span;
};

static float value(int rank, int slot, int64_t element) {
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

/* [guard][from][guard][to][guard], or one buffer for both. */
static struct exercise make_exercise(struct comm *comm, const struct comm_check *check, int group,
                                     int64_t elements) {
    struct exercise exercise = {.comm = comm,
                                .check = check,
                                .group = &comm->communicator.groups[group],
                                .elements = elements,
                                .in = check->wire,
                                .out = is_sum(check->kind) ? DTYPE_F32 : check->wire};
    uint64_t slots = check->kind == COLLECTIVE_BROADCAST ? 1 : (uint64_t)exercise.group->size;
    uint64_t from = (uint64_t)(elements * dtype_bytes(exercise.in)) * slots;
    uint64_t to = (uint64_t)(elements * dtype_bytes(exercise.out)) * slots;
    from = align_up(from, GUARD_BYTES);
    exercise.call =
        (struct collective_call){.kind = check->kind,
                                 .group = group,
                                 .wire = check->wire,
                                 .from = GUARD_BYTES,
                                 .to = GUARD_BYTES,
                                 .slot_bytes = (uint64_t)(elements * dtype_bytes(exercise.in))};
    if (is_out_of_place(check)) {
        exercise.call.to += from + GUARD_BYTES;
    }
    exercise.begin = comm->arena;
    exercise.span = exercise.call.to + to + GUARD_BYTES;
    ASSERT(exercise.span <= comm->bytes);
    return exercise;
}

/* Fills the slots that the call reads; all other bytes have the value of the guards. */
static void fill_inputs(const struct exercise *exercise) {
    const struct collective_group *group = exercise->group;
    enum collective_kind kind = exercise->check->kind;
    unsigned char *from = exercise->comm->arena + exercise->call.from;
    memset(exercise->begin, GUARD, exercise->span);
    int slots = kind == COLLECTIVE_BROADCAST ? 1 : group->size;
    for (int slot = 0; slot < slots; slot++) {
        bool needed = kind == COLLECTIVE_BROADCAST    ? group->index == exercise->call.root
                      : kind == COLLECTIVE_ALL_GATHER ? group->index == slot
                                                      : true;
        for (int64_t i = 0; needed && i < exercise->elements; i++) {
            float number = value(exercise->comm->rank, slot, i);
            int64_t index = slot * exercise->elements + i;
            convert_from_f32(exercise->in, &number, 1, from + index * dtype_bytes(exercise->in));
        }
    }
}

/* The value of element `i` in slot `slot` of `to` after the call. */
static float expected(const struct exercise *exercise, int slot, int64_t i) {
    const struct collective_group *group = exercise->group;
    switch (exercise->check->kind) {
    case COLLECTIVE_ALL_GATHER:
        return value(group->ranks[slot], slot, i);
    case COLLECTIVE_ALL_TO_ALL:
        return value(group->ranks[slot], group->index, i);
    case COLLECTIVE_BROADCAST:
        return value(group->ranks[exercise->call.root], 0, i);
    default: {
        float sum = value(group->ranks[0], slot, i);
        for (int member = 1; member < group->size; member++) {
            sum += value(group->ranks[member], slot, i);
        }
        return sum;
    }
    }
}

static bool has_slot(const struct exercise *exercise, int slot) {
    enum collective_kind kind = exercise->check->kind;
    return kind == COLLECTIVE_REDUCE_SCATTER ? slot == exercise->group->index
           : kind == COLLECTIVE_BROADCAST    ? slot == 0
                                             : kind != COLLECTIVE_BARRIER;
}

static void record_error(const struct exercise *exercise, int slot, int64_t element, float got,
                         struct comm_verdict *verdict) {
    if (verdict->wrong++ == 0) {
        snprintf(verdict->first, sizeof verdict->first,
                 "rank %d, %lld elements a slot: slot %d, element %lld is %.9g, expected %.9g",
                 exercise->comm->rank, (long long)exercise->elements, slot, (long long)element,
                 (double)got, (double)expected(exercise, slot, element));
    }
}

static void check_guards(const struct exercise *exercise, struct comm_verdict *verdict) {
    const unsigned char *end = exercise->begin + exercise->span;
    const unsigned char *to = exercise->comm->arena + exercise->call.to;
    for (int i = 0; i < GUARD_BYTES; i++) {
        bool good = exercise->begin[i] == GUARD && end[-1 - i] == GUARD && to[-1 - i] == GUARD;
        if (!good && verdict->wrong++ == 0) {
            snprintf(verdict->first, sizeof verdict->first,
                     "rank %d, %lld elements a slot: bytes outside the buffers changed",
                     exercise->comm->rank, (long long)exercise->elements);
        }
    }
}

static void check(const struct exercise *exercise, struct comm_verdict *verdict) {
    const unsigned char *to = exercise->comm->arena + exercise->call.to;
    for (int slot = 0; slot < exercise->group->size; slot++) {
        for (int64_t i = 0; has_slot(exercise, slot) && i < exercise->elements; i++) {
            float must = expected(exercise, slot, i);
            float got;
            int64_t index = slot * exercise->elements + i;
            convert_to_f32(exercise->out, to + index * dtype_bytes(exercise->out), 1, &got);
            verdict->elements++;
            if (memcmp(&must, &got, sizeof got) != 0) {
                record_error(exercise, slot, i, got, verdict);
            }
        }
    }
    check_guards(exercise, verdict);
}

static void run_exercise(struct exercise *exercise, struct comm_verdict *verdict) {
    fill_inputs(exercise);
    collective_run(&exercise->comm->communicator, &exercise->call);
    verdict->calls++;
    check(exercise, verdict);
}

static void run_check(struct comm *comm, const struct comm_check *row, int group,
                      struct comm_verdict *verdict) {
    int size = comm->communicator.groups[group].size;
    for (size_t i = 0; i < ARRAY_COUNT(SLOT_ELEMENTS); i++) {
        int64_t elements = min_i64(SLOT_ELEMENTS[i], ELEMENTS_MAX / size);
        struct exercise exercise = make_exercise(comm, row, group, elements);
        int roots = row->kind == COLLECTIVE_BROADCAST ? size : 1;
        for (int root = 0; root < roots; root++) {
            exercise.call.root = root;
            run_exercise(&exercise, verdict);
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

enum status comm_test(struct comm *comm, struct comm_verdict verdicts[COMM_CHECKS][COMM_GROUPS],
                      struct fault *fault) {
    struct comm_verdict *all =
        region_alloc(comm->region, (size_t)comm->world * COMM_GROUPS, sizeof *all);
    for (int row = 0; row < COMM_CHECKS; row++) {
        struct comm_verdict own[COMM_GROUPS] = {{.calls = 0}};
        for (int group = 0; group < COMM_GROUPS; group++) {
            run_check(comm, &COMM_CHECK_ROWS[row], group, &own[group]);
        }
        TRY(site_exchange(comm->site, own, sizeof own, all, fault));
        memset(verdicts[row], 0, sizeof verdicts[row]);
        for (int i = 0; i < comm->world * COMM_GROUPS; i++) {
            add_verdict(&all[i], &verdicts[row][i % COMM_GROUPS]);
        }
    }
    return OK;
}

uint64_t comm_test_bytes(int world) {
    uint64_t buffer = (uint64_t)(ELEMENTS_MAX + world) * sizeof(float) + 2 * GUARD_BYTES;
    return 2 * (buffer + 2 * GUARD_BYTES);
}
