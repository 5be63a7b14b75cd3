/* test_tracker: the tracker's machine by hand: who owns what, where orphans go, and the run's
 * end. What faults do to it is the simulator's. */
#include "tests/unit/swarm/tracker_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void count_owned(uint32_t counts[MEMBERS]) {
    memset(counts, 0, MEMBERS * sizeof(*counts));
    for (int s = 0; s < SLICES; s++) {
        assert_true(scene.table[s].owner < MEMBERS);
        counts[scene.table[s].owner] += 1;
    }
}

static void members_that_cannot_be_reached_own_nothing(void **state) {
    (void)state;
    static const struct {
        uint32_t up[MEMBERS];
        uint32_t owned[MEMBERS];
    } CASES[] = {
        {{1000, 2000, UINT32_MAX - 1, 0, 0}, {6, 5, 5, 0, 0}}, /* whatever rates they claim */
        {{0, 0, 0, 0, 0}, {4, 3, 3, 3, 3}},
        {{5, 0, 0, 0, 0}, {16, 0, 0, 0, 0}},
        {{100, 200, TIMING_UNKNOWN, TIMING_UNKNOWN, 500}, {4, 3, 3, 3, 3}},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        uint32_t counts[MEMBERS];
        scene_begin(0, MEMBERS);
        for (uint32_t m = 0; m < MEMBERS; m++) {
            scene.measured[m].upload_kib_s = CASES[i].up[m];
        }
        scene_open_and_declare();
        count_owned(counts);
        for (uint32_t m = 0; m < MEMBERS; m++) {
            if (counts[m] != CASES[i].owned[m]) {
                fail_msg("case %zu: member %u owns %u slices", i, m, counts[m]);
            }
        }
    }
}

/* The dead owner's four slices are spread by what each can send and still has to do. */
static void orphans_go_to_whoever_is_done_soonest(void **state) {
    (void)state;
    uint32_t counts[MEMBERS];
    scene_begin(0, MEMBERS);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene.measured[m].upload_kib_s = m == 4 ? 0 : 1000;
    }
    scene_open_and_declare();
    uint32_t round = scene.head.round;
    for (int s = 0; s < SLICES; s++) { /* all but one of what seats 1 and 2 own is summed */
        uint32_t owner = scene.table[s].owner;
        int is_last = s == SLICES - 1 || scene.table[s + 1].owner != owner;
        if ((owner == 1 || owner == 2) && !is_last) {
            scene.reports[owner][s] = (struct slice_report){
                .has_result = 1, .received_seats = SEATS_ALL, .contributors = SEATS_ALL};
        }
    }
    scene_beat(round, 0);
    scene_close(0);
    assert_true(scene.poll > 0); /* does anybody hold a result of his? */
    scene_beat(round, 1);
    count_owned(counts);
    assert_int_equal(scene.table_version, 3); /* 2: his contributions are not waited for */
    assert_int_equal(counts[0], 0);
    assert_int_equal(counts[3], 4); /* has four to do himself */
    assert_int_equal(counts[1] + counts[2], 12);
    assert_int_equal(counts[1], 6);
    assert_int_equal(counts[4], 0);
    for (int s = 0; s < 4; s++) {
        assert_int_equal(scene.table[s].epoch, 1);
        assert_int_equal(scene.table[s].expected_seats, SEATS_ALL & ~1);
    }
}

static bool is_same_plan(const struct slice_plan *a, const struct slice_plan *b) {
    return a->owner == b->owner && a->epoch == b->epoch && a->expected_seats == b->expected_seats &&
           a->optional_seats == b->optional_seats;
}

/* The last member has no table yet, so its next one is whole. */
static void a_table_is_sent_as_the_difference_to_the_one_that_a_member_has(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    scene.lost_tables = 1 << 4;
    scene_open_and_declare();
    uint32_t round = scene.head.round;
    scene_beat(round, 0);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_int_equal(scene.bases[m], 0);
    }
    scene_close(0);
    scene_beat(round, 1);
    assert_int_equal(scene.table_version, 3);
    for (uint32_t m = 1; m < MEMBERS; m++) {
        assert_int_equal(scene.bases[m], m == 4 ? 0 : 2);
    }
    uint32_t changed = 0;
    for (uint32_t s = 0; s < SLICES; s++) {
        bool is_same = is_same_plan(&scene.table[s], &scene.plans_first[s]);
        changed += scene.table[s].version == 3;
        assert_in_range(scene.table[s].version, 1, 3);
        assert_true(is_same || scene.table[s].version > 1);
    }
    assert_in_range(changed, 1, SLICES - 1);
}

/* The confirmation that was sent in the last step. */
static uint64_t confirmed(void) {
    uint64_t number = UINT64_MAX;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct message *message = &scene.rows[i].message;
        number = message->kind == MESSAGE_CONFIRM ? message->number : number;
    }
    return number;
}

/* Member 0 says a report that has only the rows that changed, with a received seat in one slice. */
static void say_difference(uint64_t number, uint64_t base, uint32_t slice) {
    struct slice_report rows[SLICES] = {0};
    rows[slice] = (struct slice_report){.received_seats = 1, .changed = number};
    scene_say(0, (struct message){.kind = MESSAGE_REPORT,
                                  .number = number,
                                  .round = scene.head.round,
                                  .report = {base, REPORT_ROWS, rows}});
}

static void a_report_with_an_unknown_base_is_not_stored(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    scene_open_and_declare();
    const uint64_t number = scene.number + 100;
    say_difference(number, 0, 3);
    assert_int_equal(confirmed(), number);
    say_difference(number + 3, number + 2, 4); /* as after a restart of the tracker */
    assert_int_equal(confirmed(), number);
    say_difference(number + 4, number, 5);
    assert_int_equal(confirmed(), number + 4);
    say_difference(number + 2, number, 6); /* it arrives late */
    assert_int_equal(confirmed(), number + 4);
    say_difference(number + 5, 0, 7); /* a whole one */
    assert_int_equal(confirmed(), number + 5);
}

/* The proposal that was said in the last step, or NULL. */
static const struct message *proposed(void) {
    const struct message *found = NULL;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct message *message = &scene.rows[i].message;
        found = message->kind == MESSAGE_PROPOSE ? message : found;
    }
    return found;
}

/* A result that its owner does not have yet is nobody's, whoever says so; an owner's own word for
 * what it is counts before others'. */
static void results_that_nobody_can_have_are_not_proposed(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    scene_open_and_declare();
    uint32_t round = scene.head.round;
    uint32_t owner = scene.table[0].owner;
    uint32_t liar = scene.table[SLICES - 1].owner;
    assert_int_not_equal(owner, liar);
    struct slice_report held = {
        .has_result = 1, .received_seats = SEATS_ALL, .contributors = SEATS_ALL};
    for (int s = 1; s < SLICES; s++) {
        scene.reports[scene.table[s].owner][s] = held;
    }
    held.hash.bytes[0] = 66;
    scene.reports[liar][0] = held;
    for (int i = 0; i < 3; i++) {
        scene_beat(round, 0);
        assert_null(proposed());
    }
    held.hash.bytes[0] = 7;
    scene.reports[owner][0] = held;
    scene_report(owner, round);
    assert_non_null(proposed());
    assert_int_equal(proposed()->entry->slices[0].hash.bytes[0], 7);
}

/* The last member's next start is not durable, so that its present one speaks on; what that held is
 * known again with its next report. */
static void a_start_that_is_not_durable_takes_results_with_it(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    scene_open_and_declare();
    uint32_t round = scene.head.round;
    uint32_t starts = scene.table[SLICES - 1].owner;
    assert_int_not_equal(scene.table[0].owner, starts);
    struct slice_report held = {
        .has_result = 1, .received_seats = SEATS_ALL, .contributors = SEATS_ALL};
    for (int s = 1; s < SLICES; s++) {
        scene.reports[scene.table[s].owner][s] = held;
    }
    scene_beat(round, 0);
    scene.disk_is_full = 1;
    scene_start_anew(starts);
    scene.disk_is_full = 0;
    scene.reports[scene.table[0].owner][0] = held;
    scene_beat(round, 1U << starts);
    scene_say(starts, (struct message){.kind = MESSAGE_LEAVE});
    assert_null(proposed());
    scene_report(starts, round);
    assert_non_null(proposed());
}

/* Everybody has everything else, and nobody votes. */
static void what_one_alone_has_of_a_dead_owner_is_summed_again(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    scene_open_and_declare();
    uint32_t round = scene.head.round;
    uint32_t liar = scene.table[SLICES - 1].owner;
    for (int s = 0; s < SLICES; s++) {
        for (uint32_t m = 1; m < MEMBERS; m++) {
            scene.reports[m][s].has_result = scene.table[s].owner != 0 || m == liar;
            scene.reports[m][s].contributors = SEATS_ALL;
        }
    }
    assert_int_equal(scene.table[0].owner, 0);
    scene_close(0);
    for (int i = 0; i < 100 && scene.table[0].epoch == 0; i++) {
        scene_beat(round, 1);
    }
    assert_int_equal(scene.table[0].epoch, 1);
    assert_int_not_equal(scene.table[0].owner, 0);
}

/* A round by hand: results are at their owners, everybody votes alike. */
static void the_run_ends_with_its_last_commit(void **state) {
    (void)state;
    scene_begin(1, MEMBERS);
    scene_open_and_declare();
    uint32_t round = scene.head.round;
    for (int s = 0; s < SLICES; s++) {
        scene.reports[scene.table[s].owner][s] = (struct slice_report){
            .has_result = 1, .received_seats = SEATS_ALL, .contributors = SEATS_ALL};
    }
    scene_beat(round, 0);
    uint64_t number = 0;
    for (uint32_t i = 0; i < ACTIONS_MAX; i++) {
        const struct message *message = &scene.rows[i].message;
        number = message->kind == MESSAGE_PROPOSE ? message->number : number;
    }
    assert_true(number > 0);
    for (uint32_t m = 0; m < 3; m++) {
        assert_int_equal(scene.head.kind, ENTRY_OPEN); /* two are no quorum of five */
        struct message vote = {.kind = MESSAGE_VOTE, .round = round, .number = number};
        vote.root = scene.record.commit.root;
        scene_say(m, vote);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    assert_int_equal(scene.head.commits, 1);
    assert_int_equal(scene.head.signature_count, 3);
    assert_int_equal(scene.head.slices[SLICES - 1].begin, 100 * (SLICES - 1));
    assert_int_equal(scene.head.slices[SLICES - 1].end, 100 * SLICES - 50);
    assert_int_equal(scene.head.slices[0].weight, 5 * 8);
    scene_beat(0, 0);
    assert_int_equal(scene.goodbyes, SEATS_ALL);
    for (int i = 0; i < 100; i++) {
        scene_beat(0, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* `adopting`: members that do not have the state that the round is based on. */
static void commit_a_round(uint32_t adopting) {
    scene_open_and_declare();
    scene.adopting = adopting;
    uint32_t round = scene.head.round;
    for (int s = 0; s < SLICES; s++) {
        scene.reports[scene.table[s].owner][s] = (struct slice_report){
            .has_result = 1, .received_seats = SEATS_ALL, .contributors = SEATS_ALL};
    }
    scene_beat(round, 0);
    struct message vote = {.kind = MESSAGE_VOTE, .round = round, .number = scene.proposal};
    vote.root = scene.record.commit.root;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene_say(m, vote);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* The members that had the last state have been released, so no member can give it. */
static void a_member_that_joins_after_the_end_is_released_at_once(void **state) {
    (void)state;
    scene_begin(1, MEMBERS);
    commit_a_round(0);
    scene_beat(0, 0);
    assert_int_equal(scene.goodbyes, SEATS_ALL);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene_close(m);
    }
    scene.goodbyes = 0;
    scene.adopting = 1;
    scene_start_anew(0);
    for (int i = 0; i < 3; i++) {
        scene_beat(0, SEATS_ALL & ~1U);
    }
    assert_int_equal(scene.goodbyes, 1);
}

/* A member without the last state waits while those that have it are only cut off. */
static void a_member_waits_for_the_state_while_its_holders_may_return(void **state) {
    (void)state;
    scene_begin(1, MEMBERS);
    commit_a_round(1);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene_close(m);
    }
    scene_start_anew(0);
    int beats = 0;
    for (; scene.goodbyes == 0 && beats < 1000; beats++) {
        scene_beat(0, SEATS_ALL & ~1U);
    }
    const int timeout_beats = (int)(tracker_timing(scene.tracker)->exchange_ms / 100);
    assert_in_range(beats, timeout_beats - 1, timeout_beats + 1);
    assert_int_equal(scene.goodbyes, 1);
}

static bool has_declared(uint32_t row) {
    struct tracker_view view;
    tracker_read_view(scene.tracker, &view);
    return view.members[row].has_declared;
}

/* Others verify the declaration's signature over the samples in the table. */
static void a_declaration_of_more_samples_than_assigned_is_ignored(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    for (int i = 0; i < 50 && scene.head.kind != ENTRY_OPEN; i++) {
        scene_beat(0, 0);
    }
    struct training_amount trained = {.tokens = INT64_MAX, .samples = 9};
    scene_declare(0, trained, &SCENE_ZERO_ROOT);
    assert_false(has_declared(0));
    trained.samples = 8; /* all that it was assigned */
    scene_declare(0, trained, &SCENE_ZERO_ROOT);
    assert_true(has_declared(0));
}

/* Its signature would not be valid in the table. */
static void a_declaration_for_another_open_is_ignored(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    for (int i = 0; i < 50 && scene.head.kind != ENTRY_OPEN; i++) {
        scene_beat(0, 0);
    }
    const struct hash open = scene.head.hash;
    scene.head.hash.bytes[31] ^= 1;
    scene_declare(0, (struct training_amount){8, 8, 0}, &SCENE_ZERO_ROOT);
    assert_false(has_declared(0));
    scene.head.hash = open;
    scene_declare(0, (struct training_amount){8, 8, 0}, &SCENE_ZERO_ROOT);
    assert_true(has_declared(0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_with_an_unknown_base_is_not_stored),
        cmocka_unit_test(a_table_is_sent_as_the_difference_to_the_one_that_a_member_has),
        cmocka_unit_test(members_that_cannot_be_reached_own_nothing),
        cmocka_unit_test(orphans_go_to_whoever_is_done_soonest),
        cmocka_unit_test(results_that_nobody_can_have_are_not_proposed),
        cmocka_unit_test(a_start_that_is_not_durable_takes_results_with_it),
        cmocka_unit_test(what_one_alone_has_of_a_dead_owner_is_summed_again),
        cmocka_unit_test(the_run_ends_with_its_last_commit),
        cmocka_unit_test(a_member_that_joins_after_the_end_is_released_at_once),
        cmocka_unit_test(a_member_waits_for_the_state_while_its_holders_may_return),
        cmocka_unit_test(a_declaration_of_more_samples_than_assigned_is_ignored),
        cmocka_unit_test(a_declaration_for_another_open_is_ignored),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_free();
    return failed;
}
