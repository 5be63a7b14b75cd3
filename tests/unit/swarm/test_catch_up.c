/* test_catch_up: which commit a member that missed several gets first, and which bytes it accepts
 * as their results. */
#include "runtime/swarm/member/catch_up.h"

#include "runtime/swarm/replica/replica.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PARAMETERS = 1 << 22, MEMBERS = 3, FIRST = 4 };

/* A member with the state after round FIRST. */
static struct scene {
    struct catch_up catch_up;
    struct slices slices;
    struct hash current; /* root of the member's state */
    void *memory;
    struct entry_slice entry_slices[SWARM_SLICES_MAX];
    struct entry entry; /* the newest commit */
    struct message message;
} scene;

static struct hash root_after(uint32_t round) {
    return (struct hash){{(uint8_t)round, 1}};
}

static void begin(enum codec codec) {
    struct fault fault;
    free(scene.memory);
    memset(&scene, 0, sizeof(scene));
    assert_int_equal(slices_divide(PARAMETERS, codec, MEMBERS, &scene.slices, &fault), OK);
    scene.memory = calloc(1, catch_up_memory_bytes(scene.slices.count));
    scene.entry.slices = scene.entry_slices;
    catch_up_init(&scene.catch_up, &scene.slices, scene.memory);
    scene.current = root_after(FIRST);
}

/* A commit that starts from the root after the round before it. */
static void commit(uint32_t round) {
    struct hash base = root_after(round - 1);
    scene.entry.kind = ENTRY_COMMIT;
    scene.entry.round = round;
    scene.entry.root = root_after(round);
    scene.entry.hash = (struct hash){{(uint8_t)round, 2}};
    scene.entry.seat_count = MEMBERS;
    scene.entry.slice_count = scene.slices.count;
    catch_up_add_entry(&scene.catch_up, &scene.entry, &base, &scene.current);
}

/* The message that the state machine gets when the tracker sends the newest commit. */
static const struct message *delivered(void) {
    scene.message = (struct message){.kind = MESSAGE_ENTRY, .session = 9, .entry = &scene.entry};
    scene.message.root = root_after(scene.entry.round - 1);
    return catch_up_replace_message(&scene.catch_up, &scene.message);
}

static const struct message *apply(uint32_t round) {
    scene.current = root_after(round);
    return catch_up_on_applied(&scene.catch_up, &scene.current);
}

static const struct message *fetch(const struct entry *target) {
    catch_up_on_state_fetch(&scene.catch_up, target);
    return catch_up_next_message(&scene.catch_up);
}

static void assert_is(const struct message *message, uint32_t round) {
    struct hash base = root_after(round - 1);
    assert_non_null(message);
    assert_int_equal(message->kind, MESSAGE_ENTRY);
    assert_int_equal(message->session, 9);
    assert_int_equal(message->entry->round, round);
    assert_memory_equal(&message->root, &base, sizeof base);
}

static void missed_rounds_are_delivered_one_after_the_other(void **state) {
    (void)state;
    begin(CODEC_INT8);
    commit(FIRST); /* applied already */
    for (uint32_t round = FIRST + 1; round <= FIRST + 3; round++) {
        commit(round);
    }
    assert_is(delivered(), FIRST + 1);
    assert_null(apply(FIRST)); /* the state did not change */
    assert_is(apply(FIRST + 1), FIRST + 2);
    commit(FIRST + 4); /* meanwhile */
    assert_is(delivered(), FIRST + 2);
    assert_is(apply(FIRST + 3), FIRST + 4); /* as after a state fetch */
    assert_ptr_equal(delivered(), &scene.message);
    assert_null(apply(FIRST + 4));
}

/* In the first round no member may have trained: the result is zero, and so is the momentum. */
static void a_commit_without_effect_is_not_missed(void **state) {
    (void)state;
    begin(CODEC_INT8);
    struct hash before = root_after(FIRST);
    scene.entry = (struct entry){.kind = ENTRY_COMMIT,
                                 .round = FIRST + 1,
                                 .root = before,
                                 .hash = {{FIRST + 1, 2}},
                                 .seat_count = MEMBERS,
                                 .slice_count = scene.slices.count,
                                 .slices = scene.entry_slices};
    catch_up_add_entry(&scene.catch_up, &scene.entry, &before, &scene.current);
    assert_ptr_equal(delivered(), &scene.message);
    scene.entry.round = FIRST + 2;
    scene.entry.hash = (struct hash){{FIRST + 2, 2}};
    scene.entry.root = root_after(FIRST + 2);
    catch_up_add_entry(&scene.catch_up, &scene.entry, &before, &scene.current);
    assert_ptr_equal(delivered(), &scene.message);
    assert_null(apply(FIRST + 2));
}

static void commits_that_cannot_be_replayed_cheaply_are_fetched(void **state) {
    (void)state;
    begin(CODEC_INT8);
    for (uint32_t i = 0; i <= REPLAY_ROUNDS_MAX; i++) {
        commit(FIRST + 1 + i);
    }
    assert_ptr_equal(delivered(), &scene.message); /* too many */
    begin(CODEC_FP32);
    commit(FIRST + 1);
    commit(FIRST + 2);
    assert_ptr_equal(delivered(), &scene.message); /* as many bytes as the state */
    begin(CODEC_INT8);
    commit(FIRST + 2);
    commit(FIRST + 3);
    assert_ptr_equal(delivered(), &scene.message); /* none starts from the member's state */
}

static void a_fetch_of_the_oldest_leads_to_the_newest(void **state) {
    (void)state;
    begin(CODEC_INT8);
    for (uint32_t round = FIRST + 1; round <= FIRST + 3; round++) {
        commit(round);
    }
    const struct entry *oldest = delivered()->entry;
    assert_is(fetch(oldest), FIRST + 3);
    assert_null(catch_up_next_message(&scene.catch_up)); /* once */
    assert_ptr_equal(delivered(), &scene.message);
    begin(CODEC_INT8);
    commit(FIRST + 1);
    (void)delivered();
    assert_null(fetch(&scene.entry)); /* it is the newest */
    begin(CODEC_INT8);
    commit(FIRST + 1);
    commit(FIRST + 2);
    scene.entry.kind = ENTRY_ROLLBACK;
    struct hash base = root_after(FIRST + 2);
    catch_up_add_entry(&scene.catch_up, &scene.entry, &base, &scene.current);
    assert_ptr_equal(delivered(), &scene.message);
}

static void a_commit_verifies_its_results(void **state) {
    (void)state;
    uint8_t bytes[100] = {1, 2, 3};
    struct message result = {.kind = MESSAGE_RESULT, .round = FIRST + 1, .slice = 1};
    begin(CODEC_INT8);
    assert_false(catch_up_verify_result(&scene.catch_up, &result, bytes, sizeof bytes));
    scene.entry_slices[1] = (struct entry_slice){.owner = 2, .epoch = 3, .contributors = 5};
    scene.entry_slices[1].hash = hash_of(bytes, sizeof bytes);
    scene.entry.seats[2].id.bytes[0] = 77;
    commit(FIRST + 1);
    commit(FIRST + 2);
    assert_true(catch_up_verify_result(&scene.catch_up, &result, bytes, sizeof bytes));
    assert_int_equal(result.epoch, 3);
    assert_int_equal(result.contributors, 5);
    assert_int_equal(result.owner.bytes[0], 77);
    assert_memory_equal(&result.hash, &scene.entry_slices[1].hash, sizeof result.hash);
    result.round = FIRST + 2; /* not the oldest */
    assert_false(catch_up_verify_result(&scene.catch_up, &result, bytes, sizeof bytes));
    result.round = FIRST + 1;
    bytes[50] = 1;
    assert_false(catch_up_verify_result(&scene.catch_up, &result, bytes, sizeof bytes));
    result.slice = scene.slices.count;
    assert_false(catch_up_verify_result(&scene.catch_up, &result, bytes, sizeof bytes));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missed_rounds_are_delivered_one_after_the_other),
        cmocka_unit_test(a_commit_without_effect_is_not_missed),
        cmocka_unit_test(commits_that_cannot_be_replayed_cheaply_are_fetched),
        cmocka_unit_test(a_fetch_of_the_oldest_leads_to_the_newest),
        cmocka_unit_test(a_commit_verifies_its_results),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(scene.memory);
    return failed;
}
