/* test_hex: digits of known bytes, and what are no digits. */
#include "base/hex.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const uint8_t BYTES[] = {0x00, 0x09, 0x1a, 0xbf, 0xff};

static void bytes_have_their_digits_and_come_back(void **state) {
    (void)state;
    char buffer[16];
    uint8_t again[sizeof BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    hex_add(&text, BYTES, sizeof BYTES);
    assert_string_equal(buffer, "00091abfff");
    assert_true(hex_read(buffer, sizeof BYTES, again));
    assert_memory_equal(again, BYTES, sizeof BYTES);
}

static void other_digits_are_refused_and_leave_the_bytes(void **state) {
    (void)state;
    static const char *const WRONG[] = {"0g", "g0", "0A", "F0", " 0", "0 ", "-1", "0x"};
    for (size_t i = 0; i < ARRAY_COUNT(WRONG); i++) {
        uint8_t byte = 77;
        assert_false(hex_read(WRONG[i], 1, &byte));
        assert_int_equal(byte, 77);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_have_their_digits_and_come_back),
        cmocka_unit_test(other_digits_are_refused_and_leave_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
