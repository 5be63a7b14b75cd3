/* test_tracker_speed: the tracker's machine by hand: members that are slow, or say that they or
 * others are. No other member waits longer for it. */
#include "tests/unit/swarm/tracker_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TRAIN_BEATS = 5, AWAITED_MS = 2000, SLOW = 4 };

/* How the members behave in the rounds of a test. */
static struct {
    uint32_t train_beats[MEMBERS]; /* to train on a full share of samples */
    uint64_t trained_max[MEMBERS]; /* samples that they train on at most; 0: any number */
    uint32_t awaited_ms[MEMBERS];  /* that each other one waits for this one's contributions */
    uint32_t withholding;          /* members whose contributions never arrive */
    uint32_t silent_owners;        /* members that never have a result */
    double norms[MEMBERS];         /* that the members declare */
    uint8_t root_byte;             /* of the root that the last member declares */
    uint64_t samples[MEMBERS];     /* given in the last round */
    int exchange_beats;            /* heartbeats of the last exchange */
    uint64_t earlier_proposal;     /* number of the last one before the round */
} play;

static void play_evenly(void) {
    memset(&play, 0, sizeof(play));
    for (uint32_t m = 0; m < MEMBERS; m++) {
        play.train_beats[m] = TRAIN_BEATS;
        play.awaited_ms[m] = AWAITED_MS;
    }
}

static void declare(uint32_t member, uint64_t samples) {
    const struct hash root = {{play.root_byte}};
    scene_declare(member, (struct training_amount){samples, samples, play.norms[member]},
                  member == SLOW ? &root : &SCENE_ZERO_ROOT);
}

static uint64_t samples_of(uint32_t member) {
    uint64_t samples = 0;
    for (uint32_t r = 0; r < scene.head.seats[member].range_count; r++) {
        samples +=
            scene.head.seats[member].ranges[r].end - scene.head.seats[member].ranges[r].begin;
    }
    return samples;
}

/* Opens a round and lets the members declare, each at its own pace; up to the first table. */
static void train(void) {
    uint32_t round = scene.head.round;
    for (int i = 0; i < 400 && (scene.head.kind != ENTRY_OPEN || scene.head.round == round); i++) {
        scene_beat(round, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    assert_int_equal(scene.head.seat_count, MEMBERS);
    scene.table_version = 0;
    play.earlier_proposal = scene.proposal;
    memset(scene.reports, 0, sizeof(scene.reports));
    memset(scene.awaited_ms, 0, sizeof(scene.awaited_ms));
    for (uint32_t m = 0; m < MEMBERS; m++) {
        play.samples[m] = samples_of(m);
    }
    uint32_t declared = 0;
    uint32_t last_beat = scene.head.deadline_ms / 100 - 1;
    for (uint32_t beat = 0; beat < 1000 && scene.table_version == 0; beat++) {
        for (uint32_t m = 0; m < MEMBERS; m++) {
            uint64_t trained = beat * TRAINED_SAMPLES / play.train_beats[m];
            if ((trained >= play.samples[m] || beat == last_beat) && (declared >> m & 1) == 0) {
                trained = trained < play.samples[m] ? trained : play.samples[m];
                declare(m, play.trained_max[m] == 0 ? trained : play.trained_max[m]);
                declared |= 1U << m;
            }
        }
        scene_beat(scene.head.round, 0);
    }
    assert_true(scene.table_version > 0);
}

/* What every member has after a heartbeat of the exchange. */
static void exchange_beat(void) {
    for (uint32_t m = 0; m < MEMBERS; m++) {
        for (uint32_t other = 0; other < MEMBERS; other++) {
            scene.awaited_ms[m][other] = play.awaited_ms[other];
        }
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        const struct slice_plan *plan = &scene.table[s];
        uint64_t received = SEATS_ALL & ~(uint64_t)play.withholding;
        uint64_t wanted = plan->expected_seats & ~(1U << plan->owner);
        bool is_complete = (wanted & ~received) == 0;
        for (uint32_t m = 0; m < MEMBERS; m++) {
            struct slice_report *report = &scene.reports[m][s];
            *report = (struct slice_report){.epoch = plan->epoch};
            report->received_seats =
                m == plan->owner ? (received & plan->expected_seats) | 1U << m : 0;
            report->has_result = is_complete && (play.silent_owners >> plan->owner & 1) == 0;
            report->contributors = plan->expected_seats & (received | 1U << plan->owner);
        }
    }
    scene_beat(scene.head.round, 0);
}

/* Exchanges and votes until the round has ended. Returns how many heartbeats the exchange took. */
static int exchange(void) {
    int beats = 0;
    uint32_t round = scene.head.round;
    for (; beats < 2000 && scene.head.kind == ENTRY_OPEN; beats++) {
        exchange_beat();
        bool is_proposed = scene.proposal != play.earlier_proposal;
        for (uint32_t m = 0; m < MEMBERS && is_proposed && scene.head.kind == ENTRY_OPEN; m++) {
            struct message vote = {.kind = MESSAGE_VOTE, .round = round, .number = scene.proposal};
            vote.root = scene.record.commit.root;
            scene_say(m, vote);
        }
    }
    return beats;
}

static int play_round(void) {
    train();
    int beats = exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    return beats;
}

/* One more round, in which the last member may have no seat. Returns the number of seats. */
static uint32_t play_judged_round(void) {
    uint32_t round = scene.head.round;
    for (int i = 0; i < 400 && (scene.head.kind != ENTRY_OPEN || scene.head.round == round); i++) {
        scene_beat(round, 0);
    }
    uint32_t seats = scene.head.seat_count;
    scene.table_version = 0;
    memset(scene.reports, 0, sizeof(scene.reports));
    play.earlier_proposal = scene.proposal;
    for (uint32_t seat = 0; seat < seats; seat++) {
        assert_int_equal(scene.head.seats[seat].id.bytes[0], seat + 1);
        declare(seat, samples_of(seat));
    }
    scene_beat(scene.head.round, 0);
    play.exchange_beats = exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    return seats;
}

static uint32_t owned(uint32_t member) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < SLICES; s++) {
        count += scene.plans_first[s].owner == member;
    }
    return count;
}

static uint32_t slices_with(uint32_t member, bool is_optional) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < SLICES; s++) {
        uint64_t seats =
            is_optional ? scene.plans_first[s].optional_seats : scene.plans_first[s].expected_seats;
        count += (seats >> member & 1) != 0;
    }
    return count;
}

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
    train();
    const struct swarm_timing *timing = tracker_timing(scene.tracker);
    enum { SLACK = 100 + 2 * 60 };
    assert_int_equal(tracker_usual_times(scene.tracker)->train_ms, TRAIN_BEATS * 100);
    assert_int_equal(timing->train_ms, 2 * TRAIN_BEATS * 100 + SLACK);
    assert_int_equal(scene.head.deadline_ms, timing->train_ms);
    assert_int_equal(timing->contribution_ms, 2 * AWAITED_MS + SLACK);
    assert_int_equal(timing->heartbeat_ms, 100);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_in_range(owned(m), SLICES / MEMBERS, SLICES / MEMBERS + 1);
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
    train();
    const struct swarm_timing before = *tracker_timing(scene.tracker);
    exchange();
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
 * steps, and no other member waits for it. */
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
    }
}

static void a_slow_uplink_is_asked_for_what_it_can_send(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    play.awaited_ms[SLOW] = 5 * AWAITED_MS;
    for (int i = 0; i < 3; i++) {
        play_round();
        assert_int_equal(slices_with(SLOW, true), 0);
    }
    uint64_t seen = 0;
    for (int i = 0; i < 6; i++) {
        play_round();
        assert_int_equal(owned(SLOW), 0);
        assert_int_equal(slices_with(SLOW, false), 0);
        assert_in_range(slices_with(SLOW, true), 1, SLICES / 2);
        for (uint32_t s = 0; s < SLICES; s++) {
            seen |= (scene.plans_first[s].optional_seats >> SLOW & 1) << s;
        }
        assert_int_equal(slices_with(0, false), SLICES);
    }
    assert_true(__builtin_popcountll(seen) > 1); /* its slices take turns */
    play.awaited_ms[SLOW] = AWAITED_MS;
    for (int i = 0; i < 8; i++) {
        play_round();
    }
    assert_int_equal(slices_with(SLOW, false), SLICES); /* it is waited for again */
    assert_true(owned(SLOW) > 0);
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
    train();
    play.silent_owners = 1 << SLOW;
    assert_true(owned(SLOW) > 0);
    int close = (int)(tracker_timing(scene.tracker)->exchange_ms / 100);
    for (int i = 0; i < close - 2; i++) {
        exchange_beat();
        assert_int_equal(scene.table_version, 1);
        scene.reports[SLOW][0].received_seats ^= 1;
        scene_report(SLOW, scene.head.round);
    }
    for (int i = 0; i < 3; i++) {
        exchange_beat();
    }
    assert_int_equal(scene.table_version, 2);
    for (uint32_t s = 0; s < SLICES; s++) {
        assert_int_not_equal(scene.table[s].owner, SLOW);
        assert_int_equal(scene.table[s].epoch, scene.plans_first[s].owner == SLOW);
    }
    exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* No member has a result: the network is slow, and no owner is to blame. */
static void a_delay_of_most_replaces_nobody_at_first(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    train();
    play.silent_owners = SEATS_ALL & ~1;
    int close = (int)(tracker_timing(scene.tracker)->exchange_ms / 100);
    for (int i = 0; i < 2 * close - 2; i++) {
        exchange_beat();
        assert_int_equal(scene.table_version, 1);
    }
    play.silent_owners = 0;
    exchange();
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
    assert_in_range(owned(SLOW), 1, (2 * SLICES + MEMBERS - 1) / MEMBERS);
}

/* The last member owns slices and never has a result. It keeps its connection, and counts for the
 * minimum of members. Its seat comes back; the next suspension is twice as long. */
static void an_owner_that_fails_twice_is_suspended_and_named(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    for (int i = 0; i < 4; i++) {
        play_judged_round();
    }
    play.silent_owners = 1 << SLOW;
    assert_int_equal(play_judged_round(), MEMBERS);
    assert_int_equal(scene.suspension.kind, 0);
    assert_int_equal(play_judged_round(), MEMBERS);
    uint32_t last = scene.head.round;
    play.silent_owners = 0;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(play_judged_round(), MEMBERS - 1);
        assert_int_equal(scene.suspension.kind, ENTRY_SUSPEND);
        assert_int_equal(scene.suspension.suspension.id.bytes[0], SLOW + 1);
        assert_int_equal(scene.suspension.suspension.reason, SUSPENSION_RESULTS);
        assert_int_equal(scene.suspension.suspension.until_round, last + 9);
    }
    assert_int_equal(play_judged_round(), MEMBERS);
    assert_int_equal(slices_with(SLOW, false), 0); /* nobody waits for it at first */
}

static void a_member_that_fails_once_in_four_rounds_is_not_suspended(void **state) {
    (void)state;
    scene_begin(0, MEMBERS - 1);
    play_evenly();
    for (int i = 0; i < 4; i++) {
        play_judged_round();
    }
    for (int i = 0; i < 12; i++) {
        play.silent_owners = i % 4 == 0 ? 1 << SLOW : 0;
        assert_int_equal(play_judged_round(), MEMBERS);
        assert_int_equal(scene.suspension.kind, 0);
    }
}

/* In `rounds` (bit set) the last member declares `norm`, or the root of an earlier round. Returns
 * the number of rounds before it is suspended; 0: nobody is. */
static int play_values(uint32_t rounds, double norm, bool is_repeated) {
    scene_begin(0, MEMBERS - 1);
    play_evenly();
    for (int i = -4; i < 12; i++) {
        bool is_faulty = i >= 0 && (rounds >> i & 1) != 0;
        memcpy(play.norms, (double[]){1, 1.5, 0.5, 1, is_faulty ? norm : 1}, sizeof play.norms);
        play.root_byte = (uint8_t)(is_faulty && is_repeated ? 9 : 10 + i);
        uint32_t seats = play_judged_round();
        if (scene.suspension.kind == ENTRY_SUSPEND && seats < MEMBERS) {
            assert_int_equal(scene.suspension.suspension.id.bytes[0], SLOW + 1);
            return i;
        }
        assert_true(i < 0 || (scene.head.members[SLOW].weight == 0) == is_faulty);
    }
    assert_int_equal(scene.suspension.kind, 0);
    return 0;
}

static void two_of_three_rounds_without_weight_suspend_and_name_the_reason(void **state) {
    (void)state;
    assert_int_equal(play_values(0x3, 1000, false), 2);
    assert_int_equal(scene.suspension.suspension.reason, SUSPENSION_LARGE_NORM);
    assert_int_equal(play_values(0x5, 0, false), 3);
    assert_int_equal(scene.suspension.suspension.reason, SUSPENSION_NO_EFFECT);
    assert_int_equal(play_values(0x3, 1, true), 2);
    assert_int_equal(scene.suspension.suspension.reason, SUSPENSION_REPETITION);
    assert_int_equal(play_values(0, 1, false), 0);
    assert_int_equal(play_values(0x249, 1000, false), 0);
    assert_int_equal(play_values(0x249, 1, true), 0);
}

/* After a restart of the tracker. */
static void a_suspension_is_known_from_the_ledger(void **state) {
    (void)state;
    scene_begin(0, MEMBERS - 1);
    play_evenly();
    play_judged_round();
    static struct entry entry;
    entry = scene.head;
    entry.kind = ENTRY_SUSPEND;
    entry.suspension.id.bytes[0] = SLOW + 1;
    entry.suspension.reason = SUSPENSION_RESULTS;
    entry.suspension.until_round = entry.round + 3;
    tracker_replay_entry(scene.tracker, &entry);
    assert_int_equal(play_judged_round(), MEMBERS - 1);
    assert_int_equal(play_judged_round(), MEMBERS - 1);
    assert_int_equal(play_judged_round(), MEMBERS);
}

/* They are given out again, once. */
static void samples_that_were_not_trained_on_return(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    play_round();
    assert_int_equal(scene.head.cursor.returned_count, 0);
    play.trained_max[2] = 3;
    train();
    uint64_t position = scene.head.cursor.position;
    uint64_t begin = scene.head.seats[2].ranges[0].begin;
    exchange();
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    assert_int_equal(scene.head.members[2].samples, 3);
    assert_int_equal(scene.head.members[2].weight, 3);
    assert_int_equal(scene.head.cursor.position, position);
    assert_int_equal(scene.head.cursor.returned_count, 1);
    assert_int_equal(scene.head.cursor.returned[0].begin, begin + 3);
    assert_int_equal(scene.head.cursor.returned[0].end, begin + TRAINED_SAMPLES);
    train();
    assert_int_equal(scene.head.cursor.returned_count, 0);
    assert_int_equal(scene.head.seats[0].ranges[0].begin, begin + 3);
    assert_int_equal(samples_of(0), TRAINED_SAMPLES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deadlines_follow_what_is_observed_and_not_what_is_claimed),
        cmocka_unit_test(two_of_five_cannot_make_a_deadline_long),
        cmocka_unit_test(a_slow_trainer_is_given_what_it_can_train),
        cmocka_unit_test(a_slow_uplink_is_asked_for_what_it_can_send),
        cmocka_unit_test(a_member_that_sends_nothing_is_dropped_from_all_slices_at_the_close),
        cmocka_unit_test(an_owner_without_results_is_replaced_at_the_close),
        cmocka_unit_test(a_delay_of_most_replaces_nobody_at_first),
        cmocka_unit_test(no_owner_has_more_than_twice_the_fair_share),
        cmocka_unit_test(samples_that_were_not_trained_on_return),
        cmocka_unit_test(an_owner_that_fails_twice_is_suspended_and_named),
        cmocka_unit_test(a_member_that_fails_once_in_four_rounds_is_not_suspended),
        cmocka_unit_test(two_of_three_rounds_without_weight_suspend_and_name_the_reason),
        cmocka_unit_test(a_suspension_is_known_from_the_ledger),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_free();
    return failed;
}
