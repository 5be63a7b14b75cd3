/* Order and lives of sharded schedules, against a brute-force search through happens-before. */
#include "rig.h"

#include "runtime/schedule/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { INSTRUCTIONS_MAX = 512 };

static const struct rig_case CASES[] = {
    {.family = 1, .zero = 3, .shard = 2, .replicate = 1, .prefetch = 2, .separate = true},
    {.family = 0, .zero = 0, .shard = 3, .replicate = 1, .prefetch = 1, .reduce = DTYPE_BF16},
    {.family = 2,
     .zero = 2,
     .shard = 2,
     .replicate = 2,
     .prefetch = 1,
     .compute = DTYPE_BF16,
     .reduce = DTYPE_BF16,
     .separate = true},
    {.family = 3,
     .zero = 3,
     .shard = 4,
     .replicate = 2,
     .prefetch = 3,
     .live = 2,
     .keep_gathered = true,
     .recompute = RECOMPUTE_BLOCK,
     .reduce = DTYPE_BF16},
    {.family = 1, .zero = 1, .shard = 2, .replicate = 2, .reduce_at = REDUCE_AT_STEP},
    {.family = 0, .zero = 2, .shard = 8, .replicate = 1, .mixed = true, .prefetch = 1},
    {.family = 1, .offload = OFFLOAD_ACTIVATIONS, .hidden = 64, .separate = true},
    {.family = 3,
     .zero = 3,
     .shard = 2,
     .replicate = 1,
     .prefetch = 1,
     .recompute = RECOMPUTE_SELECTIVE,
     .offload = OFFLOAD_ACTIVATIONS | OFFLOAD_OPTIMIZER,
     .hidden = 64},
};

/* ---- the oracle ---- */

static bool before[INSTRUCTIONS_MAX][INSTRUCTIONS_MAX]; /* [a][b]: a is done when b begins */
static bool shares[INSTRUCTIONS_MAX][INSTRUCTIONS_MAX]; /* a and b touch a byte, one writing */

static const struct operand *touched(const struct instruction *instruction, int k) {
    return k < OPERANDS_MAX ? &instruction->operands[k] : &instruction->workspace;
}

/* Where an operand begins on a rank of the world. */
static uint64_t first_byte(const struct rig *rig, const struct operand *operand, int rank) {
    const int index[AXIS_COUNT] = {[AXIS_SHARD] = rank % rig->sharding.shard,
                                   [AXIS_REPLICATE] = rank / rig->sharding.shard,
                                   [AXIS_WORLD] = rank};
    return rig->plan.offsets[operand->extent] + operand->offset +
           operand->stride * (uint64_t)index[operand->axis];
}

static bool overlap_on(const struct rig *rig, int rank, const struct operand *x,
                       const struct operand *y) {
    const struct extent *a = &rig->schedule.extents[x->extent];
    const struct extent *b = &rig->schedule.extents[y->extent];
    uint64_t a_first = first_byte(rig, x, rank);
    uint64_t b_first = first_byte(rig, y, rank);
    return a->space == b->space && a_first < b_first + y->bytes && b_first < a_first + x->bytes;
}

static bool share_bytes(const struct rig *rig, const struct instruction *a,
                        const struct instruction *b) {
    int world = rig->sharding.shard * rig->sharding.replicate;
    for (int i = 0; i <= OPERANDS_MAX; i++) {
        for (int j = 0; j <= OPERANDS_MAX; j++) {
            const struct operand *x = touched(a, i);
            const struct operand *y = touched(b, j);
            if (x->extent == EXTENT_NONE || y->extent == EXTENT_NONE ||
                !((x->access | y->access) & ACCESS_WRITE)) {
                continue;
            }
            for (int rank = 0; rank < world; rank++) {
                if (overlap_on(rig, rank, x, y)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static void find_shares(const struct rig *rig) {
    const struct schedule *schedule = &rig->schedule;
    assert_true(schedule->instruction_count <= INSTRUCTIONS_MAX);
    for (int a = 0; a < schedule->instruction_count; a++) {
        for (int b = 0; b < schedule->instruction_count; b++) {
            const struct instruction *x = &schedule->instructions[a];
            const struct instruction *y = &schedule->instructions[b];
            shares[a][b] = x->segment == y->segment && share_bytes(rig, x, y);
        }
    }
}

static bool waits_for(const struct instruction *after, const struct instruction *signaller) {
    for (int k = 0; k < WAITS_MAX; k++) {
        if (after->waits[k] != EVENT_NONE && after->waits[k] == signaller->signal) {
            return true;
        }
    }
    return false;
}

/* Happens-before of every pair, from nothing but lanes, waits and signals. */
static void find_before(const struct schedule *schedule) {
    memset(before, 0, sizeof before);
    for (int b = 0; b < schedule->instruction_count; b++) {
        const struct instruction *after = &schedule->instructions[b];
        for (int a = 0; a < b; a++) {
            const struct instruction *first = &schedule->instructions[a];
            if (first->segment != after->segment ||
                (first->lane != after->lane && !waits_for(after, first))) {
                continue;
            }
            before[a][b] = true;
            for (int c = 0; c < a; c++) {
                before[c][b] = before[c][b] || before[c][a];
            }
        }
    }
}

static bool races(const struct schedule *schedule) {
    find_before(schedule);
    for (int b = 0; b < schedule->instruction_count; b++) {
        for (int a = 0; a < b; a++) {
            if (shares[a][b] && !before[a][b]) {
                return true;
            }
        }
    }
    return false;
}

/* ---- tests ---- */

static bool proven(struct rig *rig) {
    struct region scratch = {0};
    struct fault fault;
    bool holds = schedule_verify(&rig->schedule, rig->plan.offsets, &scratch, &fault) == OK;
    region_finish(&scratch);
    return holds;
}

/* Takes away each wait in turn: the proof must fail exactly where a race can be found. */
static void the_proof_fails_exactly_where_a_wait_was_needed(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        static struct rig rig;
        int needed = 0;
        rig_init(&rig, &CASES[i]);
        rig_prove(&rig);
        find_shares(&rig);
        assert_false(races(&rig.schedule));
        for (int k = 0; k < rig.schedule.instruction_count * WAITS_MAX; k++) {
            uint32_t *wait = &rig.schedule.instructions[k / WAITS_MAX].waits[k % WAITS_MAX];
            uint32_t kept = *wait;
            if (kept == EVENT_NONE) {
                continue;
            }
            *wait = EVENT_NONE;
            bool race = races(&rig.schedule);
            needed += race;
            if (proven(&rig) == race) {
                fail_msg("%s: instruction %d without a wait %s a race, and the proof says not",
                         rig_title(&CASES[i]), k / WAITS_MAX, race ? "has" : "has not");
            }
            *wait = kept;
        }
        assert_true(needed >= 10);
        rig_finish(&rig);
    }
}

static void a_wait_that_nothing_ends_is_refused(void **state) {
    (void)state;
    static struct rig rig;
    struct fault fault;
    rig_init(&rig, &CASES[0]);
    for (int i = 0; i < rig.schedule.instruction_count; i++) {
        uint32_t *signal = &rig.schedule.instructions[i].signal;
        uint32_t kept = *signal;
        if (kept == EVENT_NONE) {
            continue;
        }
        *signal = EVENT_NONE;
        assert_int_equal(schedule_verify(&rig.schedule, rig.plan.offsets, &rig.region, &fault),
                         STATUS_FAILED);
        assert_non_null(strstr(fault.reason, "which no earlier instruction signals"));
        *signal = kept;
    }
    rig_finish(&rig);
}

static bool names(const struct instruction *instruction, int extent) {
    for (int k = 0; k <= OPERANDS_MAX; k++) {
        if (touched(instruction, k)->extent == extent) {
            return true;
        }
    }
    return false;
}

/* What is gathered, made to be reduced, or cast to the wire in a microbatch is dead outside the
 * instructions that name it. */
static void bytes_between_ranks_live_no_longer_than_they_are_named(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        static struct rig rig;
        int found = 0;
        rig_init(&rig, &CASES[i]);
        const struct schedule *schedule = &rig.schedule;
        for (int e = 0; e < schedule->extent_count; e++) {
            const struct extent *extent = &schedule->extents[e];
            bool passing = extent->role == ROLE_GATHERED || strstr(extent->name, ".local") ||
                           strstr(extent->name, ".wire");
            if (!passing) {
                continue;
            }
            found++;
            uint32_t first = (uint32_t)schedule->instruction_count;
            uint32_t last = 0;
            for (uint32_t k = 0; k < (uint32_t)schedule->instruction_count; k++) {
                if (names(&schedule->instructions[k], e)) {
                    first = k < first ? k : first;
                    last = k + 1;
                }
            }
            assert_int_equal(extent->first, first);
            assert_int_equal(extent->last, last);
            assert_int_equal(schedule->instructions[last - 1].lane, LANE_COMPUTE);
        }
        assert_true(found > 0 || CASES[i].reduce_at == REDUCE_AT_STEP || CASES[i].shard <= 1);
        rig_finish(&rig);
    }
}

/* A gather is listed where its span says, and the unit's ops follow it before another gather of the
 * same unit: without prefetching at most one unit and what the op at hand needs is whole. */
static void without_prefetching_a_unit_is_gathered_when_it_is_used(void **state) {
    (void)state;
    static struct rig rig;
    struct rig_case of = {.family = 1, .zero = 3, .shard = 2};
    rig_init(&rig, &of);
    const struct schedule *schedule = &rig.schedule;
    int gathers = 0;
    for (uint32_t i = 0; i < (uint32_t)schedule->instruction_count; i++) {
        const struct instruction *gather = &schedule->instructions[i];
        int extent = gather->operands[ALL_GATHER_SLOTS].extent;
        if (gather->op != OP_ALL_GATHER || schedule->extents[extent].role != ROLE_GATHERED) {
            continue;
        }
        gathers++;
        assert_int_equal(schedule->instructions[i - 1].op, OP_CAST);
        assert_true(names(&schedule->instructions[i - 1], extent));
        bool zeroed = schedule->instructions[i + 1].op == OP_ZERO;
        assert_true(names(&schedule->instructions[i + 1 + zeroed], extent));
    }
    /* Forward and backward of each layer, embedding once, final norm with the head once; and
     * forward again in evaluation, prefill and decode. */
    assert_int_equal(gathers, 2 * RIG_LAYERS + 2 + 3 * (RIG_LAYERS + 2));
    rig_finish(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_proof_fails_exactly_where_a_wait_was_needed),
        cmocka_unit_test(a_wait_that_nothing_ends_is_refused),
        cmocka_unit_test(bytes_between_ranks_live_no_longer_than_they_are_named),
        cmocka_unit_test(without_prefetching_a_unit_is_gathered_when_it_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
