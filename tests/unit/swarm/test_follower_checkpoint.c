/* test_follower_checkpoint: how a member without a ledger begins at a checkpoint of the tracker,
 * and reads the whole ledger if that is not valid. */
#include "follower_scene.h"
#include "runtime/swarm/wire/wire_service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool keep_entry(void *context, const struct ledger_chain *checkpoint,
                       const struct entry *entry) {
    (void)context;
    if (entry != NULL) {
        assert_true(checkpoint == NULL || hash_equal(&checkpoint->head, &entry->prev));
        scene.kept++;
        scene.kept_checkpoints += checkpoint != NULL;
    }
    return true;
}

/* The frame that the member sends next. */
static struct frame next_request(void) {
    struct frame frame = {.kind = 0};
    assert_true(ledger_follower_fill_request(&scene.follower, 1, &frame));
    ledger_follower_record_request(&scene.follower, 1);
    return frame;
}

static void assert_requests(enum wire_kind kind, uint64_t offset) {
    scene.follower.requested_ns = 0; /* the delay after an invalid answer is over */
    const struct frame frame = next_request();
    assert_int_equal(frame.kind, kind);
    assert_int_equal(frame.offset, offset);
}

static void offer(size_t count) {
    static uint8_t payload[WIRE_DOCUMENT_OFFSET + sizeof scene.state_bytes];
    memcpy(payload + WIRE_DOCUMENT_OFFSET, scene.state_bytes, count);
    const size_t bytes = wire_write_document(WIRE_CHECKPOINT, count, payload);
    ledger_follower_on_checkpoint(&scene.follower, payload + WIRE_LENGTH_BYTES,
                                  bytes - WIRE_LENGTH_BYTES);
}

/* A joiner with an empty copy has asked the tracker for a checkpoint. */
static void begin_joiner(void) {
    struct fault fault;
    scene_begin();
    scene.options.append_ledger_entry = keep_entry;
    assert_int_equal(scene_restore(0, &fault), OK);
    assert_requests(WIRE_CHECKPOINT_REQUEST, 0);
}

static void a_joiner_begins_at_the_checkpoint(void **state) {
    (void)state;
    begin_joiner();
    offer(scene.state_count);
    assert_requests(WIRE_LEDGER_REQUEST, CHECKPOINT_AT);
    assert_false(ledger_follower_is_synced(&scene.follower));
    assert_int_equal(scene.kept, 0); /* nothing of it is kept before its commit is verified */
    scene_answer_of(CHECKPOINT_AT, ENTRIES, ENTRIES);
    assert_true(ledger_follower_is_synced(&scene.follower));
    assert_false(scene.follower.needs_entries);
    assert_int_equal(scene.follower.chain.entry_count, ENTRIES);
    assert_int_equal(scene.follower.chain.start.votes, entry_quorum(MEMBERS));
    assert_int_equal(scene.kept, ENTRIES - CHECKPOINT_AT);
    assert_int_equal(scene.kept_checkpoints, 1);
    assert_string_equal(scene.reason.text, "");
    offer(scene.state_count); /* late */
    assert_int_equal(scene.follower.chain.entry_count, ENTRIES);
    ledger_follower_on_connect(&scene.follower);
    assert_requests(WIRE_LEDGER_REQUEST, ENTRIES - 1);
}

static void the_commit_of_a_checkpoint_may_arrive_first(void **state) {
    (void)state;
    static struct entry_fixture fixture;
    static struct entry_slice slices[SLICES];
    static struct entry commit;
    begin_joiner();
    offer(scene.state_count);
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    for (uint32_t i = 0; i <= CHECKPOINT_AT; i++) {
        scene_make_entry(&fixture, i, &commit);
    }
    struct message message = {.kind = MESSAGE_ENTRY, .entry = &commit};
    assert_true(ledger_follower_accept_entry(&scene.follower, &message));
    assert_true(hash_equal(&message.root, &scene.state.root));
    assert_int_equal(scene.kept_checkpoints, 1);
}

/* Nothing remains of a checkpoint that was not confirmed, and the joiner reads the whole ledger. */
static void assert_reads_all(void) {
    assert_int_equal(scene.kept, 0);
    assert_int_equal(scene.follower.chain.entry_count, 0);
    assert_requests(WIRE_LEDGER_REQUEST, 0);
    scene_answer_of(0, ENTRIES, ENTRIES);
    assert_true(ledger_follower_is_synced(&scene.follower));
    assert_int_equal(scene.follower.chain.entry_count, ENTRIES);
    assert_int_equal(scene.kept, ENTRIES);
    assert_int_equal(scene.kept_checkpoints, 0);
    assert_int_equal(scene.follower.chain.start.entry_count, 0);
    assert_string_equal(scene.reason.text, "");
}

static void a_tracker_without_checkpoint_sends_all(void **state) {
    (void)state;
    begin_joiner();
    offer(0);
    assert_reads_all();
}

static void an_invalid_checkpoint_is_not_used(void **state) {
    (void)state;
    begin_joiner();
    for (size_t i = 0; i < scene.state_count; i += 3) {
        begin_joiner();
        scene.state_bytes[i] ^= 0x20;
        offer(scene.state_count);
        if (scene.follower.chain.entry_count > 0) {
            const uint64_t at = scene.follower.chain.entry_count;
            if (at == CHECKPOINT_AT) {
                scene_answer_of(CHECKPOINT_AT, ENTRIES, ENTRIES);
            } else { /* the tracker's ledger ends before */
                scene.follower.requested_ns = 1;
                uint8_t payload[WIRE_LEDGER_FIELDS_BYTES];
                const struct wire_ledger_page page = {.first = at, .entry_count = ENTRIES};
                const size_t count = wire_write_ledger_page(&page, payload);
                (void)ledger_follower_on_page(&scene.follower, payload + WIRE_LENGTH_BYTES,
                                              count - WIRE_LENGTH_BYTES);
            }
        }
        assert_reads_all();
    }
    for (int longer = 0; longer <= 1; longer++) {
        begin_joiner();
        offer(scene.state_count - 1 + 2U * (size_t)longer);
        assert_reads_all();
    }
}

static void a_checkpoint_needs_its_commit(void **state) {
    (void)state;
    begin_joiner();
    offer(scene.state_count);
    scene_answer_of(CHECKPOINT_AT, CHECKPOINT_AT, CHECKPOINT_AT); /* the tracker has none */
    assert_reads_all();
    begin_joiner();
    offer(scene.state_count);
    scene_answer_with_record(CHECKPOINT_AT, CHECKPOINT_AT + 1);
    assert_reads_all();
    begin_joiner();
    offer(scene.state_count);
    ledger_follower_on_connect(&scene.follower); /* maybe to another tracker */
    assert_int_equal(scene.follower.chain.entry_count, 0);
    assert_requests(WIRE_CHECKPOINT_REQUEST, 0);
}

/* Entries that do not follow are rejected like those of a whole ledger; what is verified stays. */
static void entries_after_a_checkpoint_must_follow(void **state) {
    (void)state;
    begin_joiner();
    offer(scene.state_count);
    scene_answer_of(CHECKPOINT_AT, CHECKPOINT_AT + 1, ENTRIES);
    assert_int_equal(scene.follower.chain.entry_count, CHECKPOINT_AT + 1);
    scene_answer_with_record(CHECKPOINT_AT + 1, EARLY);
    assert_true(scene.follower.is_rejected);
    assert_non_null(strstr(scene.reason.text, "rejected the tracker's ledger: entry 5 "));
    assert_int_equal(scene.follower.chain.entry_count, CHECKPOINT_AT + 1);
    scene_answer(CHECKPOINT_AT + 1, ENTRIES);
    assert_int_equal(scene.follower.chain.entry_count, ENTRIES);
    assert_string_equal(scene.reason.text, "");
}

/* A member whose copy has the checkpoint and its commit. */
static enum status restore_checkpoint(struct fault *fault) {
    scene.options.checkpoint = &scene.state;
    scene.options.read_ledger_entry = scene_give_past;
    scene.past_count = CHECKPOINT_AT + 1;
    entry_fixture_init(&scene.past, MEMBERS, scene.past_slices, SLICES);
    for (scene.given = 0; scene.given < CHECKPOINT_AT; scene.given++) {
        scene_make_entry(&scene.past, scene.given, &scene.past_entry);
    }
    return ledger_follower_restore(&scene.follower, fault);
}

static void a_copy_that_begins_with_a_checkpoint_is_resumed(void **state) {
    (void)state;
    struct fault fault;
    scene_begin();
    assert_int_equal(restore_checkpoint(&fault), OK);
    ledger_follower_on_connect(&scene.follower);
    assert_requests(WIRE_LEDGER_REQUEST, CHECKPOINT_AT);
    scene_answer(CHECKPOINT_AT, ENTRIES);
    assert_true(ledger_follower_is_synced(&scene.follower));
    assert_int_equal(scene.follower.chain.start.entry_count, CHECKPOINT_AT);
}

static void a_changed_checkpoint_of_the_copy_is_reported(void **state) {
    (void)state;
    struct fault fault;
    for (int i = 0; i < 2; i++) {
        scene_begin();
        scene.state.swarm.bytes[0] ^= i == 0;
        scene.state.commits ^= i == 1;
        assert_int_equal(restore_checkpoint(&fault), STATUS_INPUT);
        assert_string_equal(fault.subject, "line 5");
        assert_true(fault.remedy[0] != '\0');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_joiner_begins_at_the_checkpoint),
        cmocka_unit_test(the_commit_of_a_checkpoint_may_arrive_first),
        cmocka_unit_test(a_tracker_without_checkpoint_sends_all),
        cmocka_unit_test(an_invalid_checkpoint_is_not_used),
        cmocka_unit_test(a_checkpoint_needs_its_commit),
        cmocka_unit_test(entries_after_a_checkpoint_must_follow),
        cmocka_unit_test(a_copy_that_begins_with_a_checkpoint_is_resumed),
        cmocka_unit_test(a_changed_checkpoint_of_the_copy_is_reported),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scene_end();
    return failed;
}
