/* What the tracker does with the accusations of voters: it counts them, and decides nothing by
 * itself. */
#include "runtime/swarm/ledger/norms.h"
#include "tests/unit/swarm/tracker_play.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SUSPECT_SLICE = 5 };

static struct hash result_hash(uint32_t slice) {
    return hash_of(&slice, sizeof slice);
}

/* Up to the proposal of the open round; all results are there. */
static void propose(void) {
    for (uint32_t s = 0; s < SLICES; s++) {
        scene.reports[scene.table[s].owner][s] =
            (struct slice_report){.has_result = 1,
                                  .epoch = scene.table[s].epoch,
                                  .received_seats = SEATS_ALL,
                                  .contributors = SEATS_ALL,
                                  .hash = result_hash(s)};
    }
    uint64_t before = scene.proposal;
    for (int i = 0; i < 5 && scene.proposal == before; i++) {
        scene_beat(scene.head.round, 0);
    }
    assert_true(scene.proposal > before);
}

static void begin(void) {
    scene_begin(0, MEMBERS);
    scene_open_and_declare();
    propose();
}

static void accept(uint32_t member) {
    scene_say(member, (struct message){.kind = MESSAGE_VOTE,
                                       .round = scene.head.round,
                                       .number = scene.proposal,
                                       .root = scene.record.commit.root,
                                       .hash = hash_of(&scene.proposal, sizeof scene.proposal)});
}

/* A vote against the result of SUSPECT_SLICE. */
static struct message accusation(uint32_t reason, uint32_t suspect) {
    return (struct message){.kind = MESSAGE_VOTE,
                            .round = scene.head.round,
                            .number = scene.proposal,
                            .ballot.refusal = {.reason = reason, .suspect = suspect},
                            .slice = SUSPECT_SLICE,
                            .epoch = scene.table[SUSPECT_SLICE].epoch,
                            .contributors = SEATS_ALL,
                            .hash = result_hash(SUSPECT_SLICE),
                            .ballot.seed = hash_of("seed", 4),
                            .owner = scene.head.seats[suspect].id,
                            .signature = {{77}}};
}

/* The others accuse, one after another, as long as nothing follows. Returns their number. */
static uint32_t accuse_until_something_happens(uint32_t reason, uint32_t suspect) {
    uint32_t accusers = 0;
    uint32_t version = scene.table_version;
    uint8_t entries = scene.entries;
    const struct message message = accusation(reason, suspect);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        if (m != suspect && scene.table_version == version && scene.entries == entries) {
            scene_say(m, message);
            accusers++;
        }
    }
    return accusers;
}

static void a_wrong_sum_gets_another_owner_and_suspends_the_first(void **state) {
    (void)state;
    begin();
    const uint32_t owner = scene.table[SUSPECT_SLICE].owner;
    const struct identity liar = scene.head.seats[owner].id;
    struct slice_plan before[SLICES];
    memcpy(before, scene.table, sizeof before);
    accept(owner);
    assert_int_equal(accuse_until_something_happens(REFUSAL_SUM, owner), 3);
    for (uint32_t s = 0; s < SLICES; s++) {
        bool is_suspect = before[s].owner == owner;
        assert_int_equal(scene.table[s].epoch, before[s].epoch + is_suspect);
        assert_true(is_suspect ? scene.table[s].owner != owner
                               : scene.table[s].owner == before[s].owner);
    }
    memset(scene.reports, 0, sizeof scene.reports);
    propose();
    for (uint32_t m = 0; m < 3; m++) {
        accept(m);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    const struct entry_suspension *suspension = &scene.suspension.suspension;
    const uint32_t round = scene.head.round;
    scene_beat(scene.head.round, 0);
    assert_int_equal(scene.suspension.kind, ENTRY_SUSPEND);
    assert_int_equal(scene.suspension.round, round);
    assert_int_equal(suspension->reason, SUSPENSION_WRONG_SUM);
    assert_memory_equal(&suspension->id, &liar, sizeof suspension->id);
    assert_int_equal(suspension->evidence.slice, SUSPECT_SLICE);
    assert_int_equal(suspension->evidence.contributors, SEATS_ALL);
    assert_int_equal(suspension->evidence.signature.bytes[0], 77);
    const struct hash hash = result_hash(SUSPECT_SLICE);
    assert_true(hash_equal(&suspension->evidence.hash, &hash));
}

static void false_sketches_abort_the_round_and_suspend(void **state) {
    (void)state;
    begin();
    const struct identity suspect = scene.head.seats[2].id;
    assert_int_equal(accuse_until_something_happens(REFUSAL_SKETCH, 2), 3);
    assert_int_equal(scene.head.kind, ENTRY_ABORT);
    scene_beat(scene.head.round, 0);
    assert_int_equal(scene.suspension.suspension.reason, SUSPENSION_WRONG_SKETCH);
    assert_memory_equal(&scene.suspension.suspension.id, &suspect, sizeof(struct identity));
}

/* They cost one more vote, in which all check the slice. */
static void accusations_of_a_minority_name_nobody(void **state) {
    (void)state;
    begin();
    const uint32_t owner = scene.table[SUSPECT_SLICE].owner;
    uint32_t first = (owner + 1) % MEMBERS, second = (owner + 2) % MEMBERS;
    for (uint64_t vote = 0; vote < 2; vote++) {
        const struct message message = accusation(REFUSAL_SUM, owner);
        const uint64_t proposal = scene.proposal;
        scene_say(first, message);
        scene_say(second, message);
        scene_say(second, message); /* a repetition is no further accuser */
        for (uint32_t m = 0; m < MEMBERS; m++) {
            assert_int_equal(scene.head.kind, ENTRY_OPEN);
            assert_int_equal(scene.proposal, proposal);
            if (m != first && m != second) {
                accept(m);
            }
        }
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    scene_beat(scene.head.round, 0);
    assert_int_equal(scene.suspension.kind, ENTRY_GENESIS); /* there is none */
}

/* The seat that an accusation names is not the owner of the slice, or another hash is accused. */
static void accusations_that_fit_no_result_name_nobody(void **state) {
    (void)state;
    for (int is_hash = 0; is_hash < 2; is_hash++) {
        begin();
        const uint32_t owner = scene.table[SUSPECT_SLICE].owner;
        struct message message = accusation(REFUSAL_SUM, is_hash ? owner : (owner + 1) % MEMBERS);
        message.hash.bytes[0] ^= (uint8_t)is_hash;
        for (uint32_t m = 0; m < MEMBERS && scene.head.kind == ENTRY_OPEN; m++) {
            scene_say(m, message);
        }
        assert_int_equal(scene.head.kind, ENTRY_ABORT); /* no quorum can accept it */
        scene_beat(scene.head.round, 0);
        assert_int_equal(scene.suspension.kind, ENTRY_GENESIS);
    }
}

/* Two refuse without a name, so the round cannot be committed any more once a third does; as long
 * as accusations may still name a liar, the tracker waits for them. */
static void the_tracker_waits_for_votes_that_may_name_a_liar(void **state) {
    (void)state;
    begin();
    const uint32_t owner = scene.table[SUSPECT_SLICE].owner;
    struct message doubt = accusation(REFUSAL_UNPROVEN, 0);
    scene_say((owner + 1) % MEMBERS, doubt);
    scene_say((owner + 2) % MEMBERS, accusation(REFUSAL_SUM, owner));
    scene_say((owner + 3) % MEMBERS, accusation(REFUSAL_SUM, owner));
    assert_int_equal(scene.head.kind, ENTRY_OPEN); /* three of five refuse */
    uint32_t version = scene.table_version;
    scene_say((owner + 4) % MEMBERS, accusation(REFUSAL_SUM, owner));
    assert_true(scene.table_version > version);
}

/* A round in which the sketches of the last member did not reach so many of the others. The tracker
 * commits it with the votes of three members, of which the silent one is the first. */
static void commit_with_silent_sketches(uint32_t reports) {
    enum { SILENT = MEMBERS - 1 };
    play_train();
    propose();
    for (uint32_t i = 0; i < MEMBERS && scene.head.kind == ENTRY_OPEN; i++) {
        struct message vote = {.kind = MESSAGE_VOTE,
                               .round = scene.head.round,
                               .number = scene.proposal,
                               .root = scene.record.commit.root,
                               .hash = hash_of(&scene.proposal, sizeof scene.proposal)};
        vote.ballot.refusal.silent_seats = i > 0 && i <= reports ? 1 << SILENT : 0;
        scene_say((SILENT + i) % MEMBERS, vote);
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
}

/* More than half of the roster cannot report a silent member when its own vote is needed. */
static void a_member_that_withholds_its_sketches_twice_is_suspended(void **state) {
    (void)state;
    for (uint32_t reports = 1; reports <= 2; reports++) {
        scene_begin(0, MEMBERS);
        play_evenly();
        for (int round = 0; round < 2; round++) {
            assert_int_equal(scene.suspension.kind, ENTRY_GENESIS);
            commit_with_silent_sketches(reports);
            scene_beat(scene.head.round, 0);
        }
        bool is_suspended = reports == 2;
        assert_int_equal(scene.suspension.kind, is_suspended ? ENTRY_SUSPEND : ENTRY_GENESIS);
        assert_int_equal(scene.suspension.suspension.reason,
                         is_suspended ? SUSPENSION_CONTRIBUTIONS : SUSPENSION_NONE);
    }
}

/* A round in which these members report the last one as opposed to the others. They vote after the
 * last one, and the rest votes after them, as far as the tracker waits for it. Returns the number
 * of votes that it took. */
static uint32_t commit_with_opposed(uint32_t reporters) {
    enum { LAST = MEMBERS - 1 };
    uint32_t votes = 0;
    play_train();
    propose();
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (uint32_t m = 0; m < MEMBERS && scene.head.kind == ENTRY_OPEN; m++) {
            const bool reports = (reporters >> m & 1) != 0;
            if (turn == (m == LAST ? 0U : reports ? 1U : 2U)) {
                struct message vote = {.kind = MESSAGE_VOTE,
                                       .round = scene.head.round,
                                       .number = scene.proposal,
                                       .root = scene.record.commit.root,
                                       .hash = hash_of(&scene.proposal, sizeof scene.proposal)};
                vote.ballot.refusal.opposed_seats = reports ? 1 << LAST : 0;
                scene_say(m, vote);
                votes++;
            }
        }
    }
    assert_int_equal(scene.head.kind, ENTRY_COMMIT);
    return votes;
}

/* Returns the number of rounds after which the last member is suspended, 0: it is not. In the
 * rounds with a set bit, these members report it as opposed. */
static int play_opposed(uint32_t rounds, uint32_t reporters) {
    scene_begin(0, MEMBERS);
    play_evenly();
    for (int i = 1; i <= 24; i++) {
        (void)commit_with_opposed((rounds >> (i - 1) & 1) != 0 ? reporters : 0);
        scene_beat(scene.head.round, 0);
        if (scene.suspension.kind == ENTRY_SUSPEND) {
            assert_int_equal(scene.suspension.suspension.id.bytes[0], MEMBERS);
            assert_int_equal(scene.suspension.suspension.reason, SUSPENSION_OPPOSED);
            return i;
        }
    }
    return 0;
}

static void four_of_eight_opposed_contributions_suspend(void **state) {
    (void)state;
    enum { MOST = 0x7, ALL = 0xf };
    assert_int_equal(play_opposed(0xF, MOST), 4);
    assert_int_equal(play_opposed(0x8B, ALL), 8);
    assert_int_equal(play_opposed(0x550, MOST), 11);
    assert_int_equal(play_opposed(0x107, ALL), 0);
    assert_int_equal(play_opposed(0x70707, MOST), 0);
}

/* Two of five report it in each round, whoever else votes. */
static void a_minority_cannot_have_a_member_suspended_as_opposed(void **state) {
    (void)state;
    for (uint32_t first = 0; first < 3; first++) {
        assert_int_equal(play_opposed(UINT32_MAX, 1U << first | 8), 0);
    }
    assert_int_equal(play_opposed(UINT32_MAX, 0x3 | 1 << (MEMBERS - 1)), 0); /* nor with itself */
}

/* Three votes are a quorum: those of the last member and of two others. */
static void the_tracker_waits_for_votes_that_decide_who_is_opposed(void **state) {
    (void)state;
    scene_begin(0, MEMBERS);
    play_evenly();
    assert_int_equal(commit_with_opposed(0), 3);
    assert_int_equal(commit_with_opposed(0x1), 3); /* one of two is not most of them */
    assert_int_equal(commit_with_opposed(0x3), MEMBERS);
    assert_int_equal(commit_with_opposed(0x7), 4);
}

static int free_scene(void **state) {
    (void)state;
    scene_free();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_sum_gets_another_owner_and_suspends_the_first),
        cmocka_unit_test(false_sketches_abort_the_round_and_suspend),
        cmocka_unit_test(accusations_of_a_minority_name_nobody),
        cmocka_unit_test(accusations_that_fit_no_result_name_nobody),
        cmocka_unit_test(the_tracker_waits_for_votes_that_may_name_a_liar),
        cmocka_unit_test(four_of_eight_opposed_contributions_suspend),
        cmocka_unit_test(a_minority_cannot_have_a_member_suspended_as_opposed),
        cmocka_unit_test(the_tracker_waits_for_votes_that_decide_who_is_opposed),
        cmocka_unit_test(a_member_that_withholds_its_sketches_twice_is_suspended),
    };
    return cmocka_run_group_tests(tests, NULL, free_scene);
}
