/* test_member_chain: what a member makes of the tracker's entries that come before those that they
 * stand upon. */
#include "runtime/swarm/member_loop_state.h"

#include "runtime/swarm/entry_code.h"
#include "tests/unit/swarm/entry_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 2, SLICES = 3, ENTRIES = 6, EARLY = 3, RECORDS_BYTES = 1 << 16 };

static struct scene {
    struct entry_fixture fixture;
    struct member_loop loop;
    struct entry_slice slices[SLICES], read_slices[SLICES], held_slices[SLICES];
    struct entry_slice trail_slices[SWARM_REPLAY_MAX * SLICES];
    struct entry entry, early; /* the second round's OPEN */
    uint8_t records[RECORDS_BYTES];
    size_t count;
} scene;

static void *machine;

/* A member that knows nothing yet, and the chain that the tracker has. */
static void begin(void) {
    memset(&scene, 0, sizeof scene);
    entry_fixture_init(&scene.fixture, MEMBERS, scene.slices, SLICES);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        entry_fixture_next(&scene.fixture, i, &scene.entry);
        scene.early = i == EARLY ? scene.entry : scene.early;
        scene.count += entry_write(&scene.entry, scene.records + scene.count,
                                   sizeof scene.records - scene.count);
    }
    scene.loop.shape.slice_count = SLICES;
    scene.loop.options.manifest = hash_of("manifest", 8);
    memcpy(scene.loop.options.tracker.sign, scene.fixture.tracker.public_keys.sign, KEY_BYTES);
    struct member_start start = {.number = 1, .slice_count = SLICES};
    free(machine);
    machine = aligned_alloc(64, (member_bytes(SLICES) + 63) / 64 * 64);
    scene.loop.machine = member_init(machine, &start);
    member_loop_trail_bind(&scene.loop, scene.trail_slices);
    member_loop_chain_init(&scene.loop, scene.read_slices, scene.held_slices);
}

/* The tracker says this OPEN; it says the ledger up to its end; it has no more. */
static void hear(struct entry *early) {
    struct message message = {.kind = MESSAGE_ENTRY, .entry = early};
    assert_false(member_loop_chain_lets(&scene.loop, &message));
    assert_true(scene.loop.ledger.is_wanted);
    scene.loop.ledger.asked_ns = 77;
    struct frame frame = {.kind = WIRE_LEDGER, .length = (uint32_t)scene.count};
    member_loop_chain_hear(&scene.loop, &frame, scene.records);
    assert_int_equal(scene.loop.ledger.chain.entry_count, ENTRIES);
    assert_int_equal(scene.loop.ledger.asked_ns, 0); /* for what comes behind, at once */
    scene.loop.ledger.asked_ns = 88;
    frame = (struct frame){.kind = WIRE_LEDGER, .offset = ENTRIES};
    member_loop_chain_hear(&scene.loop, &frame, scene.records);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_whose_time_is_over_is_no_other_history),
        cmocka_unit_test(an_entry_that_is_not_in_the_ledger_is_found_out),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(machine);
    return failed;
}
