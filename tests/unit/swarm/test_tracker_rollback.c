/* test_tracker_rollback: the operator's order to roll back, in the tracker's state machine. */
#include "tracker_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct hash OLDER = {{2}}, OLDER_ENTRY = {{12}}, NEWEST_ENTRY = {{13}};
static const struct rollback_order ORDER = {{{13}}, {{14}}};

/* A swarm whose ledger has two states: an older one and the current one. */
static void begin(void) {
    static struct entry older = {.kind = ENTRY_GENESIS};
    static struct entry newest = {.kind = ENTRY_COMMIT};
    scene_begin(0, MEMBERS);
    older.root = OLDER;
    older.hash = OLDER_ENTRY;
    older.cursor.position = 5;
    newest.root = scene.record.commit.root;
    newest.hash = NEWEST_ENTRY;
    newest.cursor.position = 50;
    tracker_replay_entry(scene.tracker, &older);
    tracker_replay_entry(scene.tracker, &newest);
}

static void assert_rolled_back(void) {
    assert_int_equal(scene.head.kind, ENTRY_ROLLBACK);
    assert_true(hash_equal(&scene.head.root, &OLDER));
    assert_int_equal(scene.head.cursor.position, 5);
    assert_int_equal(scene.head.cursor.returned_count, 0);
    assert_memory_equal(&scene.head.order, &ORDER, sizeof ORDER);
}

static void an_order_aborts_the_round_and_returns_its_samples(void **state) {
    (void)state;
    begin();
    scene.stored[3][1] = OLDER;
    scene_open_and_declare();
    const uint8_t entries = scene.entries;
    const uint32_t round = scene.head.round;
    assert_true(tracker_order_rollback(scene.tracker, &OLDER, &ORDER));
    scene_beat(round, 0);
    assert_rolled_back();
    assert_int_equal(scene.entries, entries + 2); /* ABORT, ROLLBACK */
    assert_int_equal(scene.head.round, round);
}

static void an_order_between_rounds_is_followed_at_once(void **state) {
    (void)state;
    begin();
    scene.stored[0][0] = OLDER;
    scene_open_and_declare();
    scene_end_round();
    const uint8_t entries = scene.entries;
    assert_true(tracker_order_rollback(scene.tracker, &OLDER, &ORDER));
    scene_beat(scene.head.round, 0);
    assert_rolled_back();
    assert_int_equal(scene.entries, entries + 1);
}

/* Rounds continue until a member with the state connects. */
static void an_order_waits_for_a_member_that_has_the_state(void **state) {
    (void)state;
    begin();
    scene_open_and_declare();
    scene_end_round();
    assert_true(tracker_order_rollback(scene.tracker, &OLDER, &ORDER));
    scene_open_and_declare();
    scene_beat(scene.head.round, 0);
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    scene.stored[4][STORED_STATES_MAX - 1] = OLDER;
    scene_beat(scene.head.round, 0);
    assert_rolled_back();
}

static void an_order_is_followed_once(void **state) {
    (void)state;
    begin();
    scene.stored[0][0] = OLDER;
    scene_open_and_declare();
    assert_true(tracker_order_rollback(scene.tracker, &OLDER, &ORDER));
    scene_beat(scene.head.round, 0);
    assert_rolled_back();
    const uint8_t entries = scene.entries;
    assert_false(tracker_order_rollback(scene.tracker, &OLDER, &ORDER));
    for (int i = 0; i < 20; i++) {
        scene_beat(scene.head.round, 0);
    }
    assert_int_equal(scene.entries, entries);
}

static void an_order_for_states_that_the_ledger_lacks_is_refused(void **state) {
    (void)state;
    const struct hash unknown = {{99}};
    struct rollback_order order = ORDER;
    begin();
    assert_false(tracker_order_rollback(scene.tracker, &unknown, &ORDER));
    order.newest = unknown;
    assert_false(tracker_order_rollback(scene.tracker, &OLDER, &order));
    order.newest = OLDER_ENTRY; /* an order to return to the newest state that it knew */
    assert_false(tracker_order_rollback(scene.tracker, &OLDER, &order));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_aborts_the_round_and_returns_its_samples),
        cmocka_unit_test(an_order_between_rounds_is_followed_at_once),
        cmocka_unit_test(an_order_waits_for_a_member_that_has_the_state),
        cmocka_unit_test(an_order_is_followed_once),
        cmocka_unit_test(an_order_for_states_that_the_ledger_lacks_is_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_free();
    return failed;
}
