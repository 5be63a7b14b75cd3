/* test_address: parsing of numeric addresses, and names resolved by this machine's hosts file. */
#include "transport/identity/address.h"
#include "transport/identity/numeric_address.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct fault fault;

static void numeric_addresses_are_parsed(void **state) {
    (void)state;
    static const uint8_t V4[] = {203, 0, 113, 5};
    static const uint8_t V6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 7};
    union numeric_address parsed;
    assert_int_equal(numeric_address_parse("tcp://203.0.113.5:7000", &parsed), sizeof parsed.v4);
    assert_int_equal(parsed.v4.sin_family, AF_INET);
    assert_int_equal(ntohs(parsed.v4.sin_port), 7000);
    assert_memory_equal(&parsed.v4.sin_addr, V4, sizeof V4);
    assert_int_equal(numeric_address_parse("tcp://[2001:db8::7]:65535", &parsed), sizeof parsed.v6);
    assert_int_equal(parsed.v6.sin6_family, AF_INET6);
    assert_int_equal(ntohs(parsed.v6.sin6_port), 65535);
    assert_memory_equal(&parsed.v6.sin6_addr, V6, sizeof V6);
}

static void names_and_invalid_text_are_not_numeric(void **state) {
    (void)state;
    static const char *const OTHERS[] = {"tcp://localhost:7000", "tcp://203.0.113.5",
                                         "tcp://:7000",          "tcp://203.0.113.5:0",
                                         "203.0.113.5:7000",     "tcp://[203.0.113.5]x:7000",
                                         "tcp://[::1:7000",      ""};
    union numeric_address parsed;
    for (size_t i = 0; i < ARRAY_COUNT(OTHERS); i++) {
        assert_int_equal(numeric_address_parse(OTHERS[i], &parsed), 0);
    }
}

static void a_numeric_address_resolves_to_itself(void **state) {
    (void)state;
    static const char *const SAME[] = {"tcp://203.0.113.5:7000", "tcp://[2001:db8::7]:7000"};
    for (size_t i = 0; i < ARRAY_COUNT(SAME); i++) {
        char found[MESSAGE_ADDRESS_BYTES];
        assert_int_equal(resolve_host(SAME[i], found, &fault), OK);
        assert_string_equal(found, SAME[i]);
    }
}

static void a_name_is_resolved_and_keeps_its_port(void **state) {
    (void)state;
    char found[MESSAGE_ADDRESS_BYTES];
    assert_int_equal(resolve_host("tcp://localhost:7000", found, &fault), OK);
    bool is_v4 = strcmp(found, "tcp://127.0.0.1:7000") == 0;
    assert_true(is_v4 || strcmp(found, "tcp://[::1]:7000") == 0);
}

/* A label of more than 63 letters is invalid, so no name server is queried. */
static void an_unknown_name_is_reported(void **state) {
    (void)state;
    char found[MESSAGE_ADDRESS_BYTES] = "as before";
    char address[MESSAGE_ADDRESS_BYTES];
    struct text text = text_over(address, sizeof address);
    text_add(&text, "tcp://%064d.member:7000", 1);
    assert_true(resolve_host(address, found, &fault) != OK);
    assert_string_equal(found, "as before");
    assert_string_equal(fault.subject, address);
    assert_non_null(strstr(fault.reason, "1.member\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numeric_addresses_are_parsed),
        cmocka_unit_test(names_and_invalid_text_are_not_numeric),
        cmocka_unit_test(a_numeric_address_resolves_to_itself),
        cmocka_unit_test(a_name_is_resolved_and_keeps_its_port),
        cmocka_unit_test(an_unknown_name_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
