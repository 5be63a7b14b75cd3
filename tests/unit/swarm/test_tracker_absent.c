/* test_tracker_absent: the tracker's machine by hand: links that are cut, members who die, come
 * again, or never come by the state. */
#include "tests/unit/swarm/tracker_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One of the two says it. Neither waits for the other, and from the next round on neither owns what
 * the other would be left out of. */
static void a_pair_that_is_cut_waits_for_nobody(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    scene_open_and_declare();
    scene.unreachable[3] = 1 << 1;
    scene_report(3, scene.head.round);
    assert_int_equal(scene.table_version, 2);
    for (int s = 0; s < SLICES; s++) {
        uint32_t owner = scene.table[s].owner;
        uint64_t cut = owner == 1 ? 1 << 3 : owner == 3 ? 1 << 1 : 0;
        assert_int_equal(scene.table[s].epoch, 0);
        assert_int_equal(scene.table[s].expected_seats, SEATS_ALL & ~cut);
    }
    scene_end_round();
    scene_open_and_declare();
    for (int s = 0; s < SLICES; s++) {
        assert_true(scene.table[s].owner != 1 && scene.table[s].owner != 3);
        assert_int_equal(scene.table[s].expected_seats, SEATS_ALL);
    }
}

static void who_reaches_nobody_owns_nothing(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    scene_open_and_declare();
    scene.unreachable[2] = SEATS_ALL & ~(1 << 2);
    scene_report(2, scene.head.round);
    for (int s = 0; s < SLICES; s++) {
        assert_int_not_equal(scene.table[s].owner, 2);
        assert_int_equal(scene.table[s].expected_seats, SEATS_ALL & ~(1 << 2));
    }
    uint32_t version = scene.table_version;
    scene_beat(scene.head.round, 0);
    assert_int_equal(scene.table_version, version);
}

/* Everybody has everybody's part, and nobody a sum; one holds those of the first who dies. Of those
 * of the second it is not known. */
static void each_death_is_asked_about(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    scene_open_and_declare();
    uint32_t round = scene.head.round;
    for (int s = 0; s < SLICES; s++) {
        scene.reports[scene.table[s].owner][s].received_seats = SEATS_ALL;
    }
    scene_beat(round, 0);
    scene_close(0);
    uint32_t first = scene.poll;
    assert_true(first > 0);
    for (int s = 0; s < SLICES; s++) {
        scene.reports[1][s].has_result = scene.table[s].owner == 0;
    }
    scene_beat(round, 1);
    scene_close(2);
    assert_int_equal(scene.poll, first + 1);
    assert_int_equal(scene.table_version, 1);
    scene_beat(round, 1 | 1 << 2);
    assert_int_equal(scene.table_version, 2);
    for (int s = 0; s < SLICES; s++) {
        assert_int_not_equal(scene.table[s].owner, 2);
        assert_true(scene.table[s].owner != 0 || scene.table[s].epoch == 0);
    }
}

/* That nobody reaches it was said of the start before. */
static void who_starts_anew_is_reached(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    scene_open_and_declare();
    for (uint32_t m = 0; m < 4; m++) {
        scene.unreachable[m] = 1 << 4;
    }
    scene_end_round();
    scene_start_anew(4);
    scene_open_and_declare();
    for (int s = 0; s < SLICES; s++) {
        assert_int_equal(scene.plans_first[s].expected_seats, SEATS_ALL);
    }
}

/* Heartbeats until the next round opens. */
static int beats_to_next(void) {
    scene_end_round();
    int count = 0;
    for (uint32_t round = scene.head.round; scene.head.round == round && count < 1000; count++) {
        scene_beat(0, 0);
    }
    return count;
}

/* Those who stay are fewer than half, and no round is ever opened below a quorum here. */
static void who_was_let_go_is_not_waited_for(void **state) {
    (void)state;
    enum { LEAVERS = 7 };
    scene_begin(0, MEMBERS - 3);
    while (scene.head.kind != ENTRY_OPEN) {
        scene_beat(0, 0);
    }
    scene_end_round();
    scene_open_and_declare();
    scene_end_round();
    for (uint32_t m = 0; m < 3; m++) {
        scene_say(m, (struct message){.kind = MESSAGE_LEAVE});
        scene_close(m);
    }
    assert_int_equal(scene.goodbyes, LEAVERS);
    for (int i = 0; i < 5 && scene.head.kind != ENTRY_OPEN; i++) {
        scene_beat(0, LEAVERS);
    }
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    assert_int_equal(scene.head.seat_count, MEMBERS - 3);
}

/* Three of five that start anew are none of the round's seats any more. */
static void a_round_that_cannot_have_a_quorum_ends(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    scene_open_and_declare();
    scene_start_anew(0);
    scene_start_anew(1);
    scene_beat(scene.head.round, 0);
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    scene_start_anew(2);
    assert_int_equal(scene.head.kind, ENTRY_ABORT);
}

/* A heartbeat of the first member, which has another state on its disk and stands on none. */
static void beat_of_an_older_one(const struct hash *older) {
    scene.now_ms += 100;
    scene_say(0, (struct message){.kind = MESSAGE_REPORT,
                                  .number = ++scene.number,
                                  .hash = *older,
                                  .report.parts = REPORT_ALL,
                                  .report.rows = scene.reports[0],
                                  .links = {0, scene.awaited_ms[0]}});
    scene_take(&(struct event){.kind = EVENT_TICK});
}

/* All have gone, with the newest state; who comes back first has an older one. */
static void the_newest_state_is_waited_for_by_who_is_there_only(void **state) {
    (void)state;
    const struct hash older = {{2}};
    scene_begin(0, MEMBERS);
    static struct entry genesis = {.kind = ENTRY_GENESIS};
    static struct entry commit = {.kind = ENTRY_COMMIT};
    genesis.root = older;
    commit.root = scene.record.commit.root;
    tracker_replay_entry(scene.tracker, &genesis);
    tracker_replay_entry(scene.tracker, &commit);
    scene_open_and_declare();
    scene_end_round();
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene_close(m);
    }
    for (int i = 0; i < 2 * ROLLBACK_MS / 100; i++) {
        scene_beat(0, SEATS_ALL);
    }
    scene_say(0, (struct message){.kind = MESSAGE_HELLO, .number = 99, .root = older});
    for (int i = 0; i < ROLLBACK_MS / 100 - 1; i++) {
        beat_of_an_older_one(&older);
        assert_int_equal(scene.head.kind, ENTRY_ABORT);
    }
    for (int i = 0; i < 3; i++) {
        beat_of_an_older_one(&older);
    }
    assert_int_equal(scene.head.kind, ENTRY_ROLLBACK);
    assert_int_equal(scene.head.root.bytes[0], 2);
}

/* Two rounds go on without it, then it is waited for: as long as four exchanges may take, or until
 * it is there. */
static void who_never_comes_by_the_state_is_waited_for_once(void **state) {
    (void)state;
    enum { SOON = 5, HELD = 4 * 5000 / 100 };
    scene_begin(0, MEMBERS - 1);
    while (scene.head.kind != ENTRY_OPEN) {
        scene_beat(0, 0);
    }
    assert_true(beats_to_next() < SOON);
    assert_int_equal(scene.head.seat_count, MEMBERS);
    scene.adopting = 1 << 4;
    assert_true(beats_to_next() < SOON);
    assert_true(beats_to_next() < SOON);
    assert_in_range(beats_to_next(), HELD, HELD + HELD * 4 / 100 + SOON); /* 3 % come back */
    assert_true(beats_to_next() < SOON + 20); /* so much of a round of a minute */
    assert_int_equal(scene.head.seat_count, MEMBERS - 1);
    scene.adopting = 0;
    assert_true(beats_to_next() < SOON);
    assert_int_equal(scene.head.seat_count, MEMBERS);
}

/* Neither a broken channel nor a new start makes that longer than 3 % of all time. */
static void who_comes_and_goes_is_waited_for_no_longer(void **state) {
    (void)state;
    enum { SOON = 5, HELD = 4 * 5000 / 100 };
    scene_begin(0, MEMBERS - 1);
    while (scene.head.kind != ENTRY_OPEN) {
        scene_beat(0, 0);
    }
    scene.adopting = 1 << 4;
    int held = 0;
    int64_t begin_ms = scene.now_ms;
    for (int i = 0; i < 12; i++) {
        scene_end_round();
        uint32_t round = scene.head.round;
        for (int k = 0; k < HELD / 3 && scene.head.round == round; k++) {
            scene_beat(0, 0);
            held++;
        }
        scene_close(4);
        for (int k = 0; k < SOON && scene.head.round == round; k++) {
            scene_beat(0, 1 << 4);
        }
        assert_int_not_equal(scene.head.round, round);
        if (i % 3 == 2) {
            scene_start_anew(4);
        }
    }
    int64_t share = (scene.now_ms - begin_ms) * 3 / 100 / 100;
    assert_in_range(held, HELD, HELD + share + 12 * SOON);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_that_is_cut_waits_for_nobody),
        cmocka_unit_test(who_reaches_nobody_owns_nothing),
        cmocka_unit_test(each_death_is_asked_about),
        cmocka_unit_test(who_starts_anew_is_reached),
        cmocka_unit_test(who_was_let_go_is_not_waited_for),
        cmocka_unit_test(a_round_that_cannot_have_a_quorum_ends),
        cmocka_unit_test(the_newest_state_is_waited_for_by_who_is_there_only),
        cmocka_unit_test(who_never_comes_by_the_state_is_waited_for_once),
        cmocka_unit_test(who_comes_and_goes_is_waited_for_no_longer),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_free();
    return failed;
}
