/* test_rollback: the states that a chain can return to, the members that store them, and the
 * operator's order. */
#include "entry_fixture.h"
#include "runtime/swarm/ledger/rollback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 5, SLICES = 2, COMMITS = 40 };

static struct entry_fixture fixture;
static struct entry_slice slices[SLICES];
static struct entry entry;
static struct ledger_chain chain;
static struct key_pairs operator_keys;
static struct entry commits[COMMITS + 1]; /* without their slices; the first is the genesis */
static uint32_t index_of_next;

/* A chain that verifies all signatures and ends with commit `count`. */
static void make_chain(uint32_t count) {
    uint8_t secrets[2 * KEY_BYTES];
    memset(secrets, 77, sizeof secrets);
    keys_from_secrets(secrets, &operator_keys);
    entry_fixture_init(&fixture, MEMBERS, slices, SLICES);
    memset(&chain, 0, sizeof chain);
    fixture.operator_keys = operator_keys;
    ledger_set_operator_key(&chain, operator_keys.public_keys.sign);
    entry_fixture_enroll(&fixture, 1, MEMBERS, false);
    for (index_of_next = 0; index_of_next <= 2 * count; index_of_next++) {
        entry_fixture_next(&fixture, index_of_next, &entry);
        assert_null(ledger_append(&chain, &entry));
        if (entry.kind != ENTRY_OPEN) {
            commits[entry.commits] = entry;
        }
    }
}

/* A ROLLBACK to the state after commit `target`, without an order. */
static void draft_rollback(uint32_t target) {
    entry = commits[chain.commits];
    entry.kind = ENTRY_ROLLBACK;
    entry.prev = chain.head;
    entry.slice_count = 0;
    entry.result_count = 0;
    entry.results = (struct hash){{0}};
    entry.chain = (struct hash){{0}};
    memset(entry.members, 0, sizeof entry.members);
    memset(entry.signatures, 0, sizeof entry.signatures);
    entry.cursor = commits[target].cursor;
    entry.root = commits[target].root;
}

static const char *append_signed(void) {
    entry_fixture_sign(&fixture, &entry);
    return ledger_append(&chain, &entry);
}

static void add_order(uint32_t newest, const struct key_pairs *keys) {
    entry.order =
        rollback_order_sign(keys, &commits[0].manifest, &entry.root, &commits[newest].hash);
}

static void a_chain_accepts_a_rollback_only_to_its_own_states(void **state) {
    (void)state;
    make_chain(6);
    static struct ledger_chain before;
    before = chain;
    draft_rollback(4);
    entry.root.bytes[0] ^= 1;
    assert_non_null(strstr(append_signed(), "not in the history"));
    draft_rollback(4);
    entry.cursor.position--;
    assert_non_null(strstr(append_signed(), "cursor"));
    draft_rollback(4);
    entry.cursor = commits[5].cursor;
    assert_non_null(strstr(append_signed(), "cursor"));
    draft_rollback(6);
    assert_non_null(strstr(append_signed(), "already current"));
    draft_rollback(4);
    entry.round++;
    assert_non_null(append_signed());
    assert_memory_equal(&chain, &before, sizeof chain);
    draft_rollback(4);
    assert_null(append_signed());
    assert_true(hash_equal(&chain.root, &commits[4].root));
    assert_int_equal(chain.commits, 6);
}

static void a_state_that_was_undone_cannot_be_returned_to(void **state) {
    (void)state;
    make_chain(6);
    draft_rollback(4);
    assert_null(append_signed());
    draft_rollback(5);
    assert_non_null(strstr(append_signed(), "not in the history"));
    draft_rollback(0);
    assert_null(append_signed());
    assert_int_equal(chain.history.count, 1);
}

static void an_open_round_is_not_rolled_back(void **state) {
    (void)state;
    make_chain(3);
    struct entry newest = commits[3];
    entry_fixture_next(&fixture, index_of_next, &entry);
    assert_int_equal(entry.kind, ENTRY_OPEN);
    assert_null(ledger_append(&chain, &entry));
    draft_rollback(2);
    entry.round = newest.round + 1;
    assert_non_null(strstr(append_signed(), "end of its round"));
}

static void an_order_is_valid_once_for_one_history_and_one_operator(void **state) {
    (void)state;
    make_chain(9);
    draft_rollback(8);
    add_order(9, &fixture.tracker);
    assert_non_null(strstr(append_signed(), "operator did not sign"));
    draft_rollback(8);
    add_order(9, &operator_keys);
    entry.order.signature.bytes[3] ^= 1;
    assert_non_null(strstr(append_signed(), "operator did not sign"));
    draft_rollback(7); /* an order for another root */
    entry.root = commits[8].root;
    add_order(9, &operator_keys);
    entry.root = commits[7].root;
    assert_non_null(strstr(append_signed(), "operator did not sign"));
    draft_rollback(8);
    add_order(7, &operator_keys);
    assert_non_null(strstr(append_signed(), "different history"));
    draft_rollback(7);
    add_order(9, &operator_keys);
    const struct rollback_order order = entry.order;
    assert_null(append_signed());
    assert_int_equal(chain.history.count, 8);
    /* The order named the state of commit 9, which is undone: it cannot be followed again. */
    draft_rollback(7);
    chain.history.count++; /* as if a further commit had followed */
    chain.history.states[8].entry = commits[1].manifest;
    entry.order = order;
    assert_non_null(strstr(append_signed(), "different history"));
}

static void an_order_for_another_swarm_is_refused(void **state) {
    (void)state;
    make_chain(5);
    draft_rollback(4);
    const struct hash other = hash_of("other", 5);
    entry.order = rollback_order_sign(&operator_keys, &other, &entry.root, &commits[5].hash);
    assert_non_null(strstr(append_signed(), "operator did not sign"));
}

static void the_history_has_the_genesis_and_every_retained_state(void **state) {
    (void)state;
    for (uint32_t count = 30; count <= COMMITS; count++) {
        make_chain(count);
        assert_true(hash_equal(&chain.history.states[0].root, &commits[0].root));
        for (uint32_t c = 0; c <= count; c++) {
            const uint32_t at = state_history_find_root(&chain.history, &commits[c].root);
            const bool is_present = at < chain.history.count;
            assert_int_equal(is_present, c == 0 || count - c < ROLLBACK_STATES_MAX - 1);
            assert_true(is_present || !is_stored_state_retained(c, count));
            assert_true(!is_present || chain.history.states[at].commits == c);
        }
    }
}

static void four_states_are_retained_from_commit_32_on(void **state) {
    (void)state;
    for (uint32_t newest = 0; newest < 200; newest++) {
        uint32_t retained = 0;
        for (uint32_t c = 0; c <= newest; c++) {
            retained += is_stored_state_retained(c, newest);
        }
        assert_int_equal(retained, newest / 8 < 4 ? newest / 8 : 4);
    }
}

/* Each of eight members is drawn about equally often; smaller rosters store it everywhere. */
static void three_members_are_drawn_for_each_state(void **state) {
    (void)state;
    enum { ROSTER = 8, DRAWS = 800 };
    uint32_t drawn[ROSTER] = {0};
    static struct entry commit;
    commit.kind = ENTRY_COMMIT;
    for (uint32_t i = 0; i < ROSTER; i++) {
        commit.seats[i].id.bytes[0] = (uint8_t)i;
    }
    for (uint32_t draw = 0; draw < DRAWS; draw++) {
        commit.hash = hash_of(&draw, sizeof draw);
        commit.seat_count = 1 + draw % ROSTER;
        assert_int_equal(__builtin_popcountll(state_storing_seats(&commit)),
                         commit.seat_count < 3 ? commit.seat_count : 3);
        commit.seat_count = ROSTER;
        const uint64_t keepers = state_storing_seats(&commit);
        for (uint32_t i = 0; i < ROSTER; i++) {
            drawn[i] += keepers >> i & 1;
        }
    }
    for (uint32_t i = 0; i < ROSTER; i++) {
        assert_in_range(drawn[i], DRAWS * 3 / 8 - 60, DRAWS * 3 / 8 + 60);
    }
}

static void the_draw_does_not_depend_on_the_seats(void **state) {
    (void)state;
    static struct entry commit;
    commit.kind = ENTRY_COMMIT;
    commit.hash = hash_of("draw", 4);
    commit.seat_count = 6;
    for (uint32_t i = 0; i < 6; i++) {
        commit.seats[i].id.bytes[0] = (uint8_t)i;
    }
    const uint64_t keepers = state_storing_seats(&commit);
    for (uint32_t i = 0; i < 6; i++) {
        commit.seats[i].id.bytes[0] = (uint8_t)(5 - i);
    }
    const uint64_t mirrored = state_storing_seats(&commit);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(keepers >> i & 1, mirrored >> (5 - i) & 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_accepts_a_rollback_only_to_its_own_states),
        cmocka_unit_test(a_state_that_was_undone_cannot_be_returned_to),
        cmocka_unit_test(an_open_round_is_not_rolled_back),
        cmocka_unit_test(an_order_is_valid_once_for_one_history_and_one_operator),
        cmocka_unit_test(an_order_for_another_swarm_is_refused),
        cmocka_unit_test(the_history_has_the_genesis_and_every_retained_state),
        cmocka_unit_test(four_states_are_retained_from_commit_32_on),
        cmocka_unit_test(three_members_are_drawn_for_each_state),
        cmocka_unit_test(the_draw_does_not_depend_on_the_seats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
