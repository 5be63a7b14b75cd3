/* test_tracker_pace: the parts of a first round close by the members that have finished them,
 * because no earlier round shows how long they take. */
#include "tests/unit/swarm/tracker_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CLOSE_BEATS = 10 /* a second: no first part closes earlier */, SOON = 3 };

static void begin_first_round(void) {
    scene_begin(0, MEMBERS);
    play_evenly();
    const struct swarm_timing *timing = tracker_timing(scene.tracker);
    assert_true(timing->contribution_ms >= 5000 && timing->exchange_ms >= 5000);
}

/* The heartbeats until the tracker changes its table. */
static int beats_to_next_table(void) {
    int beats = 0;
    for (; beats < 500 && scene.table_version == 1; beats++) {
        play_exchange_beat();
    }
    return beats;
}

static void a_member_that_sends_nothing_is_dropped_after_twice_the_time_of_half(void **state) {
    (void)state;
    begin_first_round();
    play_train();
    play.withholding = 1 << SLOW;
    assert_in_range(beats_to_next_table(), CLOSE_BEATS - 1, CLOSE_BEATS + SOON);
    for (uint32_t s = 0; s < SLICES; s++) {
        bool is_owner = scene.table[s].owner == SLOW;
        assert_int_equal(scene.table[s].expected_seats >> SLOW & 1, is_owner);
    }
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* It has all contributions, and shows no result. */
static void an_owner_without_results_is_replaced_after_twice_the_time_of_half(void **state) {
    (void)state;
    begin_first_round();
    play_train();
    play.silent_owners = 1 << SLOW;
    assert_in_range(beats_to_next_table(), CLOSE_BEATS - 1, CLOSE_BEATS + SOON);
    for (uint32_t s = 0; s < SLICES; s++) {
        assert_int_not_equal(scene.table[s].owner, SLOW);
    }
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* It reports neither a contribution nor a result. Once the others have theirs, it is as late as if
 * the round had been measured: the first close finds no contributor to drop, the second replaces
 * it. */
static void an_owner_that_reports_nothing_is_replaced_at_its_second_close(void **state) {
    (void)state;
    begin_first_round();
    play_train();
    play.missing[SLOW] = SEATS_ALL;
    assert_in_range(beats_to_next_table(), 2 * CLOSE_BEATS - 1, 2 * CLOSE_BEATS + SOON);
    for (uint32_t s = 0; s < SLICES; s++) {
        assert_int_not_equal(scene.table[s].owner, SLOW);
    }
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* It reports its results, and no other member gets them. */
static void an_owner_that_holds_its_results_is_replaced_after_twice_the_time_of_half(void **state) {
    (void)state;
    begin_first_round();
    play_train();
    play.holding_owners = 1 << SLOW;
    assert_in_range(beats_to_next_table(), CLOSE_BEATS - 1, CLOSE_BEATS + 2 * SOON);
    for (uint32_t s = 0; s < SLICES; s++) {
        assert_int_not_equal(scene.table[s].owner, SLOW);
    }
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* The exchange deadline after a round in which one member, which alone accepts connections, owned
 * all slices. */
static uint32_t deadline_after_sole_owner(uint32_t holding_owners) {
    begin_first_round();
    for (uint32_t m = 0; m < SLOW; m++) {
        scene.measured[m].upload_kib_s = 0;
    }
    play_train();
    play.holding_owners = holding_owners;
    if (holding_owners != 0) {
        assert_in_range(beats_to_next_table(), CLOSE_BEATS, 499);
    }
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    assert_int_equal(play_owned(SLOW), SLICES);
    play_train(); /* the deadlines follow from the committed rounds */
    return tracker_timing(scene.tracker)->exchange_ms;
}

/* Its results reach nobody, and the others take over its slices. The time lost with it is not
 * theirs: else each such round would make the next one several times longer. */
static void an_owner_that_was_replaced_does_not_lengthen_the_next_exchange(void **state) {
    (void)state;
    const uint32_t usual_ms = deadline_after_sole_owner(0);
    assert_in_range(deadline_after_sole_owner(1 << SLOW), 1, usual_ms);
}

/* All lines are slower than in the measured rounds. The last owner is only a little slower than the
 * others, so it is neither replaced nor suspended. */
static void an_owner_is_compared_with_the_others_of_its_round(void **state) {
    (void)state;
    begin_first_round();
    for (int i = 0; i < 3; i++) {
        play_round();
    }
    for (int i = 0; i < 3; i++) {
        play_train();
        int close_beats = (int)tracker_timing(scene.tracker)->exchange_ms / 100;
        for (uint32_t m = 0; m < MEMBERS; m++) {
            play.result_beats[m] = (uint32_t)(2 * close_beats + SOON * (m == SLOW));
        }
        play_exchange();
        assert_int_equal(scene.head.kind, ENTRY_COMMIT);
        assert_int_equal(scene.table_version, 1);
        assert_int_equal(scene.suspension.kind, 0);
    }
}

/* The others take three seconds for their results. Members that claim to have received all, or to
 * have theirs, at once do not make the close earlier than that. */
static void two_of_five_cannot_close_the_first_exchange_early(void **state) {
    (void)state;
    begin_first_round();
    play_train();
    for (uint32_t m = 2; m < MEMBERS; m++) {
        play.result_beats[m] = 30 + 5 * (m == SLOW);
        play.missing[m] = SEATS_ALL & ~(1U << m); /* until then */
    }
    for (int i = 0; i < 30; i++) {
        play_exchange_beat();
        assert_int_equal(scene.table_version, 1);
    }
    memset(play.missing, 0, sizeof play.missing);
    uint32_t round = scene.head.round;
    for (int i = 0; i < 10; i++) {
        play_exchange_beat();
        assert_int_equal(scene.table_version, 1);
    }
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    assert_int_equal(scene.head.round, round);
}

/* All lines are slow: no contribution arrives while a round lasts. The next rounds last longer. A
 * commit tells how long an exchange takes now. */
static void an_exchange_that_takes_longer_than_any_round_is_given_more_time(void **state) {
    (void)state;
    begin_first_round();
    uint32_t lasted_ms = 0;
    for (int i = 0; i < 2; i++) {
        play_train();
        const struct swarm_timing timing = *tracker_timing(scene.tracker);
        assert_true(timing.round_ms > lasted_ms + lasted_ms / 2);
        lasted_ms = timing.round_ms;
        play.silent_owners = SEATS_ALL;
        play.withholding = SEATS_ALL;
        play_exchange();
        assert_int_equal(scene.head.kind, ENTRY_ABORT);
    }
    play_evenly();
    play_train();
    for (uint32_t m = 0; m < MEMBERS; m++) {
        play.result_beats[m] = 30;
    }
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    enum { SLACK = 100 };
    assert_in_range(tracker_timing(scene.tracker)->exchange_ms, 2 * 3000 + SLACK, 2 * 3300 + SLACK);
    assert_true(tracker_timing(scene.tracker)->round_ms < lasted_ms);
}

/* Opens the next round; returns the heartbeats until then. */
static int beats_to_next_round(void) {
    uint32_t round = scene.head.round;
    int beats = 0;
    for (; beats < 500 && scene.head.round == round; beats++) {
        scene_beat(round, 0);
    }
    scene.table_version = 0;
    scene.told_to_declare = 0;
    return beats;
}

/* The settings assume 450 ms for training, and twice that as its deadline. One member has nothing
 * to declare: the tracker asks for its declaration, and then no longer waits for it. */
static void training_closes_by_the_members_that_have_declared(void **state) {
    (void)state;
    for (int is_first = 1; is_first >= 0; is_first--) {
        scene_begin(0, MEMBERS);
        play_evenly();
        if (!is_first) {
            play_round();
        }
        beats_to_next_round();
        int told = 0;
        int beats = 1;
        for (; beats < 100 && scene.table_version == 0; beats++) {
            scene_beat(scene.head.round, 0);
            for (uint32_t m = 0; m < SLOW && beats == 2; m++) {
                scene_declare(m, (struct training_amount){8, 8, 0}, &SCENE_ZERO_ROOT);
            }
            told = told == 0 && scene.told_to_declare != 0 ? beats : told;
        }
        uint32_t train_ms = tracker_timing(scene.tracker)->train_ms;
        assert_int_equal(scene.told_to_declare, 1 << SLOW);
        assert_in_range(told, train_ms / 100, train_ms / 100 + 1);
        assert_in_range(beats, train_ms / 100 + 5, train_ms / 100 + 5 + SOON);
    }
}

/* Its state stays the old one. The next round does not wait for the time that the settings assume.
 */
static void a_member_that_never_applies_delays_the_second_round_by_the_time_of_half(void **state) {
    (void)state;
    begin_first_round();
    play_round();
    scene.adopting = 1 << SLOW;
    int beats = beats_to_next_round();
    assert_in_range(beats, 1, CLOSE_BEATS + SOON);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_that_sends_nothing_is_dropped_after_twice_the_time_of_half),
        cmocka_unit_test(an_owner_without_results_is_replaced_after_twice_the_time_of_half),
        cmocka_unit_test(an_owner_that_reports_nothing_is_replaced_at_its_second_close),
        cmocka_unit_test(an_owner_that_holds_its_results_is_replaced_after_twice_the_time_of_half),
        cmocka_unit_test(an_owner_that_was_replaced_does_not_lengthen_the_next_exchange),
        cmocka_unit_test(an_owner_is_compared_with_the_others_of_its_round),
        cmocka_unit_test(two_of_five_cannot_close_the_first_exchange_early),
        cmocka_unit_test(an_exchange_that_takes_longer_than_any_round_is_given_more_time),
        cmocka_unit_test(training_closes_by_the_members_that_have_declared),
        cmocka_unit_test(a_member_that_never_applies_delays_the_second_round_by_the_time_of_half),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_free();
    return failed;
}
