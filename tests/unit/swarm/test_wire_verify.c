/* test_wire_verify: a message that carries signatures passes as it was signed, and not with any
 * signed field changed, in another swarm, by another member, or beside other bytes. */
#include "runtime/swarm/ledger/entry.h"
#include "wire_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 3, SLICES = 4, BYTES = 8192, MEMORY = 65536 };

static struct wire_fixture fixture;
static struct wire_arrays arrays;
static struct message message;
static _Alignas(64) uint8_t memory[MEMORY];
static uint8_t bytes[BYTES];
static const uint8_t *bulk;
static size_t bulk_bytes, count;

static int use(void **state) {
    (void)state;
    wire_fixture_init(&fixture, MEMBERS, SLICES);
    assert_true(wire_arrays_size(&fixture.shape) <= MEMORY);
    wire_arrays_carve(&fixture.shape, memory, &arrays);
    return 0;
}

static const char *read_back(void) {
    uint64_t known[4] = {UINT64_MAX};
    struct frame frame;
    if (frame_read(bytes, count, known, &frame) != FRAME_OK) {
        return "is no frame";
    }
    const char *wrong =
        wire_read_message(&fixture.shape, &frame, bytes + FRAME_HEADER_BYTES,
                          count - FRAME_HEADER_BYTES, &arrays, &message, &bulk, &bulk_bytes);
    message.from = fixture.message.from;
    return wrong;
}

static void make(enum message_kind kind, enum wire_fill fill, uint64_t key) {
    wire_fixture_make(&fixture, kind, fill, key);
    count = wire_fixture_write(&fixture, &fixture.message, fixture.bulk, fixture.bulk_bytes, bytes,
                               sizeof bytes);
    assert_null(read_back());
}

static bool verified(void) {
    return wire_verify_message(&fixture.shape, fixture.swarm.tracker.public_keys.sign,
                               &fixture.open, &message, bulk, bulk_bytes);
}

/* Not verified while any bit of the field is another one. */
static void assert_covers(void *field, size_t field_bytes) {
    uint8_t *byte = field;
    for (size_t bit = 0; bit < 8 * field_bytes; bit++) {
        byte[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(verified());
        byte[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(verified());
}

static void every_kind_is_verified_as_it_was_said(void **state) {
    (void)state;
    for (uint32_t turn = 0; turn < MESSAGE_KINDS * WIRE_FILLS * 5; turn++) {
        uint32_t kind = turn % MESSAGE_KINDS;
        make(kind, turn / MESSAGE_KINDS % WIRE_FILLS, turn);
        assert_true(verified());
    }
}

static void a_declaration_is_its_members_whole(void **state) {
    (void)state;
    make(MESSAGE_DECLARE, WIRE_SOME, 1);
    assert_covers(&message.hash, sizeof message.hash);
    assert_covers(&message.round, sizeof message.round);
    assert_covers(&message.trained.tokens, sizeof message.trained.tokens);
    assert_covers(&message.trained.samples, sizeof message.trained.samples);
    assert_covers(&message.root, sizeof message.root);
    assert_covers(&message.from, sizeof message.from);
    assert_covers(&message.signature, sizeof message.signature);
    assert_covers(&fixture.shape.swarm, sizeof fixture.shape.swarm);
}

static void a_result_is_its_owners_whole(void **state) {
    (void)state;
    make(MESSAGE_RESULT, WIRE_SOME, 2);
    assert_covers(&message.round, sizeof message.round);
    assert_covers(&message.slice, sizeof message.slice);
    assert_covers(&message.epoch, sizeof message.epoch);
    assert_covers(&message.contributors, sizeof message.contributors);
    assert_covers(&message.hash, sizeof message.hash);
    assert_covers(&message.owner, sizeof message.owner);
    assert_covers(&message.signature, sizeof message.signature);
    assert_covers(&fixture.shape.swarm, sizeof fixture.shape.swarm);
    assert_covers(bytes + count - bulk_bytes, bulk_bytes);
    bulk_bytes--;
    assert_false(verified());
    bulk_bytes++;
    memset(&message.from, 0, sizeof message.from); /* whoever passes it on */
    assert_true(verified());
}

/* Makes a vote for a proposal, or an accusation. */
static void make_vote(bool is_accusation) {
    uint64_t key = 3;
    do {
        make(MESSAGE_VOTE, WIRE_SOME, key++);
    } while (hash_is_zero(&message.root) != is_accusation);
}

static void a_vote_is_its_senders_over_the_entry(void **state) {
    (void)state;
    make_vote(false);
    assert_covers(&message.hash, sizeof message.hash);
    assert_covers(&message.from, sizeof message.from);
    assert_covers(&message.signature, sizeof message.signature);
}

static void an_accusation_repeats_a_statement_that_its_owner_signed(void **state) {
    (void)state;
    make_vote(true);
    assert_true(verified());
    assert_covers(&message.hash, sizeof message.hash);
    assert_covers(&message.owner, sizeof message.owner);
    assert_covers(&message.contributors, sizeof message.contributors);
    assert_covers(&message.slice, 1);
    assert_covers(&message.signature, sizeof message.signature);
    message.ballot.refusal.reason =
        REFUSAL_SKETCH; /* a signature of a result is none of sketches */
    assert_false(verified());
    message.ballot.refusal.reason = REFUSAL_WITHHELD;
    assert_true(verified());
    assert_covers(&message.hash, sizeof message.hash);
    assert_covers(&message.signature, sizeof message.signature);
    message.ballot.refusal.reason = REFUSAL_UNPROVEN;
    assert_true(verified());
}

static void sketches_are_their_senders(void **state) {
    (void)state;
    make(MESSAGE_SKETCHES, WIRE_SOME, 2);
    message.slice = 0;
    assert_true(verified());
    assert_covers(&message.from, sizeof message.from);
    assert_covers(&message.ballot.seed, sizeof message.ballot.seed);
    assert_covers(&message.round, 1);
    assert_covers(bytes + count - bulk_bytes, bulk_bytes);
}

/* One purpose's signature proves nothing for another, whatever the fields. */
static void purposes_are_apart(void **state) {
    (void)state;
    make_vote(false);
    const struct key_pairs *keys = NULL;
    for (uint32_t seat = 0; seat < MEMBERS; seat++) {
        const struct key_pairs *one = &fixture.swarm.members[seat];
        bool own = memcmp(one->public_keys.sign, message.from.bytes, KEY_BYTES) == 0;
        keys = own ? one : keys;
    }
    static const char *const CONTEXTS[] = {"skep declaration", "skep result", "skep introduction",
                                           "skep ledger entry"};
    for (size_t i = 0; i < ARRAY_COUNT(CONTEXTS); i++) {
        keys_sign(keys, CONTEXTS[i], message.hash.bytes, HASH_BYTES, message.signature.bytes);
        assert_int_equal(verified(), i == 3);
    }
}

static void a_contribution_is_named_by_its_bytes(void **state) {
    (void)state;
    make(MESSAGE_CONTRIBUTION, WIRE_SOME, 5);
    assert_true(verified());
    assert_true(hash_equal(&message.hash, &fixture.message.hash));
    bytes[count - 1] ^= 1;
    assert_true(verified());
    assert_false(hash_equal(&message.hash, &fixture.message.hash));
}

/* Every bit of the record except the header of the map. The base of a commit, which follows, is not
 * signed. */
static void an_entry_is_signed_whole(void **state) {
    (void)state;
    static const char BASE[] = "base";
    for (uint64_t key = 0; key < 8; key++) {
        make(MESSAGE_ENTRY, WIRE_SOME, key);
        assert_true(verified());
        const size_t base_bytes = sizeof BASE + 2 + HASH_BYTES;
        const size_t end = count - (message.entry->kind == ENTRY_COMMIT ? base_bytes : 0);
        const size_t record = end - (entry_record_bytes(message.entry, ENTRY_WITH_SLICES) - 1);
        assert_memory_equal(bytes + record + 1, "entry", 5);
        for (size_t bit = 8 * record; bit < 8 * end; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(read_back() == NULL && verified());
            bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

static void a_commit_needs_a_quorum_and_others_the_tracker(void **state) {
    (void)state;
    make(MESSAGE_ENTRY, WIRE_FULL, 1);
    struct entry *entry = &arrays.entry;
    assert_int_equal(entry->kind, ENTRY_COMMIT);
    assert_int_equal(entry->signature_count, 2);
    entry->signature_count = 1;
    assert_false(verified());
    entry->signature_count = 2;
    struct entry_signature second = entry->signatures[1];
    entry->signatures[1].signature = entry->signatures[0].signature;
    assert_false(verified());
    entry->signatures[1] = second;
    assert_true(verified());
    make(MESSAGE_ENTRY, WIRE_EMPTY, 1);
    assert_true(verified());
    assert_false(wire_verify_message(&fixture.shape, fixture.swarm.members[0].public_keys.sign,
                                     &fixture.open, &message, bulk, bulk_bytes));
    entry->signature_count = 0;
    assert_false(verified());
}

static void a_table_is_every_declared_seats(void **state) {
    (void)state;
    make(MESSAGE_TABLE, WIRE_FULL, 6);
    struct round_table *table = &arrays.table;
    for (uint32_t seat = 0; seat < MEMBERS; seat++) {
        assert_covers(&table->members[seat].tokens, sizeof table->members[seat].tokens);
        assert_covers(&table->signatures[seat], sizeof table->signatures[seat]);
        assert_covers(&fixture.open.seats[seat].id, sizeof fixture.open.seats[seat].id);
    }
    assert_covers(&fixture.open.hash, sizeof fixture.open.hash);
    assert_covers(table->roots, MEMBERS * sizeof *table->roots);
    assert_covers(&table->round, sizeof table->round);
    assert_covers(&fixture.shape.swarm, sizeof fixture.shape.swarm);
    struct entry_seat first = fixture.open.seats[0];
    fixture.open.seats[0] = fixture.open.seats[1];
    fixture.open.seats[1] = first;
    assert_false(verified());
    fixture.open.seats[1] = fixture.open.seats[0];
    fixture.open.seats[0] = first;
    assert_true(verified());
}

static void a_table_names_seats_of_its_open_only(void **state) {
    (void)state;
    make(MESSAGE_TABLE, WIRE_FULL, 7);
    struct round_table *table = &arrays.table;
    struct slice_plan plan = table->slices[SLICES - 1];
    assert_false(wire_verify_message(&fixture.shape, fixture.swarm.tracker.public_keys.sign, NULL,
                                     &message, NULL, 0));
    table->slices[SLICES - 1].owner = MEMBERS;
    assert_false(verified());
    table->slices[SLICES - 1] = plan;
    table->slices[SLICES - 1].expected_seats |= 8;
    assert_false(verified());
    table->slices[SLICES - 1] = plan;
    assert_true(verified());
    table->declared_seats |= 8;
    assert_false(verified());
    table->declared_seats ^= 8 | 4; /* one seat fewer: what was expected of it is not declared */
    assert_int_equal(verified(), (plan.expected_seats & 4) == 0);
    fixture.open.kind = ENTRY_ABORT;
    assert_false(verified());
    fixture.open.kind = ENTRY_OPEN;
    make(MESSAGE_TABLE, WIRE_EMPTY, 7); /* of nobody's declarations: no signature is looked at */
    assert_true(verified());
    table->round++;
    assert_false(verified());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_verified_as_it_was_said),
        cmocka_unit_test(a_declaration_is_its_members_whole),
        cmocka_unit_test(a_result_is_its_owners_whole),
        cmocka_unit_test(a_vote_is_its_senders_over_the_entry),
        cmocka_unit_test(an_accusation_repeats_a_statement_that_its_owner_signed),
        cmocka_unit_test(sketches_are_their_senders),
        cmocka_unit_test(purposes_are_apart),
        cmocka_unit_test(a_contribution_is_named_by_its_bytes),
        cmocka_unit_test(an_entry_is_signed_whole),
        cmocka_unit_test(a_commit_needs_a_quorum_and_others_the_tracker),
        cmocka_unit_test(a_table_is_every_declared_seats),
        cmocka_unit_test(a_table_names_seats_of_its_open_only),
    };
    return cmocka_run_group_tests(tests, use, NULL);
}
