/* test_timing: deadlines against values worked out by hand from timing.h's table. */
#include "runtime/swarm/protocol/protocol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void every_deadline_is_a_usual_time_with_patience_and_a_slack(void **state) {
    (void)state;
    const struct timing_times times = {20000, 4000, 6000, 3000, 300};
    enum { SLACK = 300 + 2 * 300 };
    struct swarm_timing timing = timing_derive(&times, 1.5);
    assert_int_equal(timing.heartbeat_ms, 300);
    assert_int_equal(timing.silence_ms, 8 * 300);
    assert_int_equal(timing.train_ms, 30000 + SLACK);
    assert_int_equal(timing.contribution_ms, 6000 + SLACK);
    assert_int_equal(timing.exchange_ms, 9000 + SLACK);
    assert_int_equal(timing.apply_ms, 4500 + SLACK);
    assert_int_equal(timing.round_ms, 30900 + 10 * (9900 + 5400));
    assert_int_equal(timing_derive(&times, 20).train_ms, 400000 + SLACK);
}

static void timing_stays_within_floors_and_ceilings(void **state) {
    (void)state;
    const struct timing_times none = {0};
    struct swarm_timing least = timing_derive(&none, 1);
    assert_int_equal(least.heartbeat_ms, 100);
    assert_int_equal(least.silence_ms, 500);
    assert_int_equal(least.train_ms, 500);
    assert_int_equal(least.contribution_ms, 1000);
    assert_int_equal(least.exchange_ms, 1000);
    assert_int_equal(least.apply_ms, 200);
    const struct timing_times huge = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    struct swarm_timing most = timing_derive(&huge, 1e6);
    assert_int_equal(most.heartbeat_ms, 2000);
    assert_int_equal(most.silence_ms, 10000);
    assert_int_equal(most.train_ms, 6 * 3600 * 1000);
    assert_int_equal(most.contribution_ms, 3600 * 1000);
    assert_int_equal(most.exchange_ms, 3600 * 1000);
    assert_int_equal(most.apply_ms, 3600 * 1000);
}

/* No owner is replaced before contributions may be late. */
static void results_have_at_least_the_time_of_contributions(void **state) {
    (void)state;
    const struct timing_times times = {0, 9000, 10, 0, 0};
    assert_int_equal(timing_derive(&times, 1).contribution_ms, 9100);
    assert_int_equal(timing_derive(&times, 1).exchange_ms, 9100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_deadline_is_a_usual_time_with_patience_and_a_slack),
        cmocka_unit_test(results_have_at_least_the_time_of_contributions),
        cmocka_unit_test(timing_stays_within_floors_and_ceilings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
