/* test_host_number: numbers of addresses, and of names as this machine's hosts file has them. */
#include "transport/identity/host_number.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct fault fault;

static void numbers_are_read_as_they_are_written(void **state) {
    (void)state;
    static const uint8_t V4[] = {203, 0, 113, 5};
    static const uint8_t V6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 7};
    union numeric_address number;
    assert_int_equal(numeric_address_parse("tcp://203.0.113.5:7000", &number), sizeof number.v4);
    assert_int_equal(number.v4.sin_family, AF_INET);
    assert_int_equal(ntohs(number.v4.sin_port), 7000);
    assert_memory_equal(&number.v4.sin_addr, V4, sizeof V4);
    assert_int_equal(numeric_address_parse("tcp://[2001:db8::7]:65535", &number), sizeof number.v6);
    assert_int_equal(number.v6.sin6_family, AF_INET6);
    assert_int_equal(ntohs(number.v6.sin6_port), 65535);
    assert_memory_equal(&number.v6.sin6_addr, V6, sizeof V6);
}

static void names_and_what_is_no_address_have_no_number(void **state) {
    (void)state;
    static const char *const OTHERS[] = {"tcp://localhost:7000", "tcp://203.0.113.5",
                                         "tcp://:7000",          "tcp://203.0.113.5:0",
                                         "203.0.113.5:7000",     "tcp://[203.0.113.5]x:7000",
                                         "tcp://[::1:7000",      ""};
    union numeric_address number;
    for (size_t i = 0; i < ARRAY_COUNT(OTHERS); i++) {
        assert_int_equal(numeric_address_parse(OTHERS[i], &number), 0);
    }
}

static void a_number_is_found_without_asking(void **state) {
    (void)state;
    static const char *const SAME[] = {"tcp://203.0.113.5:7000", "tcp://[2001:db8::7]:7000"};
    for (size_t i = 0; i < ARRAY_COUNT(SAME); i++) {
        char found[MESSAGE_ADDRESS_BYTES];
        assert_int_equal(resolve_host(SAME[i], found, &fault), OK);
        assert_string_equal(found, SAME[i]);
    }
}

static void a_name_gives_its_number_and_keeps_the_port(void **state) {
    (void)state;
    char found[MESSAGE_ADDRESS_BYTES];
    assert_int_equal(resolve_host("tcp://localhost:7000", found, &fault), OK);
    bool is_v4 = strcmp(found, "tcp://127.0.0.1:7000") == 0;
    assert_true(is_v4 || strcmp(found, "tcp://[::1]:7000") == 0);
}

/* A label of more than 63 letters is nobody's, and no name server is asked for it. */
static void a_name_that_nobody_has_is_told(void **state) {
    (void)state;
    char found[MESSAGE_ADDRESS_BYTES] = "as before";
    char address[MESSAGE_ADDRESS_BYTES];
    struct text text = text_over(address, sizeof address);
    text_add(&text, "tcp://%064d.member:7000", 1);
    assert_true(resolve_host(address, found, &fault) != OK);
    assert_string_equal(found, "as before");
    assert_string_equal(fault.place, address);
    assert_non_null(strstr(fault.reason, "1.member\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_as_they_are_written),
        cmocka_unit_test(names_and_what_is_no_address_have_no_number),
        cmocka_unit_test(a_number_is_found_without_asking),
        cmocka_unit_test(a_name_gives_its_number_and_keeps_the_port),
        cmocka_unit_test(a_name_that_nobody_has_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
