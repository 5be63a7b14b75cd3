/* test_comm: the self-test of collectives passes one that is right and finds each that is not. One
 * rank is enough: every group is this rank alone, so that a call only copies. */
#include "runtime/diagnose/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum mistake {
    NONE,
    LOWEST_BIT, /* one bit of the last element */
    NOTHING,    /* the output stays as it was */
    BEFORE,     /* a byte before the output */
    BEHIND      /* a byte behind it */
};

struct double_of_transport {
    unsigned char *arena;
    enum mistake mistake;
    enum collective_kind only; /* calls of this kind are wrong, the others right */
};

static bool sums(enum collective_kind kind) {
    return kind == COLLECTIVE_REDUCE_SCATTER || kind == COLLECTIVE_ALL_REDUCE;
}

static uint64_t copy_right(unsigned char *arena, const struct collective_call *call) {
    bool widens = sums(call->kind) && call->wire == DTYPE_BF16;
    for (uint64_t i = 0; widens && i < call->slot_bytes / 2; i++) {
        uint16_t narrow;
        memcpy(&narrow, arena + call->from + 2 * i, sizeof narrow);
        float wide = bf16_to_f32(narrow);
        memcpy(arena + call->to + 4 * i, &wide, sizeof wide);
    }
    if (!widens) {
        memmove(arena + call->to, arena + call->from, call->slot_bytes);
    }
    return widens ? 2 * call->slot_bytes : call->slot_bytes;
}

static void run_double(void *self, const struct collective_call *call) {
    const struct double_of_transport *transport = self;
    unsigned char *to = transport->arena + call->to;
    enum mistake mistake = call->kind == transport->only ? transport->mistake : NONE;
    if (call->kind == COLLECTIVE_BARRIER) {
        return;
    }
    if (mistake == NOTHING) {
        memset(to, 0, call->slot_bytes);
        return;
    }
    uint64_t bytes = copy_right(transport->arena, call);
    if (mistake == LOWEST_BIT) {
        to[bytes - (call->wire == DTYPE_BF16 && !sums(call->kind) ? 2 : 4)] ^= 1;
    } else if (mistake == BEFORE) {
        to[-1] ^= 1;
    } else if (mistake == BEHIND) {
        to[bytes] ^= 1;
    }
}

static const struct communicator_methods METHODS = {.name = "double", .run = run_double};

struct rig {
    struct region region;
    struct double_of_transport transport;
    struct comm comm;
    struct comm_verdict verdicts[COMM_CHECK_COUNT][COMM_GROUP_COUNT];
};

static void test_with(struct rig *rig, enum mistake mistake, enum collective_kind only) {
    static const int SELF[] = {0};
    const struct launch_info place = {.world = 1, .local_world = 1, .source = "alone"};
    struct fault fault;
    memset(rig, 0, sizeof *rig);
    struct comm *comm = &rig->comm;
    *comm = (struct comm){.region = &rig->region, .world = 1, .bytes = comm_test_arena_bytes(1)};
    assert_int_equal(site_open(&place, &rig->region, &comm->site, &fault), OK);
    comm->arena = region_alloc(&rig->region, comm->bytes, 1);
    rig->transport = (struct double_of_transport){comm->arena, mistake, only};
    comm->communicator = (struct communicator){
        .methods = &METHODS, .self = &rig->transport, .world = 1, .group_count = COMM_GROUP_COUNT};
    comm->communicator.space_bytes[SPACE_DEVICE] = comm->bytes;
    for (int group = 0; group < COMM_GROUP_COUNT; group++) {
        comm->communicator.groups[group] = (struct collective_group){.ranks = SELF, .size = 1};
    }
    assert_int_equal(comm_test(comm, rig->verdicts, &fault), OK);
}

static void finish(struct rig *rig) {
    site_leave(rig->comm.site);
    region_finish(&rig->region);
}

static void a_right_transport_passes_with_every_element_checked(void **state) {
    (void)state;
    struct rig rig;
    test_with(&rig, NONE, COLLECTIVE_BARRIER);
    for (int row = 0; row < COMM_CHECK_COUNT; row++) {
        bool moves = COMM_CHECK_ROWS[row].kind != COLLECTIVE_BARRIER;
        for (int group = 0; group < COMM_GROUP_COUNT; group++) {
            const struct comm_verdict *verdict = &rig.verdicts[row][group];
            assert_int_equal(verdict->wrong, 0);
            assert_string_equal(verdict->first, "");
            assert_int_equal(verdict->calls, 4);
            assert_int_equal(verdict->elements, moves ? 1 + 63 + 4097 + 65536 : 0);
        }
    }
    finish(&rig);
}

static void each_mistake_is_found_where_it_is_and_nowhere_else(void **state) {
    (void)state;
    static const enum mistake MISTAKES[] = {LOWEST_BIT, NOTHING, BEFORE, BEHIND};
    for (int kind = 0; kind < COLLECTIVE_BARRIER; kind++) {
        for (size_t i = 0; i < ARRAY_COUNT(MISTAKES); i++) {
            struct rig rig;
            test_with(&rig, MISTAKES[i], (enum collective_kind)kind);
            for (int row = 0; row < COMM_CHECK_COUNT; row++) {
                const struct comm_verdict *verdict = &rig.verdicts[row][COMM_GROUP_ALL];
                bool hit = COMM_CHECK_ROWS[row].kind == (enum collective_kind)kind;
                assert_int_equal(verdict->wrong > 0, hit);
                assert_int_equal(verdict->first[0] != '\0', hit);
            }
            finish(&rig);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_transport_passes_with_every_element_checked),
        cmocka_unit_test(each_mistake_is_found_where_it_is_and_nowhere_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
