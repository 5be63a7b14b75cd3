/* test_serving_budget: what a peer gets of a member: enough for every honest use, and no more. */
#include "runtime/swarm/member/serving_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SLICE = 1 << 20, SLICES = 100 };
static const struct serving_sizes SIZES = {.round_bytes = (uint64_t)SLICES * SLICE,
                                           .slice_bytes = SLICE,
                                           .state_bytes = UINT64_C(1) << 30};
static const struct served_peer PEER = {.row = 3, .id = {{7}}};
static struct serving_budget budget;

static int begin(void **state) {
    (void)state;
    serving_budget_init(&budget, &SIZES);
    serving_budget_on_round_open(&budget, 1);
    return 0;
}

/* The slices, of `wanted`, that a peer is sent. */
static uint32_t fetch(const struct served_peer *peer, enum served_kind kind, uint32_t wanted,
                      int64_t now_ms) {
    uint32_t sent = 0;
    while (sent < wanted && serving_budget_has_bytes_left(&budget, peer, kind, now_ms)) {
        serving_budget_charge(&budget, peer, kind, SLICE, now_ms);
        sent++;
    }
    return sent;
}

static void contributions_are_sent_twice_a_round(void **state) {
    (void)state;
    for (uint32_t round = 2; round < 10; round++) {
        assert_int_equal(fetch(&PEER, SERVED_CONTRIBUTIONS, 1000000, round), 2 * SLICES + 16);
        assert_int_equal(fetch(&PEER, SERVED_CONTRIBUTIONS, 1, round), 0);
        serving_budget_on_round_open(&budget, round);
    }
}

static void missed_rounds_and_the_current_one_are_sent_twice(void **state) {
    (void)state;
    assert_int_equal(fetch(&PEER, SERVED_RESULTS, 1000000, 0), 8 * 2 * SLICES + 16);
    serving_budget_on_round_open(&budget, 2);
    assert_int_equal(fetch(&PEER, SERVED_RESULTS, 1000000, 0), 2 * SLICES);
    serving_budget_on_round_open(&budget, 12);
    assert_int_equal(fetch(&PEER, SERVED_RESULTS, 1000000, 0), 8 * 2 * SLICES + 16);
}

static void honest_use_is_never_refused(void **state) {
    (void)state;
    for (uint32_t round = 2; round < 1000; round++) {
        serving_budget_on_round_open(&budget, round);
        assert_int_equal(fetch(&PEER, SERVED_CONTRIBUTIONS, SLICES, round), SLICES);
        assert_int_equal(fetch(&PEER, SERVED_RESULTS, SLICES, round), SLICES);
    }
    assert_int_equal(fetch(&PEER, SERVED_RESULTS, 7 * SLICES, 1000), 7 * SLICES);
    assert_int_equal(fetch(&PEER, SERVED_LEAVES, 2 * 1024, 1000), 2 * 1024);
}

static void a_drain_of_leaves_gets_the_burst_and_then_one_mbit(void **state) {
    (void)state;
    const uint32_t burst = 2 * 1024 + 64;
    uint32_t sent = 0;
    for (int64_t s = 0; s < 3600; s++) {
        sent += fetch(&PEER, SERVED_LEAVES, 1000000, s * 1000);
    }
    assert_in_range(sent, burst + 3600 / 8 - 1, burst + 3600 / 8 + 1);
}

static void a_peer_s_drain_costs_no_other_peer(void **state) {
    (void)state;
    const struct served_peer other = {.row = 4, .id = {{8}}};
    (void)fetch(&PEER, SERVED_CONTRIBUTIONS, 1000000, 0);
    (void)fetch(&PEER, SERVED_LEAVES, 1000000, 0);
    assert_int_equal(fetch(&other, SERVED_CONTRIBUTIONS, SLICES, 0), SLICES);
    assert_int_equal(fetch(&other, SERVED_LEAVES, 1024, 0), 1024);
}

static void another_identity_in_the_row_has_a_budget_of_its_own(void **state) {
    (void)state;
    const struct served_peer next = {.row = 3, .id = {{9}}};
    (void)fetch(&PEER, SERVED_CONTRIBUTIONS, 1000000, 0);
    assert_int_equal(fetch(&next, SERVED_CONTRIBUTIONS, SLICES, 0), SLICES);
}

static void a_swarm_of_one_slice_survives_lost_connections(void **state) {
    (void)state;
    const struct serving_sizes tiny = {
        .round_bytes = SLICE, .slice_bytes = SLICE, .state_bytes = 8 * SLICE};
    serving_budget_init(&budget, &tiny);
    assert_int_equal(fetch(&PEER, SERVED_CONTRIBUTIONS, 18, 0), 18);
    assert_int_equal(fetch(&PEER, SERVED_CONTRIBUTIONS, 1, 0), 0);
    assert_int_equal(fetch(&PEER, SERVED_LEAVES, 80, 0), 80); /* ten restarts in a row */
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, begin)
        TEST(contributions_are_sent_twice_a_round),
        TEST(missed_rounds_and_the_current_one_are_sent_twice),
        TEST(honest_use_is_never_refused),
        TEST(a_drain_of_leaves_gets_the_burst_and_then_one_mbit),
        TEST(a_peer_s_drain_costs_no_other_peer),
        TEST(another_identity_in_the_row_has_a_budget_of_its_own),
        TEST(a_swarm_of_one_slice_survives_lost_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
