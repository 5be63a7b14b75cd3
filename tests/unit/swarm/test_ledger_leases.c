/* test_ledger_leases: a chain whose genesis needs leases takes an OPEN only with seats of more than
 * half of its electors or an order of the operator, and a COMMIT only with their votes. */
#include "entry_fixture.h"
#include "runtime/swarm/ledger/ledger_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 5, SLICES = 2, ALL = 31, START = 77, LINE_BYTES = 1 << 16 };

static struct entry_fixture fixture;
static struct entry_slice slices[SLICES], read_slices[SLICES];
static struct entry entry, read;
static struct ledger_chain chain, before;

static void append(void) {
    const char *error = ledger_append(&chain, &entry);
    if (error != NULL) {
        fail_msg("the entry %s", error);
    }
}

/* A chain with one commit, of MEMBERS members: the electors of what follows. */
static void begin(void) {
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    fixture.start = START;
    memset(&chain, 0, sizeof chain);
    ledger_set_operator_key(&chain, fixture.operator_keys.public_keys.sign);
    entry_fixture_enroll(&fixture, 1, MEMBERS, false);
    for (uint32_t i = 0; i < 3; i++) {
        entry_fixture_next(&fixture, i, &entry);
        append();
    }
    assert_int_equal(chain.electors.count, MEMBERS);
    assert_int_equal(chain.electors.round, 1);
    before = chain;
    entry_fixture_next(&fixture, 3, &entry);
}

/* Signs the changed entry, and tries to append it to the chain with one commit. */
static const char *result(void) {
    entry_fixture_sign(&fixture, &entry);
    chain = before;
    const char *error = ledger_append(&chain, &entry);
    if (error != NULL) {
        assert_memory_equal(&chain, &before, sizeof chain);
    }
    return error;
}

static void assert_refused(const char *word) {
    const char *error = result();
    assert_non_null(error);
    if (strstr(error, word) == NULL) {
        fail_msg("\"%s\" does not contain \"%s\"", error, word);
    }
}

/* Seats the last members only. */
static void drop_first_seats(uint32_t count) {
    entry.seat_count -= count;
    memmove(entry.seats, entry.seats + count, entry.seat_count * sizeof entry.seats[0]);
    memset(entry.seats + entry.seat_count, 0, count * sizeof entry.seats[0]);
}

static void open_needs_seats_of_more_than_half_of_the_electors(void **state) {
    (void)state;
    const struct {
        uint32_t absent; /* the first ones have no seat */
        uint64_t resigned;
        bool is_valid;
    } cases[] = {{0, 0, true},  {2, 0, true},   {3, 0, false}, {3, 1, false},
                 {3, 3, true},  {4, 15, true},  {4, 7, false}, {3, 24, false},
                 {0, 30, true}, {0, 31, false}, {1, 30, false}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        begin();
        drop_first_seats(cases[i].absent);
        entry.cursor.position -= UINT64_C(16) * cases[i].absent;
        for (uint32_t seat = 0; seat < entry.seat_count; seat++) {
            for (uint32_t range = 0; range < entry.seats[seat].range_count; range++) {
                entry.seats[seat].ranges[range].begin -= UINT64_C(16) * cases[i].absent;
                entry.seats[seat].ranges[range].end -= UINT64_C(16) * cases[i].absent;
            }
        }
        entry_fixture_lease(&fixture, cases[i].resigned, &entry);
        if (cases[i].is_valid) {
            assert_null(result());
        } else {
            assert_refused("more than half");
        }
    }
}

/* Only a member that the roster names and that has resigned has a seat without a vote. */
static void seat_without_a_vote_is_for_an_elector_that_has_resigned(void **state) {
    (void)state;
    for (uint32_t seat = 0; seat < MEMBERS; seat++) {
        begin();
        entry.seats[seat].is_guest = 1;
        entry_fixture_lease(&fixture, 1 << 2, &entry);
        if (seat == 2) {
            assert_null(result());
            assert_int_equal(chain.needed.count, MEMBERS - 1);
            assert_int_equal(chain.needed.seats, ALL & ~(1 << 2));
        } else {
            assert_refused("gives no vote to a member");
        }
    }
}

/* Two halves cannot both have the first one. */
static void half_of_the_electors_is_enough_with_the_first_one(void **state) {
    (void)state;
    const struct {
        uint64_t resigned; /* of the electors 0 to 4; 0 and 1 have seats */
        bool is_valid;
    } cases[] = {{16, true}, {4, true}, {17, false}, {25, true}, {24, true}, {0, false}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        begin();
        entry.seat_count = 2;
        entry.cursor.position -= UINT64_C(3) * 16;
        entry_fixture_lease(&fixture, cases[i].resigned, &entry);
        if (cases[i].is_valid) {
            assert_null(result());
        } else {
            assert_refused("a half that includes the first elector");
        }
    }
}

/* A copy may have the votes of those that it excludes from before. */
static void elector_that_the_operator_excludes_is_missing(void **state) {
    (void)state;
    for (uint32_t stay = 2; stay <= 3; stay++) {
        begin();
        entry_fixture_enroll(&fixture, 9, stay, false);
        entry.documents.roster = fixture.next_roster;
        entry.seat_count = stay;
        entry.cursor.position -= UINT64_C(16) * (MEMBERS - stay);
        if (stay == 3) {
            assert_null(result());
            assert_int_equal(chain.needed.count, MEMBERS);
        } else {
            assert_refused("more than half");
        }
    }
}

static void resignation_is_signed_by_its_elector_for_this_state(void **state) {
    (void)state;
    begin();
    entry_fixture_lease(&fixture, 4, &entry);
    assert_null(result());
    entry.leases.signatures[2].bytes[5] ^= 1;
    assert_refused("did not sign");
    entry_fixture_lease(&fixture, 12, &entry);
    entry.leases.signatures[2] = entry.leases.signatures[3];
    assert_refused("did not sign");
    entry_fixture_lease(&fixture, 0, &entry);
    entry.leases.state.bytes[0] ^= 1;
    assert_refused("has leases for a state other than the");
    entry_fixture_lease(&fixture, 0, &entry);
    entry.leases.signatures[1].bytes[0] = 1;
    assert_refused("has not resigned");
    entry_fixture_lease(&fixture, 0, &entry);
    entry.leases.resigned = UINT64_C(1) << MEMBERS;
    assert_refused("has the resignation of a member that");
}

static void chain_has_leases_exactly_if_its_genesis_needs_them(void **state) {
    (void)state;
    begin();
    memset(&entry.leases, 0, sizeof entry.leases);
    assert_refused("lacks the number of the tracker");
    begin();
    before.needs_leases = 0;
    assert_refused("has a number of the tracker's start, although");
}

/* Leaves the fixture after an OPEN with these leases, and makes the COMMIT with these voters. */
static void make_commit(uint64_t resigned, uint64_t voters) {
    begin();
    entry_fixture_lease(&fixture, resigned, &entry);
    assert_null(result());
    before = chain;
    fixture.chain = chain;
    fixture.head = entry.hash;
    entry_fixture_next(&fixture, 4, &entry);
    entry.signature_count = 0;
    for (uint32_t seat = 0; seat < MEMBERS; seat++) {
        if ((voters >> seat & 1) != 0) {
            struct entry_signature *vote = &entry.signatures[entry.signature_count++];
            vote->seat = seat;
            ledger_sign(&fixture.members[seat], &entry.hash, &vote->signature);
        }
    }
}

static void commit_needs_the_votes_of_more_than_half_of_the_electors(void **state) {
    (void)state;
    make_commit(0, 7);
    assert_null(ledger_append(&chain, &entry));
    make_commit(28, 28); /* a quorum of the roster, but no elector */
    assert_non_null(strstr(ledger_append(&chain, &entry),
                           "has too few votes of the previous state's electors"));
    make_commit(28, 29); /* the first of two electors */
    assert_null(ledger_append(&chain, &entry));
    make_commit(28, 30); /* the second one */
    assert_non_null(strstr(ledger_append(&chain, &entry),
                           "has too few votes of the previous state's electors"));
    make_commit(28, 31);
    assert_null(ledger_append(&chain, &entry));
    assert_int_equal(chain.electors.count, MEMBERS);
    assert_memory_equal(&chain.electors.state, &entry.hash, sizeof entry.hash);
}

static void order_names_the_seats(uint32_t count) {
    const struct hash swarm = hash_of("manifest", 8);
    struct entry_leases *leases = &entry.leases;
    const struct tracker_start start = {entry.incarnation, START};
    entry_fixture_lease(&fixture, 0, &entry);
    leases->order.count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        const uint8_t *key = fixture.members[i].public_keys.sign;
        for (; at > 0 && memcmp(leases->order.members[at - 1], key, KEY_BYTES) > 0; at--) {
            memcpy(leases->order.members[at], leases->order.members[at - 1], KEY_BYTES);
        }
        memcpy(leases->order.members[at], key, KEY_BYTES);
    }
    continue_order_sign(&fixture.operator_keys, &swarm, &leases->state, &start, &leases->order);
}

static void order_of_the_operator_opens_a_round_without_leases(void **state) {
    (void)state;
    begin();
    entry.seat_count = 2;
    entry.cursor.position -= UINT64_C(3) * 16;
    order_names_the_seats(2);
    assert_null(result());
    order_names_the_seats(3);
    assert_null(result());
    assert_int_equal(chain.needed.count, 3);
    order_names_the_seats(4);
    assert_refused("gives seats to at most half of the");
    order_names_the_seats(1);
    assert_refused("not listed in the order");
    order_names_the_seats(2);
    entry.leases.order.signature[0] ^= 1;
    assert_refused("the operator did not sign");
    order_names_the_seats(2);
    entry.incarnation++;
    assert_refused("the operator did not sign");
    order_names_the_seats(2);
    entry.leases.resigned = 1;
    entry.leases.signatures[0].bytes[0] = 1;
    assert_refused("has both resignations of electors and");
}

static void electors_stay_after_an_abort(void **state) {
    (void)state;
    begin();
    assert_null(result());
    const struct electors electors = chain.electors;
    entry.kind = ENTRY_ABORT;
    entry.prev = entry.hash;
    entry.train_ms = 0;
    cursor_return_unused(&entry.cursor, &entry, 0);
    entry_fixture_sign(&fixture, &entry);
    assert_null(ledger_append(&chain, &entry));
    assert_memory_equal(&chain.electors, &electors, sizeof electors);
}

static void leases_are_read_as_they_were_written(void **state) {
    (void)state;
    static uint8_t record[LINE_BYTES];
    static char line[LINE_BYTES];
    for (int with_order = 0; with_order <= 1; with_order++) {
        begin();
        if (with_order == 1) {
            order_names_the_seats(3);
        } else {
            entry_fixture_lease(&fixture, 20, &entry);
        }
        entry_fixture_sign(&fixture, &entry);
        const size_t count = entry_write(&entry, ENTRY_WITH_SLICES, record, sizeof record);
        assert_null(entry_read(record, count, read_slices, SLICES, &read));
        assert_memory_equal(&read.leases, &entry.leases, sizeof read.leases);
        struct text text = text_over(line, sizeof line);
        struct fault fault;
        ledger_line_write(&entry, ENTRY_WITH_SLICES, &text);
        assert_false(text.truncated);
        assert_int_equal(
            ledger_line_read(line, text.length, "a", read_slices, SLICES, &read, &fault), OK);
        assert_memory_equal(&read.leases, &entry.leases, sizeof read.leases);
    }
}

static void state_of_a_chain_has_its_electors(void **state) {
    (void)state;
    static uint8_t bytes[LEDGER_CHAIN_BYTES_MAX];
    static struct ledger_chain again;
    begin();
    assert_null(result());
    memset(&again, 0, sizeof again);
    assert_null(ledger_chain_read(bytes, ledger_chain_write(&chain, bytes), &again));
    assert_memory_equal(&again.electors, &chain.electors, sizeof again.electors);
    assert_int_equal(again.needed.seats, ALL);
    assert_int_equal(again.needed.first_elector, 1);
    assert_int_equal(again.needed.count, MEMBERS);
    assert_int_equal(again.needs_leases, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_needs_seats_of_more_than_half_of_the_electors),
        cmocka_unit_test(seat_without_a_vote_is_for_an_elector_that_has_resigned),
        cmocka_unit_test(half_of_the_electors_is_enough_with_the_first_one),
        cmocka_unit_test(elector_that_the_operator_excludes_is_missing),
        cmocka_unit_test(resignation_is_signed_by_its_elector_for_this_state),
        cmocka_unit_test(chain_has_leases_exactly_if_its_genesis_needs_them),
        cmocka_unit_test(commit_needs_the_votes_of_more_than_half_of_the_electors),
        cmocka_unit_test(order_of_the_operator_opens_a_round_without_leases),
        cmocka_unit_test(electors_stay_after_an_abort),
        cmocka_unit_test(leases_are_read_as_they_were_written),
        cmocka_unit_test(state_of_a_chain_has_its_electors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
