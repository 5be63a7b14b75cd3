/* test_member_trail: which commit a member that missed some hears first, and what it then takes for
 * their results. */
#include "runtime/swarm/member/member_loop_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PARAMETERS = 1 << 22, MEMBERS = 3, FIRST = 4 };

/* A member that stands on the root after round FIRST. */
static struct scene {
    struct member_loop loop;
    struct replica replica;
    struct entry_slice *lines;
    struct entry_slice entry_lines[SWARM_SLICES_MAX];
    struct entry entry; /* the newest that was made */
    struct message message;
} scene;

static struct hash root_after(uint32_t round) {
    return (struct hash){{(uint8_t)round, 1}};
}

static void stand_on(uint32_t round) {
    struct member_start start = {.number = 1, .slice_count = scene.loop.shape.slice_count};
    start.root = root_after(round);
    free(scene.loop.machine);
    scene.loop.machine = aligned_alloc(64, (member_bytes(start.slice_count) + 63) / 64 * 64);
    scene.loop.machine = member_init(scene.loop.machine, &start);
}

static void begin(enum codec codec) {
    struct fault fault;
    free(scene.lines);
    free(scene.loop.machine);
    memset(&scene, 0, sizeof(scene));
    struct slices *slices = &scene.replica.shape.slices;
    assert_int_equal(slices_plan(PARAMETERS, codec, MEMBERS, slices, &fault), OK);
    scene.loop.options.replica = &scene.replica;
    scene.loop.shape.slice_count = slices->count;
    scene.lines = calloc(REPLAY_ROUNDS_MAX, slices->count * sizeof(*scene.lines));
    scene.entry.slices = scene.entry_lines;
    catch_up_bind(&scene.loop, scene.lines);
    stand_on(FIRST);
}

/* A commit that leads on from the root after the round before it. */
static void commit(uint32_t round) {
    struct hash base = root_after(round - 1);
    scene.entry.kind = ENTRY_COMMIT;
    scene.entry.round = round;
    scene.entry.root = root_after(round);
    scene.entry.hash = (struct hash){{(uint8_t)round, 2}};
    scene.entry.seat_count = MEMBERS;
    scene.entry.slice_count = scene.loop.shape.slice_count;
    catch_up_add(&scene.loop, &scene.entry, &base);
}

/* What the machine hears when the tracker says the newest commit. */
static const struct message *heard(void) {
    scene.message = (struct message){.kind = MESSAGE_ENTRY, .session = 9, .entry = &scene.entry};
    scene.message.root = root_after(scene.entry.round - 1);
    return catch_up_substitute(&scene.loop, &scene.message);
}

static void assert_is(const struct message *message, uint32_t round) {
    struct hash base = root_after(round - 1);
    assert_non_null(message);
    assert_int_equal(message->kind, MESSAGE_ENTRY);
    assert_int_equal(message->session, 9);
    assert_int_equal(message->entry->round, round);
    assert_memory_equal(&message->root, &base, sizeof base);
}

static void missed_rounds_are_heard_one_after_the_other(void **state) {
    (void)state;
    begin(CODEC_INT8);
    commit(FIRST); /* stands already */
    for (uint32_t round = FIRST + 1; round <= FIRST + 3; round++) {
        commit(round);
    }
    assert_is(heard(), FIRST + 1);
    assert_null(catch_up_on_applied(&scene.loop)); /* nothing was */
    stand_on(FIRST + 1);
    assert_is(catch_up_on_applied(&scene.loop), FIRST + 2);
    commit(FIRST + 4); /* meanwhile */
    assert_is(heard(), FIRST + 2);
    stand_on(FIRST + 3); /* as it may be after an adoption */
    assert_is(catch_up_on_applied(&scene.loop), FIRST + 4);
    assert_ptr_equal(heard(), &scene.message);
    stand_on(FIRST + 4);
    assert_null(catch_up_on_applied(&scene.loop));
}

static void what_is_not_worth_it_is_adopted(void **state) {
    (void)state;
    begin(CODEC_INT8);
    for (uint32_t i = 0; i <= REPLAY_ROUNDS_MAX; i++) {
        commit(FIRST + 1 + i);
    }
    assert_ptr_equal(heard(), &scene.message); /* too many */
    begin(CODEC_FP32);
    commit(FIRST + 1);
    commit(FIRST + 2);
    assert_ptr_equal(heard(), &scene.message); /* as much as the state */
    begin(CODEC_INT8);
    commit(FIRST + 2);
    commit(FIRST + 3);
    assert_ptr_equal(heard(), &scene.message); /* nothing leads there */
}

static void what_nobody_has_any_more_is_adopted(void **state) {
    (void)state;
    begin(CODEC_INT8);
    for (uint32_t round = FIRST + 1; round <= FIRST + 3; round++) {
        commit(round);
    }
    const struct entry *oldest = heard()->entry;
    assert_is(catch_up_on_fetch(&scene.loop, oldest), FIRST + 3);
    assert_ptr_equal(heard(), &scene.message);
    begin(CODEC_INT8);
    commit(FIRST + 1);
    (void)heard();
    assert_null(catch_up_on_fetch(&scene.loop, &scene.entry)); /* it is the newest */
    begin(CODEC_INT8);
    commit(FIRST + 1);
    commit(FIRST + 2);
    scene.entry.kind = ENTRY_ROLLBACK;
    struct hash base = root_after(FIRST + 2);
    catch_up_add(&scene.loop, &scene.entry, &base);
    assert_ptr_equal(heard(), &scene.message);
}

static void a_commit_stands_for_its_results(void **state) {
    (void)state;
    uint8_t bytes[100] = {1, 2, 3};
    struct message result = {.kind = MESSAGE_RESULT, .round = FIRST + 1, .slice = 1};
    begin(CODEC_INT8);
    assert_false(catch_up_verifies(&scene.loop, &result, bytes, sizeof bytes));
    scene.entry_lines[1] = (struct entry_slice){.owner = 2, .epoch = 3, .contributors = 5};
    scene.entry_lines[1].hash = hash_of(bytes, sizeof bytes);
    scene.entry.seats[2].id.bytes[0] = 77;
    commit(FIRST + 1);
    commit(FIRST + 2);
    assert_true(catch_up_verifies(&scene.loop, &result, bytes, sizeof bytes));
    assert_int_equal(result.epoch, 3);
    assert_int_equal(result.contributors, 5);
    assert_int_equal(result.owner.bytes[0], 77);
    assert_memory_equal(&result.hash, &scene.entry_lines[1].hash, sizeof result.hash);
    result.round = FIRST + 2; /* not its turn yet */
    assert_false(catch_up_verifies(&scene.loop, &result, bytes, sizeof bytes));
    result.round = FIRST + 1;
    bytes[50] = 1;
    assert_false(catch_up_verifies(&scene.loop, &result, bytes, sizeof bytes));
    result.slice = scene.loop.shape.slice_count;
    assert_false(catch_up_verifies(&scene.loop, &result, bytes, sizeof bytes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missed_rounds_are_heard_one_after_the_other),
        cmocka_unit_test(what_is_not_worth_it_is_adopted),
        cmocka_unit_test(what_nobody_has_any_more_is_adopted),
        cmocka_unit_test(a_commit_stands_for_its_results),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(scene.lines);
    free(scene.loop.machine);
    return failed;
}
