/* test_tracker_pairs: the tracker's machine by hand: contributions that do not reach one owner. */
#include "tests/unit/swarm/tracker_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { OWNER = 0, USUAL_BEATS = 4 };

/* Slices of an owner in the first table of the round that wait for a member. */
static uint32_t waiting_slices(uint32_t owner, uint32_t member) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < SLICES; s++) {
        const struct slice_plan *plan = &scene.plans_first[s];
        count += plan->owner == owner && (plan->expected_seats >> member & 1) != 0;
    }
    return count;
}

static void begin(void) {
    scene_begin(0, MEMBERS);
    play_evenly();
    for (int i = 0; i < 4; i++) {
        assert_in_range(play_round(), 1, USUAL_BEATS);
    }
}

/* One of them lies, or their connection is bad. Both own slices, and the other owners wait for the
 * member. The owner tries again after 8 rounds and after 16. */
static void an_owner_waits_once_for_a_contribution_that_does_not_reach_it(void **state) {
    (void)state;
    begin();
    play.missing[OWNER] = 1 << SLOW;
    for (int i = 0; i < 30; i++) {
        bool is_waiting = i == 0 || i == 9 || i == 26;
        int beats = play_round();
        assert_true(is_waiting ? beats > USUAL_BEATS : beats <= USUAL_BEATS);
        assert_int_equal(waiting_slices(OWNER, SLOW) > 0, is_waiting);
        assert_true(play_owned(OWNER) > 0 && play_owned(SLOW) > 0);
        assert_int_equal(waiting_slices(1, SLOW), play_owned(1));
        assert_int_equal(play_slices_with(SLOW, true), is_waiting ? 0 : play_owned(OWNER));
    }
}

/* It has its share of all slices again once its contributions arrive. */
static void a_separation_ends(void **state) {
    (void)state;
    begin();
    play.missing[OWNER] = 1 << SLOW;
    play_round();
    play.missing[OWNER] = 0;
    for (int i = 0; i < 8; i++) {
        assert_in_range(play_round(), 1, USUAL_BEATS);
        assert_int_equal(waiting_slices(OWNER, SLOW), 0);
        for (uint32_t s = 0; s < SLICES; s++) {
            assert_int_equal(scene.head.slices[s].contributors, SEATS_ALL); /* all arrive */
        }
    }
    assert_in_range(play_round(), 1, USUAL_BEATS);
    assert_int_equal(waiting_slices(OWNER, SLOW), play_owned(OWNER));
}

/* It says so of another member in every round. From the second one on, more than a third of the
 * members is separated from it: no owner waits for it, and it owns nothing. */
static void a_member_that_is_separated_from_many_is_at_fault(void **state) {
    (void)state;
    begin();
    for (uint32_t i = 0; i < 6; i++) {
        play.missing[SLOW] = 1 << i % SLOW;
        int beats = play_round();
        assert_true(i < 2 ? beats > USUAL_BEATS : beats <= USUAL_BEATS);
        assert_int_equal(play_owned(SLOW) > 0, i < 2);
        assert_int_equal(play_slices_with(SLOW, false), i < 2 ? SLICES : 0);
        for (uint32_t m = 0; m < SLOW; m++) {
            assert_true(play_owned(m) > 0);
        }
    }
}

static int free_scene(void **state) {
    (void)state;
    scene_free();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_waits_once_for_a_contribution_that_does_not_reach_it),
        cmocka_unit_test(a_separation_ends),
        cmocka_unit_test(a_member_that_is_separated_from_many_is_at_fault),
    };
    return cmocka_run_group_tests(tests, NULL, free_scene);
}
