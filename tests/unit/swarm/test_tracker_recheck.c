/* Audited proposals: for which votes the tracker waits, and how it follows one accusation. */
#include "runtime/swarm/protocol/audit.h"
#include "tests/unit/swarm/tracker_play.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SUSPECT_SLICE = 5, AUDITED = AUDIT_ROUNDS - 1, WAIT_MS_MAX = 2000 };

static struct hash result_hash(uint32_t slice) {
    return hash_of(&slice, sizeof slice);
}

static void set_random(uint8_t first_byte) {
    tracker_set_next_seed(scene.tracker, &(struct hash){{first_byte}});
}

/* Beats until there is another proposal; all results are there. */
static void reach_proposal(void) {
    const uint64_t before = scene.proposal;
    for (uint32_t s = 0; s < SLICES; s++) {
        for (uint32_t m = 0; m < MEMBERS; m++) {
            scene.reports[m][s] = (struct slice_report){.has_result = 1,
                                                        .epoch = scene.table[s].epoch,
                                                        .received_seats = SEATS_ALL,
                                                        .contributors = SEATS_ALL,
                                                        .hash = result_hash(s)};
        }
    }
    for (int i = 0; i < 5 && scene.proposal == before; i++) {
        scene_beat(scene.head.round, 0);
    }
    assert_true(scene.proposal > before);
}

/* The next round up to its proposal, which is audited if `is_audited`. */
static void propose(bool is_audited) {
    memset(scene.reports, 0, sizeof scene.reports);
    scene_open_and_declare();
    set_random(is_audited ? AUDITED : 0);
    reach_proposal();
}

static void accept(uint32_t member) {
    scene_say(member, (struct message){.kind = MESSAGE_VOTE,
                                       .round = scene.head.round,
                                       .number = scene.proposal,
                                       .root = scene.record.commit.root,
                                       .hash = hash_of(&scene.proposal, sizeof scene.proposal)});
}

static void accuse(uint32_t member, uint32_t reason) {
    const uint32_t owner = scene.table[SUSPECT_SLICE].owner;
    scene_say(member, (struct message){.kind = MESSAGE_VOTE,
                                       .round = scene.head.round,
                                       .number = scene.proposal,
                                       .ballot.refusal = {.reason = reason, .suspect = owner},
                                       .slice = SUSPECT_SLICE,
                                       .epoch = scene.table[SUSPECT_SLICE].epoch,
                                       .contributors = SEATS_ALL,
                                       .hash = result_hash(SUSPECT_SLICE),
                                       .ballot.seed = hash_of("seed", 4),
                                       .owner = scene.head.seats[owner].id,
                                       .signature = {{77}}});
}

/* All members but one accept, as long as the round is open and no other proposal follows. */
static void others_accept(uint32_t member) {
    const uint64_t proposal = scene.proposal;
    for (uint32_t m = 0; m < MEMBERS; m++) {
        if (m != member && scene.head.kind == ENTRY_OPEN && scene.proposal == proposal) {
            accept(m);
        }
    }
}

static void one_of_eight_proposals_is_audited(void **state) {
    (void)state;
    uint32_t audited = 0;
    scene_begin(0, MEMBERS);
    for (uint32_t seed = 0; seed < 4 * AUDIT_ROUNDS; seed++) {
        memset(scene.reports, 0, sizeof scene.reports);
        scene_open_and_declare();
        set_random((uint8_t)seed);
        reach_proposal();
        assert_true(scene.recheck == RECHECK_NONE || scene.recheck == RECHECK_DRAWN);
        audited += scene.recheck == RECHECK_DRAWN;
        for (uint32_t m = 0; m < MEMBERS; m++) {
            accept(m);
        }
        assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    }
    assert_int_equal(audited, 4);
}

static void a_commit_waits_for_the_votes_of_an_audited_proposal(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    propose(false);
    others_accept(MEMBERS - 1);
    assert_int_equal(scene.head.kind, ENTRY_COMMIT); /* the quorum of three suffices */

    propose(true);
    assert_int_equal(scene.recheck, RECHECK_DRAWN);
    others_accept(MEMBERS - 1);
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    accept(MEMBERS - 1);
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

static void a_voter_that_is_late_is_not_waited_for_again(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    propose(true);
    const int64_t began_ms = scene.now_ms;
    others_accept(MEMBERS - 1);
    assert_int_equal(scene.head.kind, ENTRY_OPEN);
    while (scene.head.kind == ENTRY_OPEN && scene.now_ms < began_ms + WAIT_MS_MAX) {
        scene_beat(scene.head.round, 0);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    propose(true);
    assert_int_equal(scene.recheck, RECHECK_DRAWN);
    others_accept(MEMBERS - 1);
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

static void all_voters_check_what_one_of_them_accuses(void **state) {
    (void)state;
    static const uint32_t LIES[][2] = {{REFUSAL_SKETCH, SUSPENSION_WRONG_SKETCH},
                                       {REFUSAL_SUM, SUSPENSION_WRONG_SUM},
                                       {REFUSAL_WITHHELD, SUSPENSION_WITHHELD}};
    for (size_t i = 0; i < ARRAY_COUNT(LIES); i++) {
        scene_begin(0, MEMBERS);
        propose(true);
        set_random(0);
        const uint32_t owner = scene.table[SUSPECT_SLICE].owner;
        const struct identity liar = scene.head.seats[owner].id;
        const uint64_t first = scene.proposal;
        accuse((owner + 1) % MEMBERS, LIES[i][0]);
        others_accept((owner + 1) % MEMBERS);
        assert_true(scene.proposal > first);
        assert_int_equal(scene.recheck, RECHECK_SLICE + SUSPECT_SLICE);
        /* The others may have found the lie in another way. */
        accuse((owner + 1) % MEMBERS, LIES[i][0]);
        accuse((owner + 2) % MEMBERS, LIES[i][0]);
        const uint32_t version = scene.table_version;
        accuse((owner + 3) % MEMBERS, i == 0 ? REFUSAL_SUM : LIES[i][0]);
        assert_true(scene.table_version > version);
        assert_true(scene.table[SUSPECT_SLICE].owner != owner);
        memset(scene.reports, 0, sizeof scene.reports);
        reach_proposal();
        others_accept(owner);
        assert_int_equal(scene.head.kind, ENTRY_COMMIT);
        scene_beat(scene.head.round, 0);
        assert_int_equal(scene.suspension.kind, ENTRY_SUSPEND);
        assert_int_equal(scene.suspension.suspension.reason, LIES[i][1]);
        assert_memory_equal(&scene.suspension.suspension.id, &liar, sizeof liar);
    }
}

/* An accusation that the others do not confirm costs one more vote, then none for eight rounds,
 * then one and none for sixteen. No member is named. */
static void a_false_accuser_is_followed_ever_more_rarely(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    for (uint32_t round = 0; round < 40; round++) {
        propose(false);
        const uint32_t accuser = MEMBERS - 1;
        const bool is_followed = round == 0 || round == 9 || round == 26;
        const uint64_t first = scene.proposal;
        accuse(accuser, REFUSAL_SUM);
        others_accept(accuser);
        assert_int_equal(scene.proposal > first, is_followed);
        if (is_followed) {
            assert_int_equal(scene.recheck, RECHECK_SLICE + SUSPECT_SLICE);
            accuse(accuser, REFUSAL_SUM);
            others_accept(accuser);
        }
        assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    }
    assert_int_equal(scene.suspension.kind, ENTRY_GENESIS); /* there is none */
}

/* Five voters, 16 slices, int4: 8 x 1 % of 25.6 slices are 0.512 audits of 4 contributions, of the
 * 12.8 slices of the others; one of the 3 of the liar is drawn by one of four with 1 - 0.88^4. */
static void the_view_has_the_probability_of_detection(void **state) {
    (void)state;
    static struct tracker_view view;
    scene_begin(0, MEMBERS);
    propose(false);
    tracker_read_view(scene.tracker, &view);
    const double found = 1 - 0.88 * 0.88 * 0.88 * 0.88;
    assert_true(fabs(view.found_in_round - found / 8) < 1e-12);
    assert_true(fabs(view.found_in_10_rounds - (1 - pow(1 - found / 8, 10))) < 1e-12);
}

static int free_scene(void **state) {
    (void)state;
    scene_free();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_eight_proposals_is_audited),
        cmocka_unit_test(a_commit_waits_for_the_votes_of_an_audited_proposal),
        cmocka_unit_test(a_voter_that_is_late_is_not_waited_for_again),
        cmocka_unit_test(all_voters_check_what_one_of_them_accuses),
        cmocka_unit_test(the_view_has_the_probability_of_detection),
        cmocka_unit_test(a_false_accuser_is_followed_ever_more_rarely),
    };
    return cmocka_run_group_tests_name("tracker_recheck", tests, NULL, free_scene);
}
