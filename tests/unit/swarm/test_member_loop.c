/* Members' loops with real sockets, replicas and a tracker: rounds, a joiner, a returner. */
#include "tests/unit/swarm/member_scene.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void members_reach_the_roots_of_the_ledger_round_after_round(void **state) {
    struct scene *scene = *state;
    for (uint32_t i = 0; i < SCENE_SITES; i++) {
        site_start(&scene->sites[i]);
    }
    for (uint32_t i = 0; i < SCENE_SITES; i++) {
        site_wait_applied(scene, i, 3);
        site_wait_contributes(scene, i, 1);
    }
    struct member_loop_view view;
    mailbox_read_view(member_loop_mailbox(scene->sites[0].loop), &view);
    assert_true(view.is_admitted && view.is_tracker_connected);
    assert_int_equal(view.members, SCENE_SITES);
    assert_int_equal(view.timing.heartbeat_ms, 100);
    assert_true(view.round >= 3);
    scene_stop(scene);
    struct scene_found found = scene_check(scene);
    assert_true(found.commits >= 3);
    assert_int_equal(found.contributed, 7);
    assert_int_equal(found.stands, 7);
}

static void a_member_that_comes_late_adopts_the_state_and_contributes(void **state) {
    struct scene *scene = *state;
    site_start(&scene->sites[0]);
    site_start(&scene->sites[1]);
    site_wait_applied(scene, 0, REPLAY_ROUNDS_MAX + 2); /* fewer it would replay */
    site_start(&scene->sites[2]);
    site_wait_adopted(scene, 2, 1);
    site_wait_contributes(scene, 2, 1);
    scene_stop(scene);
    struct scene_found found = scene_check(scene);
    assert_int_equal(found.contributed, 7);
    assert_int_equal(found.stands, 7);
}

static void a_member_that_was_stopped_returns(void **state) {
    struct scene *scene = *state;
    for (uint32_t i = 0; i < SCENE_SITES; i++) {
        site_start(&scene->sites[i]);
    }
    site_wait_applied(scene, 2, 1);
    site_stop(&scene->sites[2]);
    uint32_t before = site_applied(scene, 0);
    site_wait_applied(scene, 0, before + 2);
    site_start(&scene->sites[2]);
    site_wait_contributes(scene, 2, 2);
    scene_stop(scene);
    struct scene_found found = scene_check(scene);
    assert_int_equal(found.contributed, 7);
    assert_int_equal(found.stands, 7);
}

static void a_member_leaves_when_nobody_needs_it(void **state) {
    struct scene *scene = *state;
    for (uint32_t i = 0; i < SCENE_SITES; i++) {
        site_start(&scene->sites[i]);
    }
    site_wait_applied(scene, 1, 1);
    mailbox_request_leave(member_loop_mailbox(scene->sites[1].loop));
    site_wait_left(scene, 1);
    uint32_t before = site_applied(scene, 0);
    site_wait_applied(scene, 0, before + 4); /* one may have been open, and site 0 behind */
    scene_stop(scene);
    assert_int_equal(scene_check(scene).contributed_last & 2, 0);
}

static void a_member_that_is_refused_says_why_and_comes_in_later(void **state) {
    struct scene *scene = *state;
    atomic_store(&scene->tracker.lets_in, false);
    for (uint32_t i = 0; i < SCENE_SITES; i++) {
        site_start(&scene->sites[i]);
    }
    struct member_loop_view view = {.is_admitted = true};
    int64_t until_ns = clock_monotonic_ns() + SCENE_WAIT_S * INT64_C(1000000000);
    while (view.reason[0] == '\0' && clock_monotonic_ns() < until_ns) {
        mailbox_read_view(member_loop_mailbox(scene->sites[0].loop), &view);
    }
    assert_false(view.is_admitted);
    assert_non_null(strstr(view.reason, "skep roster add p123"));
    atomic_store(&scene->tracker.lets_in, true);
    site_wait_applied(scene, 0, 1);
    mailbox_read_view(member_loop_mailbox(scene->sites[0].loop), &view);
    assert_string_equal(view.reason, "");
}

static void a_tracker_that_tells_another_history_is_not_followed(void **state) {
    struct scene *scene = *state;
    site_start(&scene->sites[0]);
    site_start(&scene->sites[1]);
    site_wait_applied(scene, 0, 1);
    atomic_store(&scene->tracker.lie, TINY_OTHER_HISTORY);
    site_start(&scene->sites[2]);
    struct member_loop_view view = {.is_admitted = true};
    int64_t until_ns = clock_monotonic_ns() + SCENE_WAIT_S * INT64_C(1000000000);
    while (view.reason[0] == '\0' && clock_monotonic_ns() < until_ns) {
        mailbox_read_view(member_loop_mailbox(scene->sites[2].loop), &view);
    }
    assert_non_null(strstr(view.reason, "rejected the tracker's ledger: entry 0"));
    uint32_t before = site_applied(scene, 0);
    site_wait_applied(scene, 0, before + 1);
    assert_int_equal(scene->sites[2].adopted + scene->sites[2].applied, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(members_reach_the_roots_of_the_ledger_round_after_round,
                                        scene_begin, scene_end),
        cmocka_unit_test_setup_teardown(a_member_that_comes_late_adopts_the_state_and_contributes,
                                        scene_begin, scene_end),
        cmocka_unit_test_setup_teardown(a_member_that_was_stopped_returns, scene_begin, scene_end),
        cmocka_unit_test_setup_teardown(a_member_leaves_when_nobody_needs_it, scene_begin,
                                        scene_end),
        cmocka_unit_test_setup_teardown(a_member_that_is_refused_says_why_and_comes_in_later,
                                        scene_begin, scene_end),
        cmocka_unit_test_setup_teardown(a_tracker_that_tells_another_history_is_not_followed,
                                        scene_begin, scene_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
