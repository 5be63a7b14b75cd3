/* test_tracker_leases: the tracker's machine by hand in a swarm that refuses forks: electors that
 * resign, that are missing, and the operator's order. */
#include "tests/unit/swarm/tracker_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { START = 77, ROUND = 3 };

static const struct hash STATE = {{9, 9}}, OTHER_STATE = {{9, 8}};

/* A swarm whose newest state entry has all members as electors. */
static void begin(uint32_t members_min) {
    static struct ledger_chain chain;
    scene_begin(0, members_min);
    memset(&chain, 0, sizeof chain);
    chain.needs_leases = 1;
    chain.electors = (struct electors){.count = MEMBERS, .state = STATE, .round = ROUND};
    for (uint32_t m = 0; m < MEMBERS; m++) {
        chain.electors.ids[m].bytes[0] = (uint8_t)(m + 1);
    }
    tracker_use_leases(scene.tracker, START, &chain);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene_report(m, 0); /* between rounds */
    }
}

static void resign(uint32_t member, const struct hash *state) {
    scene_say(member, (struct message){.kind = MESSAGE_RESIGN,
                                       .hash = *state,
                                       .signature = {{(uint8_t)(50 + member)}}});
}

/* The answer of the tracker to a LEAVE; of kind MESSAGE_KINDS if there is none. */
static struct message leave(uint32_t member) {
    struct message answer = {.kind = MESSAGE_KINDS};
    scene_say(member, (struct message){.kind = MESSAGE_LEAVE});
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct action *action = &scene.rows[i];
        if (action->kind == ACTION_SEND && action->message.kind == MESSAGE_GOODBYE) {
            answer = action->message;
        }
    }
    return answer;
}

/* Whether the tracker asks the member to resign before it leaves. */
static bool is_asked(uint32_t member) {
    const struct message answer = leave(member);
    return answer.kind == MESSAGE_GOODBYE && answer.round == ROUND &&
           hash_equal(&answer.hash, &STATE);
}

/* Whether the tracker lets the member leave. */
static bool is_released(uint32_t member) {
    const struct message answer = leave(member);
    return answer.kind == MESSAGE_GOODBYE && hash_is_zero(&answer.hash);
}

static void leave_and_resign(uint32_t member) {
    assert_true(is_asked(member));
    resign(member, &STATE);
    assert_true(is_released(member));
    scene_close(member);
}

static bool opens(uint32_t silent) {
    for (int i = 0; i < 20 && scene.head.kind != ENTRY_OPEN; i++) {
        scene_beat(0, silent);
    }
    return scene.head.kind == ENTRY_OPEN;
}

static void round_without_half_of_the_electors_does_not_open(void **state) {
    (void)state;
    uint32_t all = 0, here = 0;
    begin(1);
    for (uint32_t m = 0; m < 3; m++) {
        scene_close(m);
    }
    assert_false(opens(7));
    for (int i = 0; i < 60; i++) {
        scene_beat(0, 7);
    }
    assert_true(tracker_is_fork_possible(scene.tracker, &all, &here));
    assert_int_equal(all, MEMBERS);
    assert_int_equal(here, 2);
    assert_true(opens(3)); /* one of them is back */
    assert_false(tracker_is_fork_possible(scene.tracker, &all, &here));
    assert_int_equal(scene.head.leases.resigned, 0);
}

static void members_that_resigned_are_not_waited_for(void **state) {
    (void)state;
    begin(1);
    for (uint32_t m = 0; m < 3; m++) {
        leave_and_resign(m);
    }
    assert_true(opens(7));
    assert_int_equal(scene.head.seat_count, 2);
    assert_int_equal(scene.head.leases.start, START);
    assert_memory_equal(&scene.head.leases.state, &STATE, sizeof STATE);
    assert_int_equal(scene.head.leases.resigned, 7);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_int_equal(scene.head.leases.signatures[m].bytes[0], m < 3 ? 50 + m : 0);
    }
}

static void resignation_is_durable_before_the_member_may_exit(void **state) {
    (void)state;
    begin(1);
    assert_true(is_asked(0));
    scene.disk_is_full = 1;
    resign(0, &STATE);
    scene.disk_is_full = 0;
    assert_true(is_asked(0));
    scene_beat(0, 0);
    resign(0, &STATE);
    assert_true(is_released(0));
}

static void resignation_from_another_state_or_of_no_elector_does_not_count(void **state) {
    (void)state;
    begin(1);
    assert_true(is_asked(1));
    resign(1, &OTHER_STATE);
    assert_true(is_asked(1));
    assert_true(opens(2));
    assert_int_equal(scene.head.leases.resigned, 0);
}

/* If it resigned, it could not continue the swarm when it returns. */
static void last_member_leaves_without_resigning(void **state) {
    (void)state;
    begin(1);
    for (uint32_t m = 0; m + 1 < MEMBERS; m++) {
        leave_and_resign(m);
    }
    assert_true(is_released(MEMBERS - 1));
}

static void member_is_not_asked_if_too_few_stay_to_continue(void **state) {
    (void)state;
    begin(MEMBERS);
    assert_true(is_released(0));
}

/* It has no vote, so a seat would only raise the quorum. */
static void member_that_returns_after_it_resigned_has_no_seat(void **state) {
    (void)state;
    begin(1);
    for (uint32_t m = 0; m < 3; m++) {
        leave_and_resign(m);
        scene_start_anew(m);
    }
    assert_true(opens(0));
    assert_int_equal(scene.head.seat_count, 2);
    for (uint32_t seat = 0; seat < 2; seat++) {
        assert_true(scene.head.seats[seat].id.bytes[0] > 3);
    }
}

static void order_opens_a_round_with_its_members_only(void **state) {
    (void)state;
    struct hash entry;
    struct tracker_start start;
    static struct continue_order order;
    begin(1);
    leave_and_resign(0);
    for (uint32_t m = 1; m < 4; m++) {
        scene_close(m);
    }
    scene_start_anew(0); /* what it promised does not bind in a round that is ordered */
    assert_false(opens(14));
    tracker_describe_wait(scene.tracker, &entry, &start, &order);
    assert_memory_equal(&entry, &STATE, sizeof STATE);
    assert_int_equal(start.number, START);
    assert_int_equal(order.count, 2);
    tracker_order_continue(scene.tracker, &order);
    assert_true(opens(14));
    assert_int_equal(scene.head.seat_count, 2);
    assert_int_equal(scene.head.leases.order.count, 2);
    assert_int_equal(scene.head.leases.resigned, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_without_half_of_the_electors_does_not_open),
        cmocka_unit_test(members_that_resigned_are_not_waited_for),
        cmocka_unit_test(resignation_is_durable_before_the_member_may_exit),
        cmocka_unit_test(resignation_from_another_state_or_of_no_elector_does_not_count),
        cmocka_unit_test(last_member_leaves_without_resigning),
        cmocka_unit_test(member_is_not_asked_if_too_few_stay_to_continue),
        cmocka_unit_test(member_that_returns_after_it_resigned_has_no_seat),
        cmocka_unit_test(order_opens_a_round_with_its_members_only),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_free();
    return failed;
}
