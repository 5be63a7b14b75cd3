/* test_timing: deadlines against values worked out by hand from timing.h's table. */
#include "runtime/swarm/protocol/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void timing_takes_the_ninth_of_ten_members(void **state) {
    (void)state;
    struct timing_measured members[10];
    for (uint32_t i = 0; i < 10; i++) { /* descending, so that order is seen not to matter */
        members[i] = (struct timing_measured){.step_ms = 1000 - 100 * i,
                                              .transfer_ms = 20000 - 1000 * i,
                                              .round_trip_ms = 300 - 10 * i};
    }
    struct swarm_timing timing = timing_derive(members, 10, &(struct timing_training){30, 2});
    assert_int_equal(timing.heartbeat_ms, 290);
    assert_int_equal(timing.silence_ms, 8 * 290);
    assert_int_equal(timing.train_ms, 2 * 900 * 30);
    assert_int_equal(timing.exchange_ms, 3 * 19000 + 4 * 290);
    assert_int_equal(timing.round_ms, 54000 + 10 * 58160);
}

static void timing_waits_as_often_as_patience_says(void **state) {
    (void)state;
    struct timing_measured member = {.step_ms = 40, .transfer_ms = 10, .round_trip_ms = 1};
    struct timing_training training = {.steps = 30, .patience = 2.5};
    assert_int_equal(timing_derive(&member, 1, &training).train_ms, 3000);
    training.patience = 20;
    assert_int_equal(timing_derive(&member, 1, &training).train_ms, 24000);
}

static void timing_stays_within_floors_and_ceilings(void **state) {
    (void)state;
    struct timing_measured none = {0};
    struct swarm_timing least = timing_derive(&none, 1, &(struct timing_training){1, 2});
    assert_int_equal(least.heartbeat_ms, 100);
    assert_int_equal(least.silence_ms, 500);
    assert_int_equal(least.train_ms, 500);
    assert_int_equal(least.exchange_ms, 1000);
    struct timing_measured huge = {UINT32_MAX, UINT32_MAX, UINT32_MAX, 0};
    struct swarm_timing most = timing_derive(&huge, 1, &(struct timing_training){UINT32_MAX, 1e6});
    assert_int_equal(most.heartbeat_ms, 2000);
    assert_int_equal(most.silence_ms, 10000);
    assert_int_equal(most.train_ms, 6 * 3600 * 1000);
    assert_int_equal(most.exchange_ms, 3600 * 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timing_takes_the_ninth_of_ten_members),
        cmocka_unit_test(timing_waits_as_often_as_patience_says),
        cmocka_unit_test(timing_stays_within_floors_and_ceilings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
