/* test_member_table: which members and addresses are announced, and what is stored of them. */
#include "runtime/swarm/tracker/address_book.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct member_table known, again;
static struct wire_address_book roster;
static uint8_t bytes[ADDRESS_BOOK_BYTES_MAX], changed[ADDRESS_BOOK_BYTES_MAX];

static struct admitted_member *add(uint8_t number, const char *address, uint32_t is_reachable) {
    struct public_keys keys;
    memset(keys.curve, number, KEY_BYTES);
    memset(keys.sign, 100 + number, KEY_BYTES);
    struct admitted_member *member = member_table_add(&known, &keys);
    strcpy(member->name, "somebody");
    strcpy(member->address, address);
    member->is_reachable = is_reachable;
    return member;
}

static int begin(void **state) {
    (void)state;
    memset(&known, 0, sizeof known);
    known.version = 41;
    add(1, "tcp://10.0.0.1:7", 1);
    add(2, "tcp://10.0.0.2:7", 0);
    add(3, "", 0);
    return 0;
}

static void an_address_is_announced_once_it_was_reached(void **state) {
    (void)state;
    const struct swarm_timing timing = {1, 2, 3, 4, 5, 6, 7};
    address_book_make_message(&known, &timing, &roster);
    assert_int_equal(roster.version, 41);
    assert_int_equal(roster.count, 3);
    assert_string_equal(roster.members[0].address, "tcp://10.0.0.1:7");
    assert_string_equal(roster.members[1].address, "");
    assert_string_equal(roster.members[2].address, "");
    assert_memory_equal(&roster.timing, &timing, sizeof timing);
    for (uint32_t i = 0; i < 3; i++) {
        assert_memory_equal(&roster.members[i].keys, &known.rows[i].keys,
                            sizeof known.rows[i].keys);
    }
}

static void a_key_has_one_row_which_can_go(void **state) {
    (void)state;
    struct identity id;
    assert_ptr_equal(add(2, "tcp://10.0.0.9:7", 1), &known.rows[1]);
    assert_int_equal(known.count, 3);
    assert_int_equal(member_table_find_by_channel_key(&known, known.rows[2].keys.curve), 2);
    memcpy(id.bytes, known.rows[2].keys.sign, KEY_BYTES);
    assert_int_equal(member_table_find_by_identity(&known, &id), 2);
    const struct admitted_member last = known.rows[2];
    const struct admitted_member second = known.rows[1];
    member_table_remove(&known, 1);
    assert_int_equal(known.count, 2);
    assert_memory_equal(&known.rows[1], &last, sizeof last);
    assert_int_equal(member_table_find_by_channel_key(&known, second.keys.curve), MEMBER_NONE);
    assert_int_equal(member_table_find_by_identity(&known, &id), 1);
}

static void a_full_list_is_kept_and_read(void **state) {
    (void)state;
    char address[MESSAGE_ADDRESS_BYTES];
    memset(address, 'a', sizeof address - 1);
    address[sizeof address - 1] = '\0';
    for (uint8_t number = 4; known.count < SWARM_MEMBERS_MAX; number++) {
        memset(add(number, address, 1)->name, 'n', WIRE_MEMBER_NAME_BYTES - 1);
    }
    size_t count = address_book_write(&known, bytes);
    assert_null(address_book_read(bytes, count, &again));
    assert_int_equal(again.count, SWARM_MEMBERS_MAX);
    assert_memory_equal(&again, &known, sizeof known);
}

static void any_other_bytes_are_refused_or_of_the_form(void **state) {
    (void)state;
    size_t count = address_book_write(&known, bytes);
    for (size_t cut = 0; cut <= count + 1; cut++) {
        const char *wrong = address_book_read(bytes, cut, &again);
        assert_true((wrong == NULL) == (cut == count));
    }
    for (size_t at = 0; at < 8 * count; at++) {
        memcpy(changed, bytes, count);
        changed[at / 8] ^= (uint8_t)(1U << (at % 8));
        if (address_book_read(changed, count, &again) == NULL) {
            assert_true(again.count <= SWARM_MEMBERS_MAX);
            assert_int_equal(address_book_write(&again, changed), count);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_address_is_announced_once_it_was_reached, begin),
        cmocka_unit_test_setup(a_key_has_one_row_which_can_go, begin),
        cmocka_unit_test_setup(a_full_list_is_kept_and_read, begin),
        cmocka_unit_test_setup(any_other_bytes_are_refused_or_of_the_form, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
