/* test_member_chain: what a member makes of the tracker's entries that come before those that they
 * stand upon. */
#include "runtime/swarm/member/member_loop_state.h"

#include "runtime/swarm/ledger/entry_bytes.h"
#include "tests/unit/swarm/entry_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 2, SLICES = 3, ENTRIES = 6, EARLY = 3, RECORDS_BYTES = 1 << 16 };

static struct scene {
    struct entry_fixture fixture;
    struct member_loop loop;
    struct entry_slice slices[SLICES], read_slices[SLICES], held_slices[SLICES];
    struct entry_slice trail_slices[REPLAY_ROUNDS_MAX * SLICES];
    struct entry entry, early; /* the second round's OPEN */
    struct hash genesis;       /* root */
    uint8_t records[RECORDS_BYTES];
    size_t count;
    struct entry_slice past_slices[SLICES];
    struct entry_fixture past;
    struct entry past_entry;
    uint32_t past_count, given; /* entries that the member has of its own */
    uint32_t changed;           /* whose root is another one; 0: none */
    char place[16];
} scene;

static void *machine;

/* A member that knows nothing yet, and the chain that the tracker has. */
static void begin(void) {
    memset(&scene, 0, sizeof scene);
    entry_fixture_init(&scene.fixture, MEMBERS, scene.slices, SLICES);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        entry_fixture_next(&scene.fixture, i, &scene.entry);
        scene.genesis = i == 0 ? scene.entry.root : scene.genesis;
        scene.early = i == EARLY ? scene.entry : scene.early;
        scene.count += entry_write(&scene.entry, scene.records + scene.count,
                                   sizeof scene.records - scene.count);
    }
    scene.loop.shape.slice_count = SLICES;
    scene.loop.options.manifest = hash_of("manifest", 8);
    memcpy(scene.loop.options.tracker.sign, scene.fixture.tracker.public_keys.sign, KEY_BYTES);
    struct member_start start = {.number = 1, .slice_count = SLICES, .root = scene.genesis};
    free(machine);
    machine = aligned_alloc(64, (member_bytes(SLICES) + 63) / 64 * 64);
    scene.loop.machine = member_init(machine, &start);
    catch_up_bind(&scene.loop, scene.trail_slices);
    ledger_follower_init(&scene.loop, scene.read_slices, scene.held_slices);
}

/* An earlier start has kept the chain's first entries. */
static enum status give_past(void *context, const struct entry **entry, const char **place,
                             struct fault *fault) {
    (void)context;
    (void)fault;
    *entry = NULL;
    if (scene.given < scene.past_count) {
        entry_fixture_next(&scene.past, scene.given, &scene.past_entry);
        scene.past_entry.root.bytes[0] ^= scene.changed > 0 && scene.given == scene.changed;
        snprintf(scene.place, sizeof scene.place, "line %u", ++scene.given);
        *entry = &scene.past_entry;
        *place = scene.place;
    }
    return OK;
}

static enum status recall(uint32_t past_count, struct fault *fault) {
    entry_fixture_init(&scene.past, MEMBERS, scene.past_slices, SLICES);
    scene.past_count = past_count;
    scene.loop.options.ledger_past = give_past;
    scene.loop.options.tracker_address = "tcp://here:1";
    enum status status = ledger_follower_restore(&scene.loop, fault);
    ledger_follower_on_connect(&scene.loop);
    return status;
}

/* Where record `number` of the tracker's begins. */
static size_t record_at(uint32_t number) {
    static struct entry_slice slices[SLICES];
    static struct entry_fixture fixture;
    static struct entry entry;
    size_t at = 0;
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    for (uint32_t i = 0; i < number; i++) {
        entry_fixture_next(&fixture, i, &entry);
        at += entry_record_bytes(&entry);
    }
    return at;
}

static void answer(uint32_t from, uint32_t until) {
    size_t at = record_at(from);
    struct frame frame = {
        .kind = WIRE_LEDGER, .offset = from, .length = (uint32_t)(record_at(until) - at)};
    scene.loop.ledger.asked_ns = 99;
    ledger_follower_on_records(&scene.loop, &frame, scene.records + at);
}

/* The tracker says this OPEN; it says the ledger up to its end; it has no more. */
static void hear(struct entry *early) {
    struct message message = {.kind = MESSAGE_ENTRY, .entry = early};
    assert_false(ledger_follower_may_deliver(&scene.loop, &message));
    assert_true(scene.loop.ledger.is_wanted);
    scene.loop.ledger.asked_ns = 77;
    struct frame frame = {.kind = WIRE_LEDGER, .length = (uint32_t)scene.count};
    ledger_follower_on_records(&scene.loop, &frame, scene.records);
    assert_int_equal(scene.loop.ledger.chain.entry_count, ENTRIES);
    assert_int_equal(scene.loop.ledger.asked_ns, 0); /* for what comes behind, at once */
    scene.loop.ledger.asked_ns = 88;
    frame = (struct frame){.kind = WIRE_LEDGER, .offset = ENTRIES};
    ledger_follower_on_records(&scene.loop, &frame, scene.records);
}

static void an_entry_whose_time_is_over_is_no_other_history(void **state) {
    (void)state;
    begin();
    hear(&scene.early);
    assert_false(scene.loop.ledger.is_broken);
    assert_string_equal(scene.loop.reason, "");
    assert_false(scene.loop.ledger.is_wanted); /* or it is asked for without an end */
    assert_false(scene.loop.ledger.is_held);
}

static void an_entry_that_is_not_in_the_ledger_is_found_out(void **state) {
    (void)state;
    begin();
    scene.early.deadline_ms += 1;
    entry_fixture_sign(&scene.fixture, &scene.early);
    hear(&scene.early);
    assert_true(scene.loop.ledger.is_broken);
    assert_non_null(strstr(scene.loop.reason, "is not in it"));
    assert_int_equal(scene.loop.ledger.asked_ns, 88); /* asked again after a while only */
}

static void a_member_goes_on_from_its_own_ledger(void **state) {
    (void)state;
    struct fault fault;
    begin();
    assert_int_equal(recall(EARLY, &fault), OK);
    assert_int_equal(scene.loop.ledger.chain.entry_count, EARLY);
    assert_int_equal(scene.loop.trail.count, 1); /* the commit that its state does not have */
    assert_false(ledger_follower_is_synced(&scene.loop));
    answer(EARLY - 1, ENTRIES); /* from its head on */
    assert_true(ledger_follower_is_synced(&scene.loop));
    assert_int_equal(scene.loop.ledger.chain.entry_count, ENTRIES);
    answer(ENTRIES, ENTRIES);
    assert_false(scene.loop.ledger.is_wanted);
    assert_string_equal(scene.loop.reason, "");
}

static void a_ledger_without_the_own_head_is_refused_until_it_is_there(void **state) {
    (void)state;
    struct fault fault;
    begin();
    struct message message = {.kind = MESSAGE_ENTRY, .entry = &scene.early};
    assert_int_equal(recall(ENTRIES, &fault), OK);
    assert_false(ledger_follower_may_deliver(&scene.loop, &message));
    answer(ENTRIES - 1, ENTRIES - 1); /* it is shorter */
    assert_non_null(strstr(scene.loop.reason, "tcp://here:1: "));
    assert_non_null(strstr(scene.loop.reason, "does not have entry 5, of round 3; give"));
    assert_int_equal(scene.loop.ledger.asked_ns, 99); /* asked again after a while only */
    assert_true(scene.loop.ledger.is_wanted);
    scene.loop.reason[0] = '\0';
    struct frame frame = {.kind = WIRE_LEDGER,
                          .offset = ENTRIES - 1,
                          .length = (uint32_t)(record_at(EARLY) - record_at(EARLY - 1))};
    ledger_follower_on_records(&scene.loop, &frame, scene.records + record_at(EARLY - 1));
    assert_non_null(strstr(scene.loop.reason, "does not have entry 5, of round 3; give"));
    assert_false(ledger_follower_may_deliver(&scene.loop, &message));
    assert_false(ledger_follower_is_synced(&scene.loop));
    assert_int_equal(scene.loop.ledger.chain.entry_count, ENTRIES);
    ledger_follower_on_connect(&scene.loop); /* another tracker */
    answer(ENTRIES - 1, ENTRIES);
    assert_true(ledger_follower_is_synced(&scene.loop));
    assert_string_equal(scene.loop.reason, "");
}

static void a_ledger_that_ends_before_the_state_is_refused(void **state) {
    (void)state;
    begin();
    struct message message = {.kind = MESSAGE_ENTRY, .entry = &scene.early};
    scene.loop.options.tracker_address = "tcp://here:1";
    scene.loop.options.state_round = 3;
    ledger_follower_on_connect(&scene.loop);
    answer(0, EARLY);
    assert_false(ledger_follower_may_deliver(&scene.loop, &message));
    answer(EARLY + 1, EARLY + 1); /* the message was the next one */
    assert_non_null(strstr(scene.loop.reason, "ends before round 3, whose state is here; give"));
    answer(EARLY + 1, ENTRIES);
    assert_true(ledger_follower_is_synced(&scene.loop));
    assert_string_equal(scene.loop.reason, "");
}

static void a_changed_entry_of_the_own_ledger_is_named(void **state) {
    (void)state;
    struct fault fault;
    begin();
    scene.changed = 2;
    assert_int_equal(recall(ENTRIES, &fault), STATUS_INPUT);
    assert_string_equal(fault.place, "line 3");
    assert_non_null(strstr(fault.reason, "does not have the hash that it names"));
    assert_true(fault.remedy[0] != '\0');
    begin();
    scene.loop.options.manifest.bytes[0] ^= 1;
    assert_int_equal(recall(ENTRIES, &fault), STATUS_INPUT);
    assert_string_equal(fault.place, "line 1");
    assert_non_null(strstr(fault.reason, "another swarm"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_whose_time_is_over_is_no_other_history),
        cmocka_unit_test(a_member_goes_on_from_its_own_ledger),
        cmocka_unit_test(a_ledger_without_the_own_head_is_refused_until_it_is_there),
        cmocka_unit_test(a_ledger_that_ends_before_the_state_is_refused),
        cmocka_unit_test(a_changed_entry_of_the_own_ledger_is_named),
        cmocka_unit_test(an_entry_that_is_not_in_the_ledger_is_found_out),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(machine);
    return failed;
}
