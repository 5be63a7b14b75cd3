/* What the tracker makes of the values that members declare: weights, owners, commits, and refused
 * proposals. */
#include "runtime/swarm/ledger/norms.h"
#include "tests/unit/swarm/tracker_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { FULL = 8 }; /* tokens of a seat */

static const struct hash NO_ROOT;
static struct hash roots[MEMBERS]; /* that members declare next */

static void fill_root(uint32_t member, uint32_t round) {
    const uint32_t words[] = {member, round};
    roots[member] = hash_of(words, sizeof words);
}

/* Members declare `norms`, and what `roots` has. Returns the members of the table. */
static const struct entry_member *declare(const double norms[MEMBERS]) {
    uint32_t round = scene.head.round;
    for (int i = 0; i < 50 && (scene.head.kind != ENTRY_OPEN || scene.head.round == round); i++) {
        scene_beat(round, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        scene_declare(m, (struct training_amount){FULL, FULL, norms[m]}, &roots[m]);
    }
    scene_beat(scene.head.round, 0);
    assert_true(scene.table_version > 0);
    struct tracker_view view;
    tracker_read_view(scene.tracker, &view);
    return view.record->table.members;
}

/* Up to the proposal of the open round, whose number it returns. */
static uint64_t propose(uint64_t contributors) {
    uint64_t number = 0;
    for (int s = 0; s < SLICES; s++) {
        scene.reports[scene.table[s].owner][s] =
            (struct slice_report){.has_result = 1,
                                  .received_seats = contributors,
                                  .rejected_seats = scene.table[s].expected_seats & ~contributors,
                                  .contributors = contributors};
    }
    scene_beat(scene.head.round, 0);
    for (uint32_t i = 0; i < ACTIONS_MAX; i++) {
        const struct message *message = &scene.rows[i].message;
        number = message->kind == MESSAGE_PROPOSE ? message->number : number;
    }
    assert_true(number > 0);
    return number;
}

static void vote(uint32_t member, uint64_t number, struct hash root) {
    scene_say(member, (struct message){
                          .kind = MESSAGE_VOTE,
                          .round = scene.head.round,
                          .number = number,
                          .root = root,
                          .hash = hash_is_zero(&root) ? root : hash_of(&number, sizeof number)});
}

static void commit(uint64_t contributors) {
    uint64_t number = propose(contributors);
    for (uint32_t m = 0; m < 3; m++) {
        vote(m, number, scene.record.commit.root);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    memset(scene.reports, 0, sizeof scene.reports);
}

static void begin(void) {
    scene_begin(0, MEMBERS);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        fill_root(m, 0);
    }
}

static void norms_outside_the_bounds_take_weight_and_slices(void **state) {
    (void)state;
    begin();
    const struct entry_member *members = declare((double[]){1, 2, 1000, 2, 0});
    static const uint64_t WEIGHTS[MEMBERS] = {FULL, FULL, 0, FULL, 0};
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_int_equal(members[m].weight, WEIGHTS[m]);
        assert_int_equal(members[m].tokens, FULL);
    }
    for (uint32_t s = 0; s < SLICES; s++) {
        assert_int_equal(scene.table[s].expected_seats, 0xb);
        assert_true(WEIGHTS[scene.table[s].owner] > 0);
    }
    commit(0xb);
    assert_true(scene.head.reference_norm == 2);
    assert_true(scene.head.members[2].norm == 1000);
    assert_int_equal(scene.head.slices[0].weight, 3 * FULL);
    assert_null(norms_error(scene.head.members, MEMBERS, UINT64_MAX, 0, scene.head.reference_norm));
}

static void an_open_and_an_abort_keep_the_reference_of_the_last_commit(void **state) {
    (void)state;
    begin();
    (void)declare((double[]){3, 3, 3, 3, 3});
    commit(SEATS_ALL);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        fill_root(m, 1);
    }
    (void)declare((double[]){7, 7, 7, 7, 7});
    assert_true(scene.head.reference_norm == 3);
    scene_end_round();
    assert_true(scene.head.reference_norm == 3);
}

/* Member 1 declares what member 3 declared in the committed round before, and member 2 what it
 * declared itself. */
static void repeated_contributions_have_no_weight(void **state) {
    (void)state;
    begin();
    const double norms[MEMBERS] = {1, 1, 1, 1, 1};
    (void)declare(norms);
    commit(SEATS_ALL);
    roots[1] = roots[3];
    fill_root(0, 1);
    fill_root(3, 1);
    fill_root(4, 1);
    const struct entry_member *members = declare(norms);
    static const uint64_t WEIGHTS[MEMBERS] = {FULL, 0, 0, FULL, FULL};
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_int_equal(members[m].weight, WEIGHTS[m]);
    }
}

/* No slice of the commit has the contribution of the first member, whose samples return. */
static void a_contribution_that_no_commit_has_may_be_declared_again(void **state) {
    (void)state;
    for (int is_restarted = 0; is_restarted <= 1; is_restarted++) {
        begin();
        double norms[MEMBERS] = {1.5, 1, 1, 1, 1};
        (void)declare(norms);
        commit(SEATS_ALL & ~1);
        assert_int_equal(scene.head.members[0].contributed, 0);
        if (is_restarted) {
            static struct entry last;
            last = scene.head;
            scene_restart();
            tracker_replay_entry(scene.tracker, &last);
        }
        for (uint32_t m = 1; m < MEMBERS; m++) {
            fill_root(m, 1);
            norms[m] = m == 4 ? 1 : 1.25; /* the last one is that of an earlier contribution */
        }
        const struct entry_member *members = declare(norms);
        assert_int_equal(members[0].weight, FULL);
        assert_int_equal(members[1].weight, FULL);
        assert_int_equal(members[4].weight, is_restarted ? 0 : FULL);
    }
}

/* A contribution is remembered for eight commits. */
static void a_contribution_may_return_after_eight_commits(void **state) {
    (void)state;
    begin();
    const double norms[MEMBERS] = {1, 1, 1, 1, 1};
    const struct hash first = roots[0];
    for (uint32_t round = 0; round < 10; round++) {
        for (uint32_t m = 0; m < MEMBERS; m++) {
            fill_root(m, round);
        }
        roots[0] = round == 8 || round == 9 ? first : roots[0];
        const struct entry_member *members = declare(norms);
        assert_int_equal(members[0].weight, round == 8 ? 0 : FULL);
        if (round == 8) {
            scene_end_round(); /* an aborted round is not remembered */
            fill_root(0, round);
            for (uint32_t m = 1; m < MEMBERS; m++) {
                fill_root(m, round);
            }
            (void)declare(norms);
        }
        commit(SEATS_ALL);
    }
}

static void zeros_and_the_work_of_an_aborted_round_are_no_repetition(void **state) {
    (void)state;
    begin();
    const double norms[MEMBERS] = {1, 1, 1, 1, 1};
    roots[0] = SCENE_ZERO_ROOT;
    (void)declare(norms);
    scene_end_round();
    const struct entry_member *members = declare(norms);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        assert_int_equal(members[m].weight, FULL);
    }
    commit(SEATS_ALL);
    for (uint32_t m = 1; m < MEMBERS; m++) {
        fill_root(m, 1);
    }
    members = declare(norms);
    assert_int_equal(members[0].weight, FULL);
    assert_int_equal(members[1].weight, FULL);
}

/* Of five members three are a quorum, so three refusals end the round. */
static void a_proposal_that_a_quorum_cannot_accept_is_aborted(void **state) {
    (void)state;
    begin();
    (void)declare((double[]){1, 1, 1, 1, 1});
    uint64_t number = propose(SEATS_ALL);
    vote(0, number, NO_ROOT);
    vote(1, number, NO_ROOT);
    scene_beat(scene.head.round, 0);
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    vote(2, number, NO_ROOT);
    assert_int_equal(scene.head.kind, ENTRY_ABORT);
}

static void refusals_of_a_minority_change_nothing(void **state) {
    (void)state;
    begin();
    (void)declare((double[]){1, 1, 1, 1, 1});
    uint64_t number = propose(SEATS_ALL);
    vote(3, number, NO_ROOT);
    vote(4, number, NO_ROOT);
    for (uint32_t m = 0; m < 3; m++) {
        assert_int_equal(scene.head.kind, ENTRY_OPEN);
        vote(m, number, scene.record.commit.root);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

static int free_scene(void **state) {
    (void)state;
    scene_free();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_outside_the_bounds_take_weight_and_slices),
        cmocka_unit_test(an_open_and_an_abort_keep_the_reference_of_the_last_commit),
        cmocka_unit_test(repeated_contributions_have_no_weight),
        cmocka_unit_test(a_contribution_that_no_commit_has_may_be_declared_again),
        cmocka_unit_test(a_contribution_may_return_after_eight_commits),
        cmocka_unit_test(zeros_and_the_work_of_an_aborted_round_are_no_repetition),
        cmocka_unit_test(a_proposal_that_a_quorum_cannot_accept_is_aborted),
        cmocka_unit_test(refusals_of_a_minority_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, free_scene);
}
