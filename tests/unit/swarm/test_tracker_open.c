/* test_tracker_open: the tracker's machine by hand: an open swarm, whose guests train and
 * contribute, and can neither decide anything nor keep a round from ending. */
#include "tests/unit/swarm/tracker_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The first members are named by the operator. */
static void begin_open(uint32_t voters, uint32_t members_min) {
    static struct roster_epoch epoch;
    epoch = (struct roster_epoch){.serial = 1, .is_open = 1, .count = voters};
    for (uint32_t m = 0; m < voters; m++) {
        epoch.members[m][0] = (uint8_t)(m + 1);
    }
    scene_begin(0, members_min);
    tracker_restore_roster_epoch(scene.tracker, &epoch);
    play_evenly();
    if (members_min == voters) {
        scene_beat(0, 1); /* the first voter is the last to be ready, so that all have seats */
    }
}

static void vote(uint32_t member) {
    scene_say(member, (struct message){.kind = MESSAGE_VOTE,
                                       .round = scene.head.round,
                                       .number = scene.proposal,
                                       .root = scene.record.commit.root});
}

static void guests_own_nothing_and_do_not_vote(void **state) {
    (void)state;
    begin_open(3, 3);
    play_train();
    assert_int_equal(entry_voting_seats(&scene.head), 7);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_int_equal(play_owned(m) == 0, m >= 3);
    }
    play.beat = 0;
    play_exchange_beat();
    play_exchange_beat();
    assert_true(scene.proposal != play.earlier_proposal);
    vote(3);
    vote(4);
    vote(0);
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    vote(1);
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    assert_int_equal(scene.head.signature_count, 2);
    assert_true(scene.head.members[3].contributed > 0);
    assert_int_equal(scene.head.members[3].owned, 0);
}

/* Two voters have a full share each: three guests have a share of one together. */
static void guests_share_a_bounded_weight(void **state) {
    (void)state;
    begin_open(2, 2);
    play_round();
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_int_equal(scene.head.members[m].weight,
                         m < 2 ? TRAINED_SAMPLES : TRAINED_SAMPLES / 3);
    }
}

static void owners_wait_for_a_guest_that_has_delivered(void **state) {
    (void)state;
    begin_open(3, 3);
    play_round();
    assert_int_equal(play_slices_with(4, true), SLICES);
    assert_int_equal(play_slices_with(4, false), 0);
    play_round();
    assert_int_equal(play_slices_with(4, false), SLICES);
}

/* Three guests of five delivered, and then send nothing more. That costs one close. */
static void a_majority_of_guests_cannot_hold_back_a_round(void **state) {
    (void)state;
    begin_open(2, 2);
    for (int i = 0; i < 4; i++) {
        play_round();
    }
    const int usual = play_round();
    assert_int_equal(play_slices_with(4, false), SLICES);
    play.withholding = 0x1c;
    const int close = (int)tracker_timing(scene.tracker)->contribution_ms / 100;
    assert_in_range(play_round(), usual, usual + 2 * close + 2);
    for (int i = 0; i < 6; i++) {
        assert_in_range(play_round(), usual, usual + 1); /* no owner waits for them any more */
    }
}

/* Neither the speed of guests nor what they say of the others moves a deadline. */
static void deadlines_follow_the_voters(void **state) {
    (void)state;
    begin_open(2, 2);
    for (uint32_t m = 2; m < MEMBERS; m++) {
        play.train_beats[m] = 4 * TRAIN_BEATS;
        scene.measured[m].round_trip_ms = 60000;
    }
    for (int i = 0; i < 5; i++) {
        play_round();
    }
    assert_int_equal(tracker_usual_times(scene.tracker)->train_ms, TRAIN_BEATS * 100);
    assert_int_equal(tracker_timing(scene.tracker)->heartbeat_ms, 100);
}

static void rounds_need_voters(void **state) {
    (void)state;
    begin_open(3, 1);
    for (int i = 0; i < 100; i++) {
        scene_beat(0, 7); /* only the guests are there */
    }
    assert_int_equal(scene.head.kind, ENTRY_GENESIS);
    for (int i = 0; i < 50 && scene.head.kind != ENTRY_OPEN; i++) {
        scene_beat(0, 3);
    }
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    assert_int_equal(entry_voter_count(&scene.head), 1);
}

/* An owner dies. The guests are connected, and never say what they have. */
static void guests_are_not_asked_for_results(void **state) {
    (void)state;
    begin_open(3, 3);
    play_train();
    scene_close(2);
    for (int i = 0; i < 20; i++) {
        scene.now_ms += 100;
        for (uint32_t m = 0; m < MEMBERS; m++) {
            const uint32_t poll = scene.poll;
            scene.poll = m < 3 ? poll : 0;
            if (m != 2) {
                scene_report(m, scene.head.round);
            }
            scene.poll = poll;
        }
        scene_take(&(struct event){.kind = EVENT_TICK});
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        assert_in_range(scene.table[s].owner, 0, 1);
    }
}

/* A voter may leave once another voter has the newest state; a guest's word is not enough. */
static void a_voter_leaves_the_state_to_a_voter(void **state) {
    (void)state;
    begin_open(2, 3);   /* no round opens */
    scene.adopting = 2; /* the other voter fetches it */
    scene_beat(0, 0);
    scene_say(0, (struct message){.kind = MESSAGE_LEAVE});
    assert_int_equal(scene.goodbyes, 0);
    scene.adopting = 0;
    scene_beat(0, 1);
    scene_say(0, (struct message){.kind = MESSAGE_LEAVE});
    assert_int_equal(scene.goodbyes, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guests_own_nothing_and_do_not_vote),
        cmocka_unit_test(guests_share_a_bounded_weight),
        cmocka_unit_test(owners_wait_for_a_guest_that_has_delivered),
        cmocka_unit_test(a_majority_of_guests_cannot_hold_back_a_round),
        cmocka_unit_test(deadlines_follow_the_voters),
        cmocka_unit_test(rounds_need_voters),
        cmocka_unit_test(guests_are_not_asked_for_results),
        cmocka_unit_test(a_voter_leaves_the_state_to_a_voter),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_free();
    return failed;
}
