/* test_ledger_documents: documents of the operator in the ledger: which tracker's signature is
 * valid, and which members may have a seat. */
#include "entry_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 4, SLICES = 2 };

static struct entry_fixture fixture;
static struct entry_slice slices[SLICES];
static struct entry entry;
static struct ledger_chain chain;
static struct key_pairs other;
static uint32_t next_index;

/* A chain with a genesis, and its OPEN in `entry`. */
static int begin(void **state) {
    (void)state;
    uint8_t secrets[2 * KEY_BYTES];
    memset(secrets, 99, sizeof secrets);
    keys_from_secrets(secrets, &other);
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    memset(&chain, 0, sizeof chain);
    ledger_set_operator_key(&chain, fixture.operator_keys.public_keys.sign);
    entry_fixture_next(&fixture, 0, &entry);
    assert_null(ledger_append(&chain, &entry));
    entry_fixture_enroll(&fixture, 1, MEMBERS, false);
    entry_fixture_next(&fixture, 1, &entry);
    next_index = 2;
    return 0;
}

static const char *append_signed(void) {
    entry_fixture_sign(&fixture, &entry);
    const char *error = ledger_append(&chain, &entry);
    fixture.head = entry.hash;
    if (error == NULL) {
        fixture.chain = chain;
    }
    return error;
}

static void assert_refused(const char *error, const char *word) {
    assert_non_null(error);
    if (strstr(error, word) == NULL) {
        fail_msg("%s: no %s", error, word);
    }
}

static int compare_keys(const void *a, const void *b) {
    return memcmp(a, b, KEY_BYTES);
}

/* A roster epoch of the members from `first` on. */
static void add_roster(uint64_t serial, uint32_t first, bool is_open) {
    const struct hash swarm = hash_of("manifest", 8);
    struct roster_epoch *roster = &entry.documents.roster;
    memset(roster, 0, sizeof *roster);
    roster->serial = serial;
    roster->is_open = is_open;
    for (uint32_t i = first; i < MEMBERS; i++) {
        memcpy(roster->members[roster->count++], fixture.members[i].public_keys.sign, KEY_BYTES);
    }
    qsort(roster->members, roster->count, sizeof roster->members[0], compare_keys);
    if (roster_epoch_error(roster) == NULL) {
        roster_epoch_sign(&fixture.operator_keys, &swarm, roster);
    }
}

static void the_keys_of_the_last_delegation_sign(void **state) {
    (void)state;
    const struct key_pairs old = fixture.tracker;
    entry_fixture_delegate(&fixture, &other, 2, &entry);
    fixture.tracker = old;
    assert_refused(append_signed(), "does not have a valid signature of");
    fixture.tracker = other;
    assert_null(append_signed());
    assert_memory_equal(chain.tracker_key, other.public_keys.sign, KEY_BYTES);
    entry_fixture_next(&fixture, next_index, &entry); /* a commit */
    assert_null(ledger_append(&chain, &entry));
    entry_fixture_next(&fixture, next_index + 1, &entry);
    fixture.tracker = old;
    assert_refused(append_signed(), "does not have a valid signature of");
    fixture.tracker = other;
    assert_null(append_signed());
}

static void a_delegation_is_newer_and_the_operators(void **state) {
    (void)state;
    for (uint64_t serial = 0; serial <= 1; serial++) {
        entry_fixture_delegate(&fixture, &other, 1, &entry);
        entry.documents.delegation.serial = serial;
        assert_refused(append_signed(), serial == 0 ? "without a serial" : "not newer");
    }
    entry_fixture_delegate(&fixture, &other, 2, &entry);
    entry.documents.delegation.expires_s = 7;
    assert_refused(append_signed(), "operator did not sign");
    const struct key_pairs operator_keys = fixture.operator_keys;
    fixture.operator_keys = other; /* a tracker that signs its own delegation */
    entry_fixture_delegate(&fixture, &other, 2, &entry);
    assert_refused(append_signed(), "operator did not sign");
    fixture.operator_keys = operator_keys;
    entry_fixture_delegate(&fixture, &other, 2, &entry);
    assert_null(append_signed());
}

/* Else a tracker alone would choose the first members. */
static void the_first_round_has_a_roster_epoch(void **state) {
    (void)state;
    static struct roster_epoch roster;
    roster = entry.documents.roster;
    memset(&entry.documents.roster, 0, sizeof entry.documents.roster);
    assert_refused(append_signed(), "has not signed a roster epoch");
    chain.has_operator = false; /* without the operator's key, its documents are not verified */
    static struct ledger_chain before;
    before = chain;
    assert_null(append_signed());
    chain = before;
    chain.has_operator = true;
    entry.documents.roster = roster;
    assert_null(append_signed());
}

static void a_genesis_without_delegation_has_no_tracker(void **state) {
    (void)state;
    memset(&chain, 0, sizeof chain);
    ledger_set_operator_key(&chain, fixture.operator_keys.public_keys.sign);
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    entry_fixture_next(&fixture, 0, &entry);
    memset(&entry.documents, 0, sizeof entry.documents);
    assert_refused(append_signed(), "is a genesis, but has no delegation");
}

static void a_seat_needs_a_name_in_the_last_roster(void **state) {
    (void)state;
    add_roster(5, 0, false);
    assert_null(append_signed());
    entry_fixture_next(&fixture, next_index, &entry);
    assert_null(ledger_append(&chain, &entry));
    entry_fixture_next(&fixture, next_index + 1, &entry);
    entry.seats[1].id.bytes[0] ^= 1; /* a member that the tracker invents */
    assert_refused(append_signed(), "roster epoch does not list");
    entry.seats[1].id.bytes[0] ^= 1;
    add_roster(5, 0, false);
    assert_refused(append_signed(), "not newer");
    add_roster(6, 1, false); /* the first member is no longer named, but has a seat */
    assert_refused(append_signed(), "roster epoch does not list");
    memset(&entry.documents, 0, sizeof entry.documents);
    assert_null(append_signed());
}

static void a_roster_is_the_operators_and_in_order(void **state) {
    (void)state;
    add_roster(5, 0, false);
    entry.documents.roster.signature[7] ^= 1;
    assert_refused(append_signed(), "operator did not sign");
    add_roster(5, 0, false);
    entry.documents.roster.members[0][31] ^= 1;
    assert_refused(append_signed(), "operator did not sign");
    add_roster(5, 2, true);
    assert_refused(append_signed(), "fewer than three");
    add_roster(5, 0, true);
    assert_null(append_signed());
}

/* An open swarm names all members but the first. */
static void open_with_guest(void) {
    add_roster(5, 1, true);
    entry.seats[0].is_guest = 1;
    assert_int_equal(entry_voting_seats(&entry), 0xe);
    assert_int_equal(entry_votes_needed(&entry), 2);
    assert_null(append_signed());
}

static void a_member_without_a_name_is_a_guest(void **state) {
    (void)state;
    add_roster(5, 1, true);
    assert_refused(append_signed(), "gives a vote to a member that the");
    entry.seats[0].is_guest = entry.seats[2].is_guest = 1;
    assert_refused(append_signed(), "gives no vote to a member that the");
    entry.seats[2].is_guest = 2;
    assert_refused(append_signed(), "has a seat with a role other than");
    entry.seats[1].is_guest = entry.seats[2].is_guest = entry.seats[3].is_guest = 1;
    assert_refused(append_signed(), "has a roster that consists of guests");
    add_roster(5, 0, true);
    entry.seats[1].is_guest = entry.seats[2].is_guest = entry.seats[3].is_guest = 0;
    assert_refused(append_signed(), "gives no vote to a member that the");
    open_with_guest();
}

static void a_guest_neither_owns_nor_votes(void **state) {
    (void)state;
    open_with_guest();
    entry_fixture_next(&fixture, next_index, &entry); /* a commit */
    const struct hash chain_before = ledger_chain_hash(&chain);
    entry.chain = chain_before;
    entry.prev = chain.head;
    assert_refused(append_signed(), "differs from that of its round's OPEN");
    entry.seats[0].is_guest = 1;
    assert_refused(append_signed(), "guest that owned slices");
    for (uint32_t i = 0; i < SLICES; i++) {
        entry.slices[i].owner = 1 + i;
    }
    entry_derive_fields_from_rows(&entry);
    entry.signatures[0].seat = 0;
    entry_fixture_sign(&fixture, &entry);
    entry.signatures[0].seat = 0; /* in place of a voter */
    ledger_sign(&fixture.members[0], &entry.hash, &entry.signatures[0].signature);
    assert_refused(ledger_append(&chain, &entry), "vote of a guest");
    entry_fixture_sign(&fixture, &entry);
    entry.signature_count = 1;
    assert_refused(ledger_append(&chain, &entry), "fewer signatures than a quorum");
    assert_null(append_signed());
}

static void guests_store_no_states(void **state) {
    (void)state;
    open_with_guest();
    for (uint32_t round = 0; round < 64; round++) {
        entry.kind = ENTRY_COMMIT;
        entry.hash = hash_of(&round, sizeof round);
        assert_int_equal(state_storing_seats(&entry), 0xe);
    }
}

static void a_commit_has_no_documents(void **state) {
    (void)state;
    assert_null(append_signed());
    entry_fixture_next(&fixture, next_index, &entry);
    entry_fixture_delegate(&fixture, &other, 2, &entry);
    assert_refused(append_signed(), "is a commit");
    memset(&entry.documents, 0, sizeof entry.documents);
    add_roster(5, 0, false);
    assert_refused(append_signed(), "does not open a round");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_keys_of_the_last_delegation_sign, begin),
        cmocka_unit_test_setup(a_delegation_is_newer_and_the_operators, begin),
        cmocka_unit_test_setup(the_first_round_has_a_roster_epoch, begin),
        cmocka_unit_test_setup(a_genesis_without_delegation_has_no_tracker, begin),
        cmocka_unit_test_setup(a_seat_needs_a_name_in_the_last_roster, begin),
        cmocka_unit_test_setup(a_roster_is_the_operators_and_in_order, begin),
        cmocka_unit_test_setup(a_member_without_a_name_is_a_guest, begin),
        cmocka_unit_test_setup(a_guest_neither_owns_nor_votes, begin),
        cmocka_unit_test_setup(guests_store_no_states, begin),
        cmocka_unit_test_setup(a_commit_has_no_documents, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
