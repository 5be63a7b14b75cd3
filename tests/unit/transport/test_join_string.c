/* test_join_string: join strings are read and written, and invalid ones are reported exactly. */
#include "transport/identity/join_string.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define KEY                                                                                        \
    "pghubrnnw2hskysk4wzbj2twpjxmstmctu6xwxq22g5g6prbhauf6knmxlqudpgk6czc4guu2ngqxrzwdzjg2c76clej" \
    "pff4smrjm3ox2i3d5oak"
#define SECRET                                                                                     \
    "seaacaqdaqcqmbyibefawdanbyhraeiscmkbkfqxdamrugy4dupb6ibbeirsijjge4ucskrlfqws4lzqgezdgnbvgy3t" \
    "qoj2hm6d2pr7beo3gbbz"

static void addresses_of_all_kinds_survive_a_round_trip(void **state) {
    (void)state;
    static const char *const ADDRESSES[] = {"tcp://a:1", "tcp://203.0.113.7:7700",
                                            "tcp://[2001:db8::7]:65535",
                                            "tcp://tracker.example-site.org:7700"};
    for (size_t i = 0; i < ARRAY_COUNT(ADDRESSES); i++) {
        char text[JOIN_STRING_BYTES], again[JOIN_STRING_BYTES];
        struct join_string join;
        struct fault fault;
        struct public_keys keys;
        strcpy(text, ADDRESSES[i]);
        strcat(text, "#" KEY);
        assert_int_equal(join_string_read(text, &join, &fault), OK);
        assert_string_equal(join.address, ADDRESSES[i]);
        assert_null(public_keys_read(KEY, &keys));
        assert_memory_equal(&join.operator_keys, &keys, sizeof keys);
        assert_string_equal(join_string_write(&join, again), text);
    }
}

static void each_error_has_its_message(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } ROWS[] = {
        {"tcp://a:1", "it has no #KEY at its end"},
        {"", "it has no #KEY at its end"},
        {"#" KEY, "its address does not begin with tcp://"},
        {"udp://a:1#" KEY, "its address does not begin with tcp://"},
        {"tcp://a#" KEY, "its address has no :PORT after its host"},
        {"tcp://a:#" KEY, "its address has no port number at its end"},
        {"tcp://a:1x#" KEY, "its address has no port number at its end"},
        {"tcp://a:0#" KEY, "its address has a port number outside 1 to 65535"},
        {"tcp://a:65536#" KEY, "its address has a port number outside 1 to 65535"},
        {"tcp://a:4294967297#" KEY, "its address has a port number outside 1 to 65535"},
        {"tcp://:1#" KEY,
         "its address needs a host name, an IPv4 address or an IPv6 address in brackets"},
        {"tcp://*:1#" KEY,
         "its address needs a host name, an IPv4 address or an IPv6 address in brackets"},
        {"tcp://2001:db8::7:1#" KEY, "its address has no port number at its end"},
        {"tcp://[2001:db8::7#" KEY,
         "its address needs a host name, an IPv4 address or an IPv6 address in brackets"},
        {"tcp://[::7]1#" KEY, "its address has no :PORT after its host"},
        {"tcp://a:1#", "its key is not 112 characters long"},
        {"tcp://a:1#" KEY "x", "its key is not 112 characters long"},
        {"tcp://a:1#" SECRET, "its key is a secret key, but a public key is needed"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct join_string join = {.address = "untouched"};
        struct fault fault;
        assert_int_equal(join_string_read(ROWS[i].text, &join, &fault), STATUS_INPUT);
        assert_string_equal(fault.reason, ROWS[i].reason);
        assert_string_equal(fault.subject, "join string");
        assert_string_equal(join.address, "untouched");
    }
}

static void an_address_has_at_most_127_characters(void **state) {
    (void)state;
    char text[JOIN_STRING_BYTES + 8];
    struct join_string join;
    struct fault fault;
    for (int length = 127; length <= 128; length++) {
        memset(text, 'a', sizeof text);
        memcpy(text, "tcp://", 6);
        memcpy(text + length - 2, ":1#" KEY, sizeof ":1#" KEY);
        assert_int_equal(join_string_read(text, &join, &fault), length == 127 ? OK : STATUS_INPUT);
    }
    assert_string_equal(fault.reason, "its address is longer than 127 characters");
}

static void a_file_name_is_not_a_join_string(void **state) {
    (void)state;
    assert_false(is_join_string("heather.skep"));
    assert_false(is_join_string("./a:b/heather.skep"));
    assert_true(is_join_string("tcp://a:1#" KEY));
    assert_true(is_join_string("http://a"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_all_kinds_survive_a_round_trip),
        cmocka_unit_test(each_error_has_its_message),
        cmocka_unit_test(an_address_has_at_most_127_characters),
        cmocka_unit_test(a_file_name_is_not_a_join_string),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
