/* test_member: the member's machine by hand: what it asks of whom, what it takes and sums, and the
 * state that it adopts. What faults do to it is the simulator's. */
#include "runtime/swarm/member_machine/member_machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SLICES = 24, SEATS = 3, OWN = 8, ALL = (1 << SEATS) - 1, LONG = 100 };

/* A member in seat 0 that owns slices 0 .. 7; seat 1 owns 8 .. 15, seat 2 the rest. */
static uint32_t seats = SEATS; /* the fourth owns nothing */
static struct scene {
    struct member *member;
    int64_t now_ms;
    struct action rows[ACTIONS_MAX];
    struct actions actions;
    struct entry open, commit;
    struct entry_slice slices[SLICES];
    struct round_table table;
    struct slice_plan plans[SLICES];
    struct hash nodes[SEATS + 1][3 * SLICES]; /* trees over the contributions */
} scene;

static void take(const struct event *event) {
    scene.actions.count = 0;
    member_step(scene.member, event, scene.now_ms, &scene.actions);
}

static void hear(struct message message) {
    take(&(struct event){.kind = EVENT_MESSAGE, .message = &message});
}

static void beat(int times) {
    for (int i = 0; i < times; i++) {
        take(&(struct event){.kind = EVENT_TICK});
    }
}

static struct identity id_of(uint32_t seat) {
    return (struct identity){{(uint8_t)(seat + 1)}};
}

/* A contribution's bytes are named by their seat and slice. */
static struct hash hash_at(uint32_t seat, uint32_t slice) {
    return (struct hash){{(uint8_t)(100 + seat), (uint8_t)slice}};
}

/* The first action of a kind, or NULL. */
static const struct action *find(enum action_kind kind) {
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        if (scene.rows[i].kind == kind) {
            return &scene.rows[i];
        }
    }
    return NULL;
}

/* Slices that are asked of a seat in the last step, as bits; the order must be ascending. */
static uint32_t asked(enum message_kind kind, uint32_t seat) {
    uint32_t slices = 0;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct action *action = &scene.rows[i];
        if (action->kind == ACTION_SEND && action->message.kind == kind &&
            action->to.bytes[0] == seat + 1) {
            assert_true(slices >> action->message.slice == 0);
            slices |= UINT32_C(1) << action->message.slice;
        }
    }
    return slices;
}

/* The rows that the tracker was told in the last step, or NULL. */
static const struct slice_report *reported(void) {
    const struct slice_report *report = NULL;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct message *message = &scene.rows[i].message;
        report = message->kind == MESSAGE_REPORT ? message->report.rows : report;
    }
    return report;
}

/* Who is said not to answer in the last step. */
static uint64_t reported_cut(void) {
    uint64_t cut = 0;
    for (uint32_t i = 0; i < scene.actions.count; i++) {
        const struct message *message = &scene.rows[i].message;
        cut |= message->kind == MESSAGE_REPORT ? message->links.unreachable : 0;
    }
    return cut;
}

static void say_table(uint32_t version) {
    scene.table.version = version;
    hear((struct message){.kind = MESSAGE_TABLE, .session = 7, .round = 1, .table = &scene.table});
}

static void begin(void) {
    free(scene.member);
    memset(&scene, 0, sizeof(scene));
    scene.actions = (struct actions){scene.rows, 0, ACTIONS_MAX};
    struct member_initial_state start = {
        .id = id_of(0), .start_id = 5, .slice_count = SLICES, .sample_tokens = 8};
    scene.member = aligned_alloc(64, member_memory_bytes(SLICES));
    scene.member = member_init(scene.member, &start);
    hear((struct message){.kind = MESSAGE_WELCOME, .session = 7, .number = 5});
    scene.open = (struct entry){.kind = ENTRY_OPEN, .round = 1, .seat_count = seats};
    for (uint32_t seat = 0; seat < seats; seat++) {
        scene.open.seats[seat].id = id_of(seat);
        scene.open.seats[seat].session = 7 + seat;
        scene.table.members[seat] = (struct entry_member){8, 8, 1, 1, 0, 0};
        scene.open.seats[seat].range_count = 1;
        scene.open.seats[seat].ranges[0] = (struct sample_range){seat, seat + 1};
        for (uint32_t s = 0; s < SLICES; s++) {
            const struct hash hash = hash_at(seat, s);
            scene.nodes[seat][s] = contribution_leaf(&hash, 0);
        }
        merkle_list_build(scene.nodes[seat], SLICES);
        scene.table.roots[seat] = merkle_tree_root(scene.nodes[seat], SLICES);
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        scene.plans[s] = (struct slice_plan){.owner = s / OWN, .expected_seats = ALL};
    }
    scene.table.round = 1;
    scene.table.declared_seats = ALL;
    scene.table.slices = scene.plans;
    hear((struct message){.kind = MESSAGE_ENTRY, .session = 7, .entry = &scene.open});
    struct event trained = {.kind = EVENT_TRAINED, .round = 1, .trained = {8, 8}};
    trained.root = scene.table.roots[0];
    take(&trained);
}

static void give(uint32_t seat, uint32_t slice, struct hash hash, int is_refused) {
    static const double NORMS[SLICES];
    struct slice_proof proof;
    contribution_prove(scene.nodes[seat], NORMS, SLICES, slice, &proof);
    hear((struct message){.kind = MESSAGE_CONTRIBUTION,
                          .from = id_of(seat),
                          .round = 1,
                          .slice = slice,
                          .hash = hash,
                          .proof = &proof,
                          .values.norm = is_refused ? (double)INFINITY : 0});
}

static void contributions_are_asked_for_in_windows(void **state) {
    (void)state;
    begin();
    say_table(1);
    for (uint32_t seat = 1; seat < SEATS; seat++) {
        assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, seat),
                         (1 << CONTRIBUTION_SLOTS_PER_MEMBER) - 1);
        assert_int_equal(asked(MESSAGE_FETCH_RESULT, seat), UINT32_C(0xff) << (OWN * seat));
    }
    for (uint32_t s = 0; s < CONTRIBUTION_SLOTS_PER_MEMBER;
         s++) { /* all that was asked of seat 1 */
        give(1, s, hash_at(1, s), 0);
        const struct action *keep = find(ACTION_KEEP_BYTES);
        assert_non_null(keep);
        assert_int_equal(keep->seat, 1);
        assert_int_equal(keep->slot, s);
        assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, 1), 0); /* its slots are full */
    }
    give(2, 0, hash_at(2, 0), 0);
    const struct action *sum = find(ACTION_SUM);
    assert_non_null(sum);
    assert_int_equal(sum->slice, 0);
    assert_int_equal(sum->contributors, ALL);
    assert_int_equal(sum->slots[1], 0);
    assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, 1), 0); /* they are being read */
    take(&(struct event){.kind = EVENT_SUMMED, .job = sum->job, .hash = {{1}}});
    for (uint32_t seat = 1; seat < SEATS; seat++) {
        assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, seat),
                         1 << CONTRIBUTION_SLOTS_PER_MEMBER);
    }
}

static void only_what_was_asked_and_declared_is_kept(void **state) {
    (void)state;
    begin();
    say_table(1);
    give(1, 0, hash_at(2, 0), 0); /* another's bytes */
    assert_null(find(ACTION_KEEP_BYTES));
    give(1, CONTRIBUTION_SLOTS_PER_MEMBER, hash_at(1, CONTRIBUTION_SLOTS_PER_MEMBER),
         0); /* not its turn */
    assert_null(find(ACTION_KEEP_BYTES));
    give(1, OWN, hash_at(1, OWN), 0); /* not this member's slice */
    assert_null(find(ACTION_KEEP_BYTES));
    give(1, 0, hash_at(1, 0), 0);
    assert_non_null(find(ACTION_KEEP_BYTES));
    give(1, 0, hash_at(1, 0), 0); /* a second time */
    assert_null(find(ACTION_KEEP_BYTES));
}

static void what_is_refused_is_not_waited_for_and_not_added(void **state) {
    (void)state;
    begin();
    say_table(1);
    give(1, 0, hash_at(1, 0), 1);
    assert_null(find(ACTION_KEEP_BYTES));
    assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, 1), 1 << CONTRIBUTION_SLOTS_PER_MEMBER);
    give(2, 0, hash_at(2, 0), 0);
    const struct action *sum = find(ACTION_SUM);
    assert_non_null(sum);
    assert_int_equal(sum->contributors, ALL & ~2);
    beat(1);
    const struct slice_report *report = reported();
    assert_non_null(report);
    assert_int_equal(report[0].rejected_seats, 2);
}

static void make_commit(uint32_t round, uint8_t root) {
    scene.commit = scene.open;
    scene.commit.kind = ENTRY_COMMIT;
    scene.commit.round = round;
    scene.commit.root.bytes[0] = root;
    scene.commit.slices = scene.slices;
    scene.commit.slice_count = scene.commit.result_count = SLICES;
    scene.commit.signature_count = 2;
    scene.commit.signatures[1].seat = 1;
    memcpy(scene.commit.members, scene.table.members, sizeof scene.commit.members);
    scene.commit.reference_norm = 1;
}

static void result_of(uint32_t owner, uint32_t from) {
    hear((struct message){.kind = MESSAGE_RESULT,
                          .from = id_of(from),
                          .owner = id_of(owner),
                          .round = 1,
                          .slice = OWN,
                          .contributors = ALL,
                          .hash = {{3}}});
}

static void a_result_is_its_owners_whoever_sends_it(void **state) {
    (void)state;
    begin();
    say_table(1);
    hear(
        (struct message){.kind = MESSAGE_FETCH_RESULT, .from = id_of(2), .round = 1, .slice = OWN});
    assert_int_equal(asked(MESSAGE_RESULT, 2), 0); /* there is none yet */
    result_of(2, 1);
    assert_null(find(ACTION_KEEP_BYTES));
    result_of(1, 2);
    assert_non_null(find(ACTION_KEEP_BYTES));
    assert_int_equal(asked(MESSAGE_RESULT, 2), 1 << OWN); /* as it was promised */
    result_of(1, 1);
    assert_null(find(ACTION_KEEP_BYTES));
}

/* The same bytes, but of fewer contributors, or of another epoch, than the proposal says. */
static void a_result_of_other_contributors_is_not_the_proposals(void **state) {
    (void)state;
    static const struct {
        uint32_t epoch, contributors, held;
    } CASES[] = {{0, ALL, 1}, {0, ALL & ~2, 0}, {1, ALL, 0}};
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        begin();
        say_table(1);
        result_of(1, 1);
        make_commit(1, 0);
        scene.commit.signature_count = 0;
        for (uint32_t s = 0; s < SLICES; s++) {
            scene.slices[s] = (struct entry_slice){.owner = s / OWN, .contributors = ALL};
            scene.slices[s].hash = (struct hash){{3}};
        }
        scene.slices[OWN].epoch = CASES[i].epoch;
        scene.slices[OWN].contributors = CASES[i].contributors;
        hear((struct message){.kind = MESSAGE_PROPOSE,
                              .session = 7,
                              .round = 1,
                              .number = 1,
                              .entry = &scene.commit});
        beat(1);
        assert_non_null(reported());
        assert_int_equal(reported()[OWN].has_result, CASES[i].held);
    }
}

static void silence_is_asked_again_and_a_broken_channel_later(void **state) {
    (void)state;
    begin();
    say_table(1);
    int beats = 0;
    for (; asked(MESSAGE_FETCH_CONTRIBUTION, 1) == 0 || beats == 0; beats++) {
        assert_true(beats < LONG);
        beat(1);
    }
    assert_in_range(beats, 2, LONG);
    assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, 1),
                     (1 << CONTRIBUTION_SLOTS_PER_MEMBER) - 1);
    take(&(struct event){.kind = EVENT_CLOSED, .peer = id_of(1)});
    assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, 1), 0);
    for (beats = 0; asked(MESSAGE_FETCH_CONTRIBUTION, 1) == 0; beats++) {
        assert_true(beats < LONG);
        beat(1);
    }
    assert_in_range(beats, 2, LONG);
}

static void what_arrives_is_not_asked_again(void **state) {
    (void)state;
    struct identity slow = id_of(1);
    begin();
    say_table(1);
    int asked_others = 0;
    for (int beats = 0; beats < LONG; beats++) {
        member_mark_partial_arrival(scene.member, &slow);
        beat(1);
        assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, 1), 0);
        asked_others += asked(MESSAGE_FETCH_CONTRIBUTION, 2) != 0;
    }
    assert_in_range(asked_others, 1, LONG); /* who is silent is */
}

/* `base` is what it starts from. */
static void say_commit(uint8_t base) {
    struct message message = {.kind = MESSAGE_ENTRY, .session = 7, .entry = &scene.commit};
    message.root.bytes[0] = base;
    hear(message);
}

/* Seat 1 does not answer: its results are asked of seat 2, who will have them; what it is to
 * contribute waits until it answers again. */
static void who_does_not_answer_is_told_and_not_asked(void **state) {
    (void)state;
    struct identity cut = id_of(1);
    begin();
    for (uint32_t s = 2 * OWN + OWN / 2; s < SLICES; s++) {
        scene.plans[s].owner = 1;
    }
    say_table(1);
    member_set_unreachable_members(scene.member, &cut, 1);
    beat(1);
    assert_int_equal(reported_cut(), 1 << 1);
    assert_int_equal(asked(MESSAGE_FETCH_RESULT, 1), 0);
    assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, 1), 0);
    assert_int_equal(asked(MESSAGE_FETCH_RESULT, 2), UINT32_C(0xf) << OWN); /* its window's rest */
    member_set_unreachable_members(scene.member, NULL, 0);
    beat(1);
    assert_int_equal(reported_cut(), 0);
    assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, 1),
                     (1 << CONTRIBUTION_SLOTS_PER_MEMBER) - 1);
    uint32_t rest = UINT32_C(0xf) << (OWN + OWN / 2) | UINT32_C(0xf) << (2 * OWN + OWN / 2);
    assert_int_equal(asked(MESSAGE_FETCH_RESULT, 1), rest);
}

static void propose(const uint64_t holders[SLICES]) {
    for (uint32_t s = 0; s < SLICES; s++) {
        scene.slices[s] = (struct entry_slice){.owner = scene.plans[s].owner, .contributors = ALL};
        scene.slices[s].hash = (struct hash){{3}};
    }
    hear((struct message){.kind = MESSAGE_PROPOSE,
                          .session = 7,
                          .round = 1,
                          .number = 1,
                          .entry = &scene.commit,
                          .ballot.holders = holders});
}

/* Seat 1 goes when nobody else is known to hold its results, so half of them are asked of seat 3;
 * seat 2 is busy with its own. Then seat 3 holds all of them. */
static void a_proposal_said_again_tells_who_holds_results_now(void **state) {
    (void)state;
    uint64_t holders[SLICES];
    seats = SEATS + 1;
    begin();
    seats = SEATS;
    for (uint32_t s = 0; s < SLICES; s++) {
        scene.plans[s].owner = s < OWN ? 2 : s / OWN;
        holders[s] = UINT64_C(1) << scene.plans[s].owner;
    }
    say_table(1);
    make_commit(1, 0);
    propose(holders);
    take(&(struct event){.kind = EVENT_CLOSED, .peer = id_of(1)});
    uint32_t first = asked(MESSAGE_FETCH_RESULT, 3);
    assert_int_equal(__builtin_popcount(first), OWN / 2);
    for (uint32_t s = OWN; s < 2 * OWN; s++) {
        holders[s] |= 1 << 3;
    }
    propose(holders);
    assert_int_equal(asked(MESSAGE_FETCH_RESULT, 3), (UINT32_C(0xff) << OWN) & ~first);
}

static void an_adoption_begins_again_with_a_newer_commit(void **state) {
    (void)state;
    static const struct hash zero;
    begin();
    make_commit(5, 50);
    say_commit(40);
    const struct action *adopt = find(ACTION_ADOPT);
    assert_non_null(adopt);
    uint32_t job = adopt->job;
    say_commit(40); /* the same again */
    assert_null(find(ACTION_ADOPT));
    make_commit(6, 60);
    say_commit(50);
    adopt = find(ACTION_ADOPT);
    assert_non_null(adopt);
    assert_int_equal(adopt->entry->root.bytes[0], 60);
    uint32_t job_newer = adopt->job;
    take(&(struct event){.kind = EVENT_APPLIED, .job = job, .root = {{50}}});
    assert_true(
        hash_equal(member_current_root(scene.member), &zero)); /* of one that no longer matters */
    struct event full = {.kind = EVENT_APPLIED, .job = job_newer, .write_outcome = WRITE_FAILED};
    take(&full);
    assert_null(find(ACTION_ADOPT));
    beat(1);
    adopt = find(ACTION_ADOPT);
    assert_non_null(adopt);
    take(&(struct event){.kind = EVENT_APPLIED, .job = adopt->job, .root = {{60}}});
    assert_int_equal(member_current_root(scene.member)->bytes[0], 60);
}

/* Back to the root that it stands on: nothing. Back from there: the older state is adopted. */
static void a_rollback_is_adopted_unless_it_is_there(void **state) {
    (void)state;
    begin();
    make_commit(5, 0);
    scene.commit.kind = ENTRY_ROLLBACK;
    scene.commit.slice_count = 0;
    scene.commit.signature_count = 1;
    say_commit(50);
    assert_null(find(ACTION_ADOPT));
    scene.commit.round = 6;
    scene.commit.root.bytes[0] = 30;
    say_commit(50);
    assert_non_null(find(ACTION_ADOPT));
    make_commit(6, 60); /* what was rolled back, late */
    say_commit(0);
    assert_null(find(ACTION_ADOPT));
    assert_null(find(ACTION_ROOT));
}

/* The computing thread still reads the slots of the round before. */
static void slots_are_given_again_when_an_old_sum_has_ended(void **state) {
    (void)state;
    begin();
    say_table(1);
    give(1, 0, hash_at(1, 0), 0);
    give(2, 0, hash_at(2, 0), 0);
    const struct action *sum = find(ACTION_SUM);
    assert_non_null(sum);
    struct event summed = {.kind = EVENT_SUMMED, .job = sum->job};
    scene.open.round = 2;
    hear((struct message){.kind = MESSAGE_ENTRY, .session = 7, .entry = &scene.open});
    scene.table.round = 2;
    scene.table.version = 1;
    hear((struct message){.kind = MESSAGE_TABLE, .session = 7, .round = 2, .table = &scene.table});
    assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, 1), 0);
    assert_int_not_equal(asked(MESSAGE_FETCH_RESULT, 1), 0);
    take(&summed);
    assert_int_equal(asked(MESSAGE_FETCH_CONTRIBUTION, 1),
                     (1 << CONTRIBUTION_SLOTS_PER_MEMBER) - 1);
}

static void a_commit_needs_a_quorum_of_distinct_seats(void **state) {
    (void)state;
    begin();
    make_commit(5, 50);
    scene.commit.signature_count = 1;
    say_commit(40);
    assert_null(find(ACTION_ADOPT));
    scene.commit.signature_count = 2;
    scene.commit.signatures[1].seat = 0;
    say_commit(40);
    assert_null(find(ACTION_ADOPT));
    scene.commit.signatures[1].seat = 2;
    say_commit(40);
    assert_non_null(find(ACTION_ADOPT));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contributions_are_asked_for_in_windows),
        cmocka_unit_test(only_what_was_asked_and_declared_is_kept),
        cmocka_unit_test(what_is_refused_is_not_waited_for_and_not_added),
        cmocka_unit_test(a_result_is_its_owners_whoever_sends_it),
        cmocka_unit_test(a_result_of_other_contributors_is_not_the_proposals),
        cmocka_unit_test(silence_is_asked_again_and_a_broken_channel_later),
        cmocka_unit_test(what_arrives_is_not_asked_again),
        cmocka_unit_test(who_does_not_answer_is_told_and_not_asked),
        cmocka_unit_test(a_proposal_said_again_tells_who_holds_results_now),
        cmocka_unit_test(an_adoption_begins_again_with_a_newer_commit),
        cmocka_unit_test(a_rollback_is_adopted_unless_it_is_there),
        cmocka_unit_test(slots_are_given_again_when_an_old_sum_has_ended),
        cmocka_unit_test(a_commit_needs_a_quorum_of_distinct_seats),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(scene.member);
    return failed;
}
