/* test_wire_introduction: introductions and address books read back as written, are signed, and
 * have exactly one encoding. */
#include "wire_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct wire_fixture fixture;
static struct wire_introduction introduction;
static struct wire_address_book roster;
static uint8_t payload[WIRE_ADDRESS_BOOK_BYTES_MAX + 1], again[WIRE_ADDRESS_BOOK_BYTES_MAX];

static void introductions_and_rosters_read_back(void **state) {
    (void)state;
    static const uint32_t MEMBERS[] = {1, 3, SWARM_MEMBERS_MAX};
    for (uint32_t turn = 0; turn < 60; turn++) {
        wire_fixture_init(&fixture, MEMBERS[turn % 3], 1);
        wire_fixture_hosts(&fixture, turn / 3 % WIRE_FILLS, turn);
        size_t count = wire_write_introduction(&fixture.introduction, payload);
        assert_true(count <= WIRE_INTRODUCTION_BYTES_MAX);
        memset(&introduction, 0xa5, sizeof introduction);
        assert_null(wire_read_introduction(payload, count, &introduction));
        assert_memory_equal(&introduction, &fixture.introduction, sizeof introduction);
        assert_true(wire_introduction_is_signed(&introduction));
        count = wire_write_address_book(&fixture.roster, payload);
        assert_true(count <= WIRE_ADDRESS_BOOK_BYTES_MAX);
        memset(&roster, 0xa5, sizeof roster);
        assert_null(wire_read_address_book(payload, count, &roster));
        assert_memory_equal(&roster, &fixture.roster, sizeof roster);
    }
}

/* Gives whether the bytes were taken; then they are what a sender writes. */
static bool takes_introduction(size_t count) {
    const struct wire_introduction before = introduction;
    if (wire_read_introduction(payload, count, &introduction) != NULL) {
        assert_memory_equal(&introduction, &before, sizeof before);
        return false;
    }
    assert_int_equal(wire_write_introduction(&introduction, again), count);
    assert_memory_equal(again, payload, count);
    return true;
}

static bool takes_roster(size_t count) {
    if (wire_read_address_book(payload, count, &roster) != NULL) {
        return false;
    }
    assert_int_equal(wire_write_address_book(&roster, again), count);
    assert_memory_equal(again, payload, count);
    return true;
}

static void what_is_cut_or_flipped_has_one_spelling_or_none(void **state) {
    (void)state;
    wire_fixture_init(&fixture, 3, 1);
    for (uint32_t fill = 0; fill < WIRE_FILLS; fill++) {
        wire_fixture_hosts(&fixture, fill, 3);
        size_t count = wire_write_introduction(&fixture.introduction, payload);
        for (size_t cut = 0; cut < count; cut++) {
            assert_false(takes_introduction(cut));
        }
        assert_false(takes_introduction(count + 1));
        for (size_t bit = 0; bit < 8 * count; bit++) {
            payload[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(takes_introduction(count) && wire_introduction_is_signed(&introduction));
            payload[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        count = wire_write_address_book(&fixture.roster, payload);
        for (size_t cut = 0; cut < count; cut++) {
            assert_false(takes_roster(cut));
        }
        assert_false(takes_roster(count + 1));
        for (size_t bit = 0; bit < 8 * count; bit++) {
            payload[bit / 8] ^= (uint8_t)(1 << bit % 8);
            (void)takes_roster(count);
            payload[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

static void an_introduction_of_anybody_else_is_not_verified(void **state) {
    (void)state;
    wire_fixture_init(&fixture, 2, 1);
    wire_fixture_hosts(&fixture, WIRE_FULL, 4);
    introduction = fixture.introduction;
    wire_sign_introduction(&fixture.swarm.members[1], &introduction);
    assert_false(wire_introduction_is_signed(&introduction));
    introduction.keys = fixture.swarm.members[1].public_keys;
    wire_sign_introduction(&fixture.swarm.members[1], &introduction);
    assert_true(wire_introduction_is_signed(&introduction));
}

static void a_proof_holds_for_one_tracker_and_one_channel(void **state) {
    (void)state;
    struct wire_proof proof, read;
    wire_fixture_init(&fixture, 4, 1);
    const struct key_pairs *asker = &fixture.swarm.members[0];
    const struct public_keys *tracker = &fixture.swarm.members[1].public_keys;
    const struct public_keys *channel = &fixture.swarm.members[2].public_keys;
    const struct public_keys *other = &fixture.swarm.members[3].public_keys;
    wire_sign_proof(asker, tracker, channel->curve, &proof);
    const size_t count = wire_write_proof(&proof, payload);
    assert_true(count <= WIRE_PROOF_BYTES_MAX);
    assert_non_null(wire_read_proof(payload, count - 1, &read));
    assert_non_null(wire_read_proof(payload, count + 1, &read));
    assert_null(wire_read_proof(payload, count, &read));
    assert_memory_equal(&read, &proof, sizeof proof);
    assert_memory_equal(&read.keys, &asker->public_keys, sizeof read.keys);
    assert_true(wire_proof_is_signed(&read, tracker, channel->curve));
    assert_false(wire_proof_is_signed(&read, tracker, other->curve));
    assert_false(wire_proof_is_signed(&read, other, channel->curve));
    for (size_t bit = 0; bit < 8 * count; bit++) {
        payload[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(wire_read_proof(payload, count, &read) == NULL &&
                     wire_proof_is_signed(&read, tracker, channel->curve));
        payload[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

/* A text in place of another one of the same length. */
static void replace(size_t count, const char *old, const char *new) {
    size_t length = strlen(old);
    for (size_t at = 0; at + length <= count; at++) {
        if (memcmp(payload + at, old, length) == 0) {
            memcpy(payload + at, new, length);
            return;
        }
    }
    fail_msg("%s is not there", old);
}

static void names_and_addresses_that_are_none_are_refused(void **state) {
    (void)state;
    static const char *const NAMES[] = {"a b", "a/b", "a\nb", "a\"b", "a\x80z", "a\0b"};
    static const char *const ADDRESSES[] = {"tcp://1.2.3.4:0", "tcp:/:1.2.3.4:1", "udp://1.2.3.4:1",
                                            "tcp://1.2 3.4:1", "tcp://[1.2.3.4]", "tcp://:7770a",
                                            "tcp://1.2.3.x:1"}; /* a name */
    wire_fixture_init(&fixture, 1, 1);
    for (size_t i = 0; i < ARRAY_COUNT(NAMES); i++) {
        wire_fixture_hosts(&fixture, WIRE_EMPTY, 5);
        strcpy(fixture.introduction.name, "a-b");
        size_t count = wire_write_introduction(&fixture.introduction, payload);
        assert_true(takes_introduction(count));
        replace(count, "a-b", NAMES[i]);
        assert_false(takes_introduction(count));
    }
    for (size_t i = 0; i < ARRAY_COUNT(ADDRESSES); i++) {
        bool open = strncmp(ADDRESSES[i], "tcp://:", 7) == 0;
        const char *right = open ? "tcp://:07770" : "tcp://1.2.3.4:1";
        wire_fixture_hosts(&fixture, WIRE_EMPTY, 6);
        strcpy(fixture.introduction.address, right);
        size_t count = wire_write_introduction(&fixture.introduction, payload);
        assert_true(takes_introduction(count));
        replace(count, right, ADDRESSES[i]);
        assert_false(takes_introduction(count));
    }
}

static void a_roster_with_a_key_twice_or_no_deadline_is_refused(void **state) {
    (void)state;
    static const char *const KEYS[] = {"curve_keys", "sign_keys"};
    static const char *const DEADLINES[] = {"heartbeat_ms", "silence_ms", "train_ms", "exchange_ms",
                                            "round_ms"};
    wire_fixture_init(&fixture, 3, 1);
    wire_fixture_hosts(&fixture, WIRE_SOME, 7);
    fixture.roster.timing = (struct swarm_timing){.heartbeat_ms = 0x10000,
                                                  .silence_ms = 0x10001,
                                                  .train_ms = 0x10002,
                                                  .exchange_ms = 0x10003,
                                                  .round_ms = 0x10004};
    size_t count = wire_write_address_book(&fixture.roster, payload);
    assert_true(takes_roster(count));
    for (size_t i = 0; i < ARRAY_COUNT(KEYS); i++) {
        uint8_t *first = payload + wire_fixture_find(payload, count, KEYS[i]) + 2;
        uint8_t *third = first + 2 * KEY_BYTES;
        uint8_t kept[KEY_BYTES];
        memcpy(kept, third, KEY_BYTES);
        memcpy(third, first, KEY_BYTES);
        assert_false(takes_roster(count));
        memcpy(third, kept, KEY_BYTES);
    }
    for (size_t i = 0; i < ARRAY_COUNT(DEADLINES); i++) {
        uint8_t *deadline = payload + wire_fixture_find(payload, count, DEADLINES[i]);
        assert_int_equal(deadline[0], 0xce); /* uint 32 */
        deadline[1] = 0x80;
        assert_false(takes_roster(count));
        deadline[1] = 0;
    }
    assert_true(takes_roster(count));
    for (size_t i = 0; i < ARRAY_COUNT(DEADLINES); i++) {
        /* 0 in place of the number, whose other bytes are removed */
        size_t at = wire_fixture_find(payload, count, DEADLINES[i]);
        uint8_t shorter[WIRE_ADDRESS_BOOK_BYTES_MAX];
        memcpy(shorter, payload, at);
        shorter[at] = 0;
        memcpy(shorter + at + 1, payload + at + 5, count - at - 5);
        assert_non_null(wire_read_address_book(shorter, count - 4, &roster));
    }
    payload[wire_fixture_find(payload, count, "count")] = SWARM_MEMBERS_MAX + 1;
    assert_false(takes_roster(count));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(introductions_and_rosters_read_back),
        cmocka_unit_test(what_is_cut_or_flipped_has_one_spelling_or_none),
        cmocka_unit_test(an_introduction_of_anybody_else_is_not_verified),
        cmocka_unit_test(a_proof_holds_for_one_tracker_and_one_channel),
        cmocka_unit_test(names_and_addresses_that_are_none_are_refused),
        cmocka_unit_test(a_roster_with_a_key_twice_or_no_deadline_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
