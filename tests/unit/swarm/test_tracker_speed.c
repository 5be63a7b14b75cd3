/* test_tracker_speed: the tracker's machine by hand: members that are slow, or say that they or
 * others are. No other member waits longer for it. */
#include "tests/unit/swarm/tracker_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void deadlines_follow_what_is_observed_and_not_what_is_claimed(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    play.train_beats[0] = TRAIN_BEATS + 3;   /* one is slower */
    for (uint32_t m = 0; m < MEMBERS; m++) { /* what they say of themselves is a day, or nothing */
        scene.measured[m] = m % 2 == 0
                                ? (struct timing_measured){86400000, 86400000, 60, UINT32_MAX - 1}
                                : (struct timing_measured){0, 0, 60, 1};
    }
    for (int i = 0; i < 3; i++) {
        play_round();
    }
    play_train();
    const struct swarm_timing *timing = tracker_timing(scene.tracker);
    enum { SLACK = 100 + 2 * 60 };
    assert_int_equal(tracker_usual_times(scene.tracker)->train_ms, TRAIN_BEATS * 100);
    assert_int_equal(timing->train_ms, 2 * TRAIN_BEATS * 100 + SLACK);
    assert_int_equal(scene.head.train_ms, timing->train_ms);
    assert_int_equal(timing->contribution_ms, 2 * AWAITED_MS + SLACK);
    assert_int_equal(timing->heartbeat_ms, 100);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_in_range(play_owned(m), SLICES / MEMBERS, SLICES / MEMBERS + 1);
    }
}

/* Two of five say that they waited for an hour for everybody, and say no word until the end of
 * training. */
static void two_of_five_cannot_make_a_deadline_long(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    for (int i = 0; i < 4; i++) {
        play_round();
    }
    play_train();
    const struct swarm_timing before = *tracker_timing(scene.tracker);
    play_exchange();
    for (int i = 0; i < 20; i++) {
        play.train_beats[0] = 10 * TRAIN_BEATS;
        play.train_beats[1] = 10 * TRAIN_BEATS;
        play.awaited_ms[0] = 3600000;
        play.awaited_ms[1] = 3600000;
        play_round();
        const struct swarm_timing *after = tracker_timing(scene.tracker);
        assert_true(after->train_ms <= before.train_ms);
        assert_true(after->contribution_ms <= before.contribution_ms);
        assert_true(after->exchange_ms <= 2 * before.exchange_ms);
        assert_true(after->round_ms <= 2 * before.round_ms);
    }
}

/* It trains five times as long for a sample. After it was seen once, it is given a fifth, in whole
 * steps, and no other member waits for it: not in training, and not in the exchange. */
static void a_slow_trainer_is_given_what_it_can_train(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    play.train_beats[SLOW] = 5 * TRAIN_BEATS;
    play_round();
    play_round();
    for (int i = 0; i < 5; i++) {
        int64_t before_ms = scene.now_ms;
        play_round();
        assert_int_equal(play.samples[0], TRAINED_SAMPLES);
        assert_int_equal(play.samples[SLOW], 1);
        assert_true(scene.now_ms - before_ms <= 100 * (TRAIN_BEATS + 6));
        assert_int_equal(scene.head.members[SLOW].samples, 1);
        assert_int_equal(play_owned(SLOW), 0);
        assert_int_equal(play_slices_with(SLOW, false), 0);
        assert_int_equal(play_slices_with(SLOW, true), SLICES);
    }
    play.train_beats[SLOW] = TRAIN_BEATS;
    for (int i = 0; i < 5; i++) {
        play_round();
    }
    assert_int_equal(play_slices_with(SLOW, false), SLICES);
}

/* Its single step takes longer than the others train, and less than their deadline: the table does
 * not wait for it. */
static void a_step_that_is_longer_than_the_training_of_others_is_not_awaited(void **state) {
    (void)state;
    enum { STEP_BEATS = TRAIN_BEATS + 3 };
    scene_begin(0, MEMBERS);
    play_evenly();
    play.train_beats[SLOW] = STEP_BEATS * TRAINED_SAMPLES;
    play_round();
    for (int i = 0; i < 5; i++) {
        play_train();
        assert_int_equal(play.samples[SLOW], 1);
        assert_true(scene.head.train_ms > 100 * STEP_BEATS);
        assert_in_range(play.trained_beats, TRAIN_BEATS, TRAIN_BEATS + 1);
        play_exchange();
        assert_int_equal(scene.head.kind, ENTRY_COMMIT);
        assert_int_equal(scene.head.members[SLOW].samples, 0);
    }
}

/* Two owners are late once, and one of them in each later round. It owns nothing from the third of
 * these rounds on. After eight rounds its next time decides, then after twice as many each time. */
static void an_owner_that_is_late_in_most_rounds_owns_nothing_for_some(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    play_round();
    for (int i = 0; i < 62; i++) {
        bool is_first = i == 0;
        play.result_beats[SLOW] = 10;
        play.result_beats[0] = is_first ? 10 : 0;
        play_round();
        assert_true(play_owned(0) > 0);
        assert_int_equal(play_owned(SLOW) > 0, i < 2 || i == 10 || i == 27 || i == 60);
    }
}

/* It fails in every fourth round in which it owns slices: too seldom for a suspension. From the
 * second failure on it owns nothing for eight rounds, then for twice as many each time. */
static void an_owner_that_fails_now_and_then_owns_nothing_for_some_rounds(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    uint32_t owned = 0, failures = 0, rounds_without = 0;
    for (int i = 0; i < 50; i++) {
        play.silent_owners = owned % 4 == 3 ? 1 << SLOW : 0;
        play_round();
        if (play_owned(SLOW) == 0) {
            rounds_without++;
            continue;
        }
        const uint32_t term = failures < 2 ? 0 : 8U << (failures - 2);
        assert_true(rounds_without >= (owned % 4 == 0 ? term : 0));
        assert_true(rounds_without <= (owned % 4 == 0 ? term + 1 : 0));
        failures += play.silent_owners != 0;
        owned++;
        rounds_without = 0;
    }
    assert_in_range(failures, 3, 4);
}

/* A round in which the slow member's connection closes at the first table. The others have their
 * results at this heartbeat of the exchange. */
static void play_loss(uint32_t result_beats) {
    play_train();
    play.gone = 1 << SLOW;
    scene_close(SLOW);
    for (uint32_t m = 0; m < SLOW; m++) {
        play.result_beats[m] = result_beats;
    }
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    memset(play.result_beats, 0, sizeof play.result_beats);
    play.gone = 0;
}

/* It is lost in every other round: at first without a delay of the others, then with one. */
static void a_member_whose_losses_cost_no_time_keeps_its_slices(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    for (int i = 0; i < 4; i++) {
        play_round();
    }
    for (int i = 0; i < 8; i++) {
        play_loss(0);
        play_round();
        assert_true(play_owned(SLOW) > 0);
        assert_int_equal(play_slices_with(SLOW, false), SLICES);
    }
    play_loss(10);
    play_round();
    assert_true(play_owned(SLOW) > 0);
    play_loss(10);
    play_round();
    assert_int_equal(play_owned(SLOW), 0);
    assert_int_equal(play_slices_with(SLOW, false), 0);
}

/* A contributor delays all owners but itself, and then disconnects. */
static void a_late_contributor_makes_no_owner_slow(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    for (int i = 0; i < 12; i++) {
        for (uint32_t m = 0; m < SLOW; m++) {
            play.result_beats[m] = i < 4 ? 10 : 0;
        }
        play_round();
        for (uint32_t m = 0; m < MEMBERS; m++) {
            assert_true(play_owned(m) > 0);
        }
    }
}

static void a_slow_uplink_is_asked_for_what_it_can_send(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    play.awaited_ms[SLOW] = 5 * AWAITED_MS;
    for (int i = 0; i < 3; i++) {
        play_round();
        assert_int_equal(play_slices_with(SLOW, true), 0);
    }
    uint64_t seen = 0;
    for (int i = 0; i < 6; i++) {
        play_round();
        assert_int_equal(play_owned(SLOW), 0);
        assert_int_equal(play_slices_with(SLOW, false), 0);
        assert_in_range(play_slices_with(SLOW, true), 1, SLICES / 2);
        for (uint32_t s = 0; s < SLICES; s++) {
            seen |= (scene.plans_first[s].optional_seats >> SLOW & 1) << s;
        }
        assert_int_equal(play_slices_with(0, false), SLICES);
    }
    assert_true(__builtin_popcountll(seen) > 1); /* its slices take turns */
    play.awaited_ms[SLOW] = AWAITED_MS;
    for (int i = 0; i < 8; i++) {
        play_round();
    }
    assert_int_equal(play_slices_with(SLOW, false), SLICES); /* it is waited for again */
    assert_true(play_owned(SLOW) > 0);
}

/* It withholds all. When owners wait for it again, it misses its second round. */
static void a_member_that_sends_nothing_is_dropped_from_all_slices_at_the_close(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    for (int i = 0; i < 4; i++) {
        play_round();
    }
    play.withholding = 1 << SLOW;
    int close = (int)(tracker_timing(scene.tracker)->exchange_ms / 100);
    int usual = 0;
    int waits = 0;
    for (int i = 0; i < 40; i++) {
        play_judged_round();
        int beats = play.exchange_beats;
        for (uint32_t s = 0; s < SLICES; s++) {
            uint64_t others = scene.head.slices[s].contributors & ~(UINT64_C(1) << SLOW);
            assert_int_equal(others, SEATS_ALL & ~(1 << SLOW));
        }
        assert_true(beats <= 2 * close + 6);
        waits += beats > close / 2;
        usual += beats <= 3;
    }
    assert_in_range(waits, 2, 4); /* at first, and when owners wait for it again */
    assert_int_equal(usual, 40 - waits);
    /* A slow uplink looks the same, so this member is not suspended. */
    assert_int_equal(scene.suspension.suspension.reason, SUSPENSION_NONE);
}

/* It says that it received all and has no result; its report changes all the time. */
static void an_owner_without_results_is_replaced_at_the_close(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    for (int i = 0; i < 4; i++) {
        play_round();
    }
    play_train();
    play.silent_owners = 1 << SLOW;
    assert_true(play_owned(SLOW) > 0);
    int close = (int)(tracker_timing(scene.tracker)->exchange_ms / 100);
    for (int i = 0; i < close - 2; i++) {
        play_exchange_beat();
        assert_int_equal(scene.table_version, 1);
        scene.reports[SLOW][0].received_seats ^= 1;
        scene_report(SLOW, scene.head.round);
    }
    for (int i = 0; i < 3; i++) {
        play_exchange_beat();
    }
    assert_int_equal(scene.table_version, 2);
    for (uint32_t s = 0; s < SLICES; s++) {
        assert_int_not_equal(scene.table[s].owner, SLOW);
        assert_int_equal(scene.table[s].epoch, scene.plans_first[s].owner == SLOW);
    }
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* Of five members, two withhold their contributions and then a third one. The owners do without the
 * first two at the close; the third one cannot be dropped, so that the round waits for it. */
static void closes_drop_at_most_half_of_the_contributors_of_a_slice(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    for (int i = 0; i < 4; i++) {
        play_round();
    }
    play_train();
    int close = (int)(tracker_timing(scene.tracker)->contribution_ms / 100);
    play.withholding = 1 << 3 | 1 << SLOW;
    for (int i = 0; i < close + 2; i++) {
        play.silent_owners = SEATS_ALL; /* the others are done with other slices */
        play_exchange_beat();
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        assert_int_equal(scene.table[s].expected_seats | 1U << scene.table[s].owner,
                         7U | 1U << scene.table[s].owner);
    }
    play.withholding |= 1 << 2;
    for (int i = 0; i < 3 * close; i++) {
        play_exchange_beat();
        for (uint32_t s = 0; s < SLICES; s++) {
            const struct slice_plan *plan = &scene.table[s];
            assert_in_range(__builtin_popcountll(plan->expected_seats), 3, MEMBERS);
        }
    }
    play.silent_owners = 0;
    play.withholding = 0;
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* No member has a result: the network is slow, and no owner is to blame. */
static void a_delay_of_most_replaces_nobody_at_first(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    play_train();
    play.silent_owners = SEATS_ALL & ~1;
    int close = (int)(tracker_timing(scene.tracker)->exchange_ms / 100);
    for (int i = 0; i < 2 * close - 2; i++) {
        play_exchange_beat();
        assert_int_equal(scene.table_version, 1);
    }
    play.silent_owners = 0;
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* Others say that they never waited for it. */
static void no_owner_has_more_than_twice_the_fair_share(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    for (uint32_t m = 0; m < SLOW; m++) {
        play.awaited_ms[m] = 100 * AWAITED_MS;
    }
    play.awaited_ms[SLOW] = 400;
    for (int i = 0; i < 8; i++) {
        play_round();
    }
    assert_in_range(play_owned(SLOW), 1, (2 * SLICES + MEMBERS - 1) / MEMBERS);
}

static void check_equal_closes(const struct swarm_timing *before,
                               const struct timing_times *times) {
    assert_memory_equal(tracker_timing(scene.tracker), before, sizeof *before);
    assert_memory_equal(tracker_usual_times(scene.tracker), times, sizeof *times);
}

/* The times differ from those of the settings. */
static void a_restarted_tracker_has_the_same_closes(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    const struct timing_times assumed = *tracker_usual_times(scene.tracker);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene.measured[m].round_trip_ms = 70;
        play.train_beats[m] = TRAIN_BEATS + m;
        play.result_beats[m] = 2 + m;
    }
    for (int i = 0; i < 6; i++) {
        play_round();
    }
    play_train();
    const struct swarm_timing timing = *tracker_timing(scene.tracker);
    const struct timing_times times = *tracker_usual_times(scene.tracker);
    assert_int_not_equal(times.train_ms, assumed.train_ms);
    assert_int_not_equal(times.contribution_ms, assumed.contribution_ms);
    assert_int_not_equal(times.result_ms, assumed.result_ms);
    assert_int_not_equal(times.round_trip_ms, assumed.round_trip_ms);
    for (int i = 0; i < 3; i++) {
        scene_restart();
        check_equal_closes(&timing, &times);
        play_exchange();
        assert_int_equal(scene.head.kind, ENTRY_COMMIT);
        check_equal_closes(&timing, &times);
        play_train();
    }
    play_exchange();
    for (int i = 0; i < 6; i++) {
        play.restart_beat = TRAIN_BEATS / 2; /* the time since then is not that of training */
        play_round();
        check_equal_closes(&timing, &times);
    }
}

/* It withholds its contributions after a restart. That it was fast before is known: it misses a
 * round, like without the restart. */
static void a_restarted_tracker_knows_who_was_fast(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    for (int i = 0; i < 4; i++) {
        play_round();
    }
    scene_restart();
    play.withholding = 1 << SLOW;
    play_round();
    play_train();
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_int_equal(scene.written.members[m].misses & 1U, m == SLOW);
    }
}

/* They are given out again, once. */
static void samples_that_were_not_trained_on_return(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    play_round();
    assert_int_equal(scene.head.cursor.returned_count, 0);
    play.trained_max[2] = 3;
    play_train();
    uint64_t position = scene.head.cursor.position;
    uint64_t begin = scene.head.seats[2].ranges[0].begin;
    play_exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    assert_int_equal(scene.head.members[2].samples, 3);
    assert_int_equal(scene.head.members[2].weight, 3);
    assert_int_equal(scene.head.cursor.position, position);
    assert_int_equal(scene.head.cursor.returned_count, 1);
    assert_int_equal(scene.head.cursor.returned[0].begin, begin + 3);
    assert_int_equal(scene.head.cursor.returned[0].end, begin + TRAINED_SAMPLES);
    play_train();
    assert_int_equal(scene.head.cursor.returned_count, 0);
    assert_int_equal(scene.head.seats[0].ranges[0].begin, begin + 3);
    assert_int_equal(play_samples_of(0), TRAINED_SAMPLES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_follow_what_is_observed_and_not_what_is_claimed),
        cmocka_unit_test(two_of_five_cannot_make_a_deadline_long),
        cmocka_unit_test(a_slow_trainer_is_given_what_it_can_train),
        cmocka_unit_test(a_step_that_is_longer_than_the_training_of_others_is_not_awaited),
        cmocka_unit_test(an_owner_that_is_late_in_most_rounds_owns_nothing_for_some),
        cmocka_unit_test(an_owner_that_fails_now_and_then_owns_nothing_for_some_rounds),
        cmocka_unit_test(a_member_whose_losses_cost_no_time_keeps_its_slices),
        cmocka_unit_test(a_late_contributor_makes_no_owner_slow),
        cmocka_unit_test(a_slow_uplink_is_asked_for_what_it_can_send),
        cmocka_unit_test(a_member_that_sends_nothing_is_dropped_from_all_slices_at_the_close),
        cmocka_unit_test(an_owner_without_results_is_replaced_at_the_close),
        cmocka_unit_test(closes_drop_at_most_half_of_the_contributors_of_a_slice),
        cmocka_unit_test(a_delay_of_most_replaces_nobody_at_first),
        cmocka_unit_test(no_owner_has_more_than_twice_the_fair_share),
        cmocka_unit_test(a_restarted_tracker_has_the_same_closes),
        cmocka_unit_test(a_restarted_tracker_knows_who_was_fast),
        cmocka_unit_test(samples_that_were_not_trained_on_return),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_free();
    return failed;
}
