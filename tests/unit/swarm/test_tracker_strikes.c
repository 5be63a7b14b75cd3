/* test_tracker_strikes: the tracker's machine by hand: members that miss what they could have done
 * lose their seats for some rounds, and get them back. */
#include "tests/unit/swarm/tracker_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What `skep status` shows: the first round with a seat (0: the next one), and the reason. */
static void assert_shown_as_suspended(uint32_t until_round) {
    struct tracker_view view;
    tracker_read_view(scene.tracker, &view);
    assert_int_equal(view.member_count, MEMBERS);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        const struct tracker_view_member *member = &view.members[m];
        bool is_suspended = m == SLOW && until_round > 0;
        assert_int_equal(member->suspended_until, is_suspended ? until_round : 0);
        assert_int_equal(member->suspended_for,
                         is_suspended ? SUSPENSION_RESULTS : SUSPENSION_NONE);
    }
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
        assert_shown_as_suspended(i < 7 ? last + 9 : 0);
        assert_int_equal(scene.suspension.kind, ENTRY_SUSPEND);
        assert_int_equal(scene.suspension.suspension.id.bytes[0], SLOW + 1);
        assert_int_equal(scene.suspension.suspension.reason, SUSPENSION_RESULTS);
        assert_int_equal(scene.suspension.suspension.until_round, last + 9);
    }
    assert_int_equal(play_judged_round(), MEMBERS);
    assert_int_equal(play_slices_with(SLOW, false), 0); /* no owner waits at first */
}

/* One owner of five that rejects the contributions of a member may lie; three do not. Most of the
 * owners that reject them decide about the reason. */
static void a_member_whose_contributions_most_owners_reject_is_suspended(void **state) {
    (void)state;
    static const struct {
        uint32_t rejecting, repeating; /* numbers of owners */
        enum suspension_reason reason;
    } CASES[] = {{1, 1, SUSPENSION_NONE},
                 {3, 0, SUSPENSION_INVALID},
                 {3, 1, SUSPENSION_INVALID},
                 {3, 2, SUSPENSION_REPETITION},
                 {3, 3, SUSPENSION_REPETITION}};
    for (size_t c = 0; c < ARRAY_COUNT(CASES); c++) {
        scene_begin(0, MEMBERS);
        play_evenly();
        for (int i = 0; i < 4; i++) {
            play_judged_round();
        }
        for (uint32_t m = 0; m < CASES[c].rejecting; m++) {
            play.rejecting[m] = 1 << SLOW;
            play.repeating[m] = m + CASES[c].repeating >= CASES[c].rejecting ? 1 << SLOW : 0;
        }
        assert_int_equal(play_judged_round(), MEMBERS);
        assert_int_equal(play_judged_round(), MEMBERS);
        assert_int_equal(play_judged_round(),
                         CASES[c].reason == SUSPENSION_NONE ? MEMBERS : MEMBERS - 1);
        assert_int_equal(scene.suspension.suspension.reason, CASES[c].reason);
    }
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

/* An owner that has a contribution and does not add it, or that rejects most of them, gains
 * nothing: its slices get another owner, and it is suspended like one without results. */
static void an_owner_that_leaves_contributions_out_is_replaced_and_suspended(void **state) {
    (void)state;
    for (int is_rejecting = 0; is_rejecting < 2; is_rejecting++) {
        uint32_t rounds = 0;
        scene_begin(0, MEMBERS - 1);
        play_evenly();
        for (int i = 0; i < 4; i++) {
            play_judged_round();
        }
        play.left_out[SLOW] = is_rejecting ? 0 : 1 << 1;
        play.rejecting[SLOW] = is_rejecting ? 7 : 0;
        while (scene.suspension.kind != ENTRY_SUSPEND && rounds < 4) {
            (void)play_judged_round();
            assert_int_equal(scene.head.kind, ENTRY_COMMIT);
            for (uint32_t s = 0; s < SLICES; s++) {
                assert_int_equal(scene.head.slices[s].contributors & 2, 2);
            }
            rounds++;
        }
        assert_in_range(rounds, 2, 3);
        assert_int_equal(scene.suspension.suspension.reason, SUSPENSION_RESULTS);
        assert_int_equal(scene.suspension.suspension.id.bytes[0], SLOW + 1);
    }
}

/* In `rounds` (bit set) the last member declares `norm`, or the root of an earlier round. Returns
 * the number of rounds before it is suspended; 0: it is not. */
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

/* After a restart of the tracker, which knows no roots of the commits before, and after a rollback.
 */
static void a_repetition_is_known_from_the_norms_in_the_ledger(void **state) {
    (void)state;
    static const double NORMS[MEMBERS] = {7, 7.25, 7.5, 7.75, 8};
    scene_begin(0, MEMBERS - 1);
    play_evenly();
    play_judged_round();
    static struct entry entry;
    entry = scene.head;
    assert_int_equal(entry.kind, ENTRY_COMMIT);
    entry.members[0].norm = NORMS[SLOW];
    for (int i = 0; i < 3; i++) {
        entry.kind = i < 2 ? ENTRY_COMMIT : ENTRY_ROLLBACK;
        entry.hash.bytes[1] = (uint8_t)(i + 1);
        tracker_replay_entry(scene.tracker, &entry);
        memcpy(play.norms, NORMS, sizeof play.norms);
        play.norms[SLOW] += i == 1 ? 0.125 : 0;
        play.root_byte = (uint8_t)(20 + i);
        assert_int_equal(play_judged_round(), MEMBERS);
        assert_int_equal(scene.head.members[SLOW].weight > 0, i > 0);
        assert_true(scene.head.members[0].weight > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_that_fails_twice_is_suspended_and_named),
        cmocka_unit_test(a_member_whose_contributions_most_owners_reject_is_suspended),
        cmocka_unit_test(a_member_that_fails_once_in_four_rounds_is_not_suspended),
        cmocka_unit_test(an_owner_that_leaves_contributions_out_is_replaced_and_suspended),
        cmocka_unit_test(two_of_three_rounds_without_weight_suspend_and_name_the_reason),
        cmocka_unit_test(a_suspension_is_known_from_the_ledger),
        cmocka_unit_test(a_repetition_is_known_from_the_norms_in_the_ledger),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_free();
    return failed;
}
