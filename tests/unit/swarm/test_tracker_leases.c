/* test_tracker_leases: the tracker's machine by hand in a swarm that refuses forks: electors that
 * resign, that are missing or promised their votes to another start, and the operator's order. */
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

static void use_leases(uint64_t start, uint32_t electors) {
    static struct ledger_chain chain;
    memset(&chain, 0, sizeof chain);
    chain.needs_leases = 1;
    chain.electors = (struct electors){.count = electors, .state = STATE, .round = ROUND};
    for (uint32_t m = 0; m < electors; m++) {
        chain.electors.ids[m].bytes[0] = (uint8_t)(m + 1);
    }
    tracker_use_leases(scene.tracker, start, &chain);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene_report(m, 0); /* between rounds */
    }
}

static void begin_with(uint32_t members_min, uint32_t electors) {
    scene_begin(0, members_min);
    use_leases(START, electors);
}

/* A swarm whose newest state entry has all members as electors. */
static void begin(uint32_t members_min) {
    begin_with(members_min, MEMBERS);
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
    struct elector_count count = {0};
    begin(1);
    for (uint32_t m = 0; m < 3; m++) {
        scene_close(m);
    }
    assert_false(opens(7));
    for (int i = 0; i < 60; i++) {
        scene_beat(0, 7);
    }
    assert_true(tracker_is_fork_possible(scene.tracker, &count));
    assert_int_equal(count.all, MEMBERS);
    assert_int_equal(count.here, 2);
    assert_int_equal(count.promised, 0);
    assert_true(opens(3)); /* one of them is back */
    assert_false(tracker_is_fork_possible(scene.tracker, &count));
    assert_int_equal(scene.head.leases.resigned, 0);
}

/* The tracker says that a fork is possible, and continues on one side only. */
static void half_of_the_electors_continues_with_the_first_one(void **state) {
    (void)state;
    struct elector_count count = {0};
    const uint32_t missing[2][2] = {{2, 3}, {0, 1}};
    for (uint32_t side = 0; side < 2; side++) {
        begin(1);
        leave_and_resign(4);
        scene_close(missing[side][0]);
        scene_close(missing[side][1]);
        assert_int_equal(opens(16 | 1U << missing[side][0] | 1U << missing[side][1]), side == 0);
        for (int i = 0; i < 60; i++) {
            scene_beat(scene.head.round, 16 | 1U << missing[side][0] | 1U << missing[side][1]);
        }
        assert_true(tracker_is_fork_possible(scene.tracker, &count));
        assert_int_equal(count.all, 4);
        assert_int_equal(count.here, 2);
        assert_int_equal(count.is_enough, side == 0);
    }
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

/* The tracker restarts between the resignations and the next OPEN. */
static void resignations_outlast_a_restart(void **state) {
    (void)state;
    begin(1);
    for (uint32_t m = 0; m < 3; m++) {
        leave_and_resign(m);
    }
    scene_restart();
    use_leases(START + 1, MEMBERS);
    for (uint32_t m = 0; m < 3; m++) {
        scene_close(m);
    }
    assert_true(opens(7));
    assert_int_equal(scene.head.seat_count, 2);
    assert_int_equal(scene.head.leases.start, START + 1);
    assert_int_equal(scene.head.leases.resigned, 7);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_int_equal(scene.head.leases.signatures[m].bytes[0], m < 3 ? 50 + m : 0);
    }
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

/* Too few stay for a round, but the next one opens with any other member. */
static void either_of_two_leaves_without_making_a_fork_possible(void **state) {
    (void)state;
    struct elector_count count = {0};
    for (uint32_t leaver = 0; leaver < 2; leaver++) {
        const uint32_t away = 28 | 1U << leaver;
        begin_with(2, 2);
        for (uint32_t m = 2; m < MEMBERS; m++) {
            scene_close(m);
        }
        leave_and_resign(leaver);
        assert_false(opens(away));
        for (int i = 0; i < 60; i++) {
            scene_beat(0, away);
        }
        assert_false(tracker_is_fork_possible(scene.tracker, &count));
        scene_start_anew(4);
        assert_true(opens(away & 15));
        assert_int_equal(scene.head.seat_count, 2);
    }
}

/* It counts for members_min, and the others alone are the quorum. */
static void member_that_returns_after_it_resigned_has_a_seat_without_a_vote(void **state) {
    (void)state;
    begin_with(2, 2);
    for (uint32_t m = 2; m < MEMBERS; m++) {
        scene_close(m);
    }
    leave_and_resign(0);
    assert_false(opens(29));
    scene_start_anew(0);
    assert_true(opens(28));
    assert_int_equal(scene.head.seat_count, 2);
    assert_int_equal(scene.head.leases.resigned, 1);
    for (uint32_t seat = 0; seat < 2; seat++) {
        assert_int_equal(scene.head.seats[seat].is_guest, scene.head.seats[seat].id.bytes[0] == 1);
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
    tracker_fill_continue_order(scene.tracker, &entry, &start, &order);
    assert_memory_equal(&entry, &STATE, sizeof STATE);
    assert_int_equal(start.number, START);
    assert_int_equal(order.count, 2);
    tracker_set_continue_order(scene.tracker, &order);
    assert_true(opens(14));
    assert_int_equal(scene.head.seat_count, 2);
    assert_int_equal(scene.head.leases.order.count, 2);
    assert_int_equal(scene.head.leases.resigned, 0);
}

/* ---- votes that do not come ---- */

static void reach_proposal(void) {
    const uint64_t before = scene.proposal;
    memset(scene.reports, 0, sizeof scene.reports);
    scene_open_and_declare();
    for (uint32_t s = 0; s < SLICES; s++) {
        for (uint32_t m = 0; m < MEMBERS; m++) {
            scene.reports[m][s] = (struct slice_report){.has_result = 1,
                                                        .epoch = scene.table[s].epoch,
                                                        .received_seats = SEATS_ALL,
                                                        .contributors = SEATS_ALL,
                                                        .hash = hash_of(&s, sizeof s)};
        }
    }
    for (int i = 0; i < 5 && scene.proposal == before; i++) {
        scene_beat(scene.head.round, 0);
    }
    assert_true(scene.proposal > before);
}

static void refuse(uint32_t member, enum refusal_reason reason) {
    scene_say(member, (struct message){.kind = MESSAGE_VOTE,
                                       .round = scene.head.round,
                                       .number = scene.proposal,
                                       .ballot.start = START,
                                       .ballot.refusal = {.reason = reason}});
}

static void accept_of(uint32_t member, uint64_t start) {
    scene_say(member, (struct message){.kind = MESSAGE_VOTE,
                                       .round = scene.head.round,
                                       .number = scene.proposal,
                                       .ballot.start = start,
                                       .root = scene.record.commit.root,
                                       .hash = hash_of(&scene.proposal, sizeof scene.proposal)});
}

static void accept(uint32_t member) {
    accept_of(member, START);
}

/* Its proposal has the same number and content. The member has given its lease to the copy. */
static void vote_for_the_proposal_of_a_copy_does_not_count(void **state) {
    (void)state;
    begin(1);
    reach_proposal();
    accept(0);
    accept(1);
    accept_of(2, START + 1);
    accept_of(3, 0);
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    accept(2);
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* A round that three of the five members cannot vote in, because another start has their leases. */
static void begin_with_promised_votes(uint32_t members_min, uint32_t electors) {
    begin_with(members_min, electors);
    reach_proposal();
    for (uint32_t m = 0; m < 3; m++) {
        assert_int_equal(scene.head.kind, ENTRY_OPEN);
        refuse(m, REFUSAL_PROMISED);
    }
    assert_int_equal(scene.head.kind, ENTRY_ABORT);
}

static void wait_for_operator(uint32_t electors, uint32_t here) {
    struct elector_count count = {0};
    struct hash entry;
    struct tracker_start start;
    static struct continue_order order;
    for (int i = 0; i < 60; i++) {
        scene_beat(0, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_ABORT);
    assert_true(tracker_is_fork_possible(scene.tracker, &count));
    assert_int_equal(count.all, electors);
    assert_int_equal(count.here, here);
    assert_int_equal(count.promised, 3);
    tracker_fill_continue_order(scene.tracker, &entry, &start, &order);
    assert_int_equal(order.count, MEMBERS);
    tracker_set_continue_order(scene.tracker, &order);
    assert_true(opens(0));
    assert_int_equal(scene.head.seat_count, MEMBERS);
}

static void promised_votes_end_the_round_and_wait_for_the_operator(void **state) {
    (void)state;
    begin_with_promised_votes(1, MEMBERS);
    wait_for_operator(MEMBERS, 2);
}

/* After GENESIS there are no electors, but another start may commit with the votes that it has. */
static void promised_votes_count_after_genesis(void **state) {
    (void)state;
    begin_with_promised_votes(3, 0);
    wait_for_operator(0, 0);
}

/* It may have been released, by the abort of the start that had its lease. */
static void member_that_starts_again_may_vote_again(void **state) {
    (void)state;
    begin_with_promised_votes(1, MEMBERS);
    scene_start_anew(1);
    assert_true(opens(0));
    assert_int_equal(scene.head.seat_count, 3);
}

static void other_refusals_promise_nothing(void **state) {
    (void)state;
    begin(1);
    reach_proposal();
    for (uint32_t m = 0; m < 3; m++) {
        refuse(m, REFUSAL_STATE);
    }
    assert_int_equal(scene.head.kind, ENTRY_ABORT);
    assert_true(opens(0));
    assert_int_equal(scene.head.seat_count, MEMBERS);
}

/* Rounds continue to open, because the members may only have been slow. */
static void electors_that_never_vote_make_a_fork_possible(void **state) {
    (void)state;
    struct elector_count count = {0};
    begin(1);
    reach_proposal();
    accept(0);
    accept(1);
    scene_end_round();
    reach_proposal();
    for (int i = 0; i < 60; i++) {
        scene_beat(scene.head.round, 0);
    }
    assert_true(tracker_is_fork_possible(scene.tracker, &count));
    assert_int_equal(count.here, 2);
    assert_int_equal(count.promised, 0);
    for (uint32_t m = 2; m < MEMBERS; m++) {
        accept(m);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    scene_beat(0, 0);
    assert_false(tracker_is_fork_possible(scene.tracker, &count));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_without_half_of_the_electors_does_not_open),
        cmocka_unit_test(half_of_the_electors_continues_with_the_first_one),
        cmocka_unit_test(members_that_resigned_are_not_waited_for),
        cmocka_unit_test(resignation_is_durable_before_the_member_may_exit),
        cmocka_unit_test(resignations_outlast_a_restart),
        cmocka_unit_test(resignation_from_another_state_or_of_no_elector_does_not_count),
        cmocka_unit_test(last_member_leaves_without_resigning),
        cmocka_unit_test(either_of_two_leaves_without_making_a_fork_possible),
        cmocka_unit_test(member_that_returns_after_it_resigned_has_a_seat_without_a_vote),
        cmocka_unit_test(order_opens_a_round_with_its_members_only),
        cmocka_unit_test(vote_for_the_proposal_of_a_copy_does_not_count),
        cmocka_unit_test(promised_votes_end_the_round_and_wait_for_the_operator),
        cmocka_unit_test(promised_votes_count_after_genesis),
        cmocka_unit_test(member_that_starts_again_may_vote_again),
        cmocka_unit_test(other_refusals_promise_nothing),
        cmocka_unit_test(electors_that_never_vote_make_a_fork_possible),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_free();
    return failed;
}
