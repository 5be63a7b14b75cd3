/* test_ledger_follower: how a member verifies the tracker's ledger, also where entries arrive
 * before those that they follow. */
#include "follower_scene.h"
#include "runtime/swarm/wire/wire_service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The tracker sends this OPEN, then its whole ledger. */
static void receive(struct entry *early) {
    struct message message = {.kind = MESSAGE_ENTRY, .entry = early};
    assert_false(ledger_follower_accept_entry(&scene.follower, &message));
    assert_true(scene.follower.needs_entries);
    scene.follower.requested_ns = 77;
    scene_answer_of(0, 1, ENTRIES);
    assert_int_equal(scene.follower.chain.entry_count, 1);
    assert_int_equal(scene.follower.requested_ns, 0); /* the next request is sent at once */
    assert_true(scene.follower.needs_entries);
    scene_answer_of(1, ENTRIES, ENTRIES);
    assert_int_equal(scene.follower.chain.entry_count, ENTRIES);
    scene.follower.requested_ns = 88;
    scene_answer_of(ENTRIES, ENTRIES, ENTRIES);
}

static void an_outdated_entry_is_not_another_history(void **state) {
    (void)state;
    scene_begin();
    receive(&scene.early);
    assert_false(scene.follower.is_rejected);
    assert_string_equal(scene.reason.text, "");
    assert_false(scene.follower.needs_entries); /* or it would be requested for ever */
    assert_false(scene.follower.has_deferred);
}

static void an_entry_that_is_missing_from_the_ledger_is_rejected(void **state) {
    (void)state;
    scene_begin();
    scene.early.train_ms += 1;
    entry_fixture_sign(&scene.fixture, &scene.early);
    receive(&scene.early);
    assert_true(scene.follower.is_rejected);
    assert_non_null(strstr(scene.reason.text, "is missing, although"));
    assert_int_equal(scene.follower.requested_ns, 88); /* the next request waits */
}

static void a_member_resumes_from_its_own_copy(void **state) {
    (void)state;
    struct fault fault;
    scene_begin();
    assert_int_equal(scene_restore(EARLY, &fault), OK);
    assert_int_equal(scene.follower.chain.entry_count, EARLY);
    assert_int_equal(scene.catch_up.count, 1); /* the commit that was not applied */
    assert_false(ledger_follower_is_synced(&scene.follower));
    scene_answer(EARLY - 1, ENTRIES); /* from its head on */
    assert_true(ledger_follower_is_synced(&scene.follower));
    assert_int_equal(scene.follower.chain.entry_count, ENTRIES);
    scene_answer(ENTRIES, ENTRIES);
    assert_false(scene.follower.needs_entries);
    assert_string_equal(scene.reason.text, "");
}

/* An answer without entries says nothing about the end of the ledger. */
static void an_answer_without_the_requested_entry_is_reported(void **state) {
    (void)state;
    scene_begin();
    scene_answer_of(0, EARLY, ENTRIES);
    scene.follower.requested_ns = 66;
    scene_answer_of(EARLY, EARLY, ENTRIES);
    assert_true(scene.follower.is_rejected);
    assert_non_null(
        strstr(scene.reason.text, "entry 3 cannot be read by the tracker from its store"));
    assert_true(scene.follower.needs_entries);
    assert_int_equal(scene.follower.requested_ns, 66); /* the next request waits */
    scene_answer(EARLY, ENTRIES);
    assert_false(scene.follower.needs_entries);
    assert_string_equal(scene.reason.text, "");
}

static void a_ledger_without_the_known_head_is_rejected(void **state) {
    (void)state;
    struct fault fault;
    scene_begin();
    struct message message = {.kind = MESSAGE_ENTRY, .entry = &scene.early};
    assert_int_equal(scene_restore(ENTRIES, &fault), OK);
    assert_false(ledger_follower_accept_entry(&scene.follower, &message));
    scene_answer(ENTRIES - 1, ENTRIES - 1); /* the tracker has no further entry */
    assert_non_null(strstr(scene.reason.text, "tcp://here:1: "));
    assert_non_null(
        strstr(scene.reason.text, "does not contain entry 5, of round 3; the operator"));
    assert_int_equal(scene.follower.requested_ns, 99); /* the next request waits */
    assert_true(scene.follower.needs_entries);
    idle_reason_clear(&scene.reason);
    scene_answer_with_record(ENTRIES - 1, EARLY - 1);
    assert_non_null(
        strstr(scene.reason.text, "does not contain entry 5, of round 3; the operator"));
    assert_false(ledger_follower_accept_entry(&scene.follower, &message));
    assert_false(ledger_follower_is_synced(&scene.follower));
    assert_int_equal(scene.follower.chain.entry_count, ENTRIES);
    ledger_follower_on_connect(&scene.follower); /* another tracker */
    scene_answer(ENTRIES - 1, ENTRIES);
    assert_true(ledger_follower_is_synced(&scene.follower));
    assert_string_equal(scene.reason.text, "");
}

static void a_ledger_that_ends_before_the_state_is_rejected(void **state) {
    (void)state;
    scene_begin();
    struct message message = {.kind = MESSAGE_ENTRY, .entry = &scene.early};
    scene.options.tracker_address = "tcp://here:1";
    scene.options.state_round = 3;
    ledger_follower_on_connect(&scene.follower);
    scene_answer(0, EARLY);
    assert_false(ledger_follower_accept_entry(&scene.follower, &message));
    scene_answer(EARLY + 1, EARLY + 1); /* the message was the next entry, which is appended */
    assert_non_null(strstr(scene.reason.text, "ends before the entry of round 3, which this member "
                                              "has applied; the operator has to restore"));
    scene_answer(EARLY + 1, ENTRIES);
    assert_true(ledger_follower_is_synced(&scene.follower));
    assert_string_equal(scene.reason.text, "");
}

/* A ROLLBACK after the second commit, signed by the tracker, with the state of the first commit. */
static struct entry *make_rollback(void) {
    static struct entry rollback;
    static struct entry_fixture fixture;
    struct entry_slice slices[SLICES];
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    for (uint32_t i = 0; i < 5; i++) {
        scene_make_entry(&fixture, i, &scene.entry);
        rollback = i == 2 ? scene.entry : rollback; /* the first commit */
    }
    rollback.kind = ENTRY_ROLLBACK;
    rollback.round = scene.entry.round;
    rollback.commits = scene.entry.commits;
    rollback.prev = scene.entry.hash;
    rollback.slice_count = 0;
    rollback.result_count = 0;
    rollback.results = (struct hash){{0}};
    rollback.chain = (struct hash){{0}};
    memset(rollback.members, 0, sizeof rollback.members);
    memset(rollback.signatures, 0, sizeof rollback.signatures);
    return &rollback;
}

static bool delivers(struct entry *rollback) {
    struct fault fault;
    scene_begin();
    assert_int_equal(scene_restore(5, &fault), OK);
    scene_answer(4, 5);
    assert_true(ledger_follower_is_synced(&scene.follower));
    entry_fixture_sign(&scene.fixture, rollback);
    struct message message = {.kind = MESSAGE_ENTRY, .entry = rollback};
    return ledger_follower_accept_entry(&scene.follower, &message);
}

/* The state machine of the member never gets such an entry, although the tracker signed it. */
static void a_rollback_to_a_root_outside_the_chain_is_rejected(void **state) {
    (void)state;
    struct entry *rollback = make_rollback();
    rollback->root = hash_of("no state", 8);
    assert_false(delivers(rollback));
    assert_true(scene.follower.is_rejected);
    assert_non_null(strstr(scene.reason.text, "not in the history"));
    rollback = make_rollback();
    rollback->cursor.position += 5;
    assert_false(delivers(rollback));
    assert_non_null(strstr(scene.reason.text, "cursor"));
    rollback = make_rollback();
    rollback->order.newest = rollback->prev;
    assert_false(delivers(rollback));
    assert_non_null(strstr(scene.reason.text, "operator did not sign"));
    assert_true(delivers(make_rollback()));
    assert_false(scene.follower.is_rejected);
}

/* The tracker sends the newest commit to a member that connects, also after a suspension. */
static void a_suspension_is_not_taken_for_the_newest_state(void **state) {
    (void)state;
    static struct entry_slice slices[SLICES];
    static struct entry_fixture fixture;
    static struct entry commit, suspend;
    struct fault fault;
    scene_begin();
    assert_int_equal(scene_restore(5, &fault), OK);
    scene_answer(4, 5);
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    for (uint32_t i = 0; i < 5; i++) {
        scene_make_entry(&fixture, i, &commit);
    }
    suspend = commit;
    suspend.kind = ENTRY_SUSPEND;
    suspend.prev = commit.hash;
    suspend.slice_count = 0;
    suspend.result_count = 0;
    suspend.results = (struct hash){{0}};
    suspend.chain = (struct hash){{0}};
    memset(suspend.members, 0, sizeof suspend.members);
    memset(suspend.signatures, 0, sizeof suspend.signatures);
    suspend.suspension = (struct entry_suspension){
        .id = suspend.seats[1].id, .reason = SUSPENSION_RESULTS, .until_round = 9};
    entry_fixture_sign(&fixture, &suspend);
    struct message message = {.kind = MESSAGE_ENTRY, .entry = &suspend};
    (void)ledger_follower_accept_entry(&scene.follower, &message);
    assert_int_equal(scene.follower.chain.entry_count, 6);
    assert_int_equal(scene.follower.chain.history.count, 3); /* the genesis and two commits */
    message.entry = &commit;
    assert_true(ledger_follower_accept_entry(&scene.follower, &message));
    assert_false(scene.follower.has_gap);
    assert_int_equal(scene.catch_up.count, 2); /* the commits can still be replayed */
}

/* A vote for another state would let the tracker show it to joiners. */
static void a_proposal_must_have_the_state_of_the_chain(void **state) {
    (void)state;
    static struct entry_slice slices[SLICES];
    static struct entry_fixture fixture;
    static struct entry proposal;
    struct fault fault;
    scene_begin();
    assert_int_equal(scene_restore(4, &fault), OK); /* ends with an OPEN */
    scene_answer(3, 4);
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    for (uint32_t i = 0; i < 5; i++) {
        scene_make_entry(&fixture, i, &proposal);
    }
    assert_true(ledger_follower_extends_chain(&scene.follower, &proposal));
    proposal.chain.bytes[3] ^= 1;
    assert_false(ledger_follower_extends_chain(&scene.follower, &proposal));
    proposal.chain.bytes[3] ^= 1;
    scene.follower.chain.commits++;
    assert_false(ledger_follower_extends_chain(&scene.follower, &proposal));
}

static void a_changed_entry_of_the_copy_is_reported(void **state) {
    (void)state;
    struct fault fault;
    scene_begin();
    scene.changed = 2;
    assert_int_equal(scene_restore(ENTRIES, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "line 3");
    assert_non_null(strstr(fault.reason, "has a hash that does not match its content"));
    assert_true(fault.remedy[0] != '\0');
    scene_begin();
    scene.options.manifest.bytes[0] ^= 1;
    assert_int_equal(scene_restore(ENTRIES, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "line 1");
    assert_non_null(strstr(fault.reason, "a different swarm"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outdated_entry_is_not_another_history),
        cmocka_unit_test(an_answer_without_the_requested_entry_is_reported),
        cmocka_unit_test(a_member_resumes_from_its_own_copy),
        cmocka_unit_test(a_ledger_without_the_known_head_is_rejected),
        cmocka_unit_test(a_ledger_that_ends_before_the_state_is_rejected),
        cmocka_unit_test(a_suspension_is_not_taken_for_the_newest_state),
        cmocka_unit_test(a_proposal_must_have_the_state_of_the_chain),
        cmocka_unit_test(a_changed_entry_of_the_copy_is_reported),
        cmocka_unit_test(an_entry_that_is_missing_from_the_ledger_is_rejected),
        cmocka_unit_test(a_rollback_to_a_root_outside_the_chain_is_rejected),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_end();
    return failed;
}
