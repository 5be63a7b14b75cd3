/* Tests of base/text: bounded building, quantities written and read. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void add_cuts_at_the_capacity_and_says_so(void **state) {
    (void)state;
    char buffer[8];
    struct text text = text_over(buffer, sizeof buffer);
    text_add(&text, "%s", "abc");
    assert_false(text.truncated);
    text_add(&text, "%d", 1234);
    assert_string_equal(buffer, "abc1234");
    assert_false(text.truncated);
    text_add_bytes(&text, "x", 1);
    assert_true(text.truncated);
    assert_string_equal(buffer, "abc1234");
    assert_int_equal(text.length, 7);
    text = text_over(buffer, sizeof buffer);
    text_add(&text, "%s", "0123456789");
    assert_true(text.truncated);
    assert_string_equal(buffer, "0123456");
    text_add(&text, "%s", "");
    assert_int_equal(text.length, 7);
}

static void add_json_escapes_quotes_backslashes_and_control_characters(void **state) {
    (void)state;
    char buffer[64];
    struct text text = text_over(buffer, sizeof buffer);
    text_add_json(&text, "a\"b\\c\n\x01\x1f\xc3\xbc");
    assert_string_equal(buffer, "\"a\\\"b\\\\c\\u000a\\u0001\\u001f\xc3\xbc\"");
}

static void bytes_have_three_digits_and_binary_units(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } CASES[] = {
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {10 * 1024, "10.0 KiB"},
        {100 * 1024, "100 KiB"},
        {1023 * 1024 + 512, "1.00 MiB"},
        {14066211389, "13.1 GiB"},
        {(uint64_t)1 << 40, "1.00 TiB"},
        {UINT64_MAX, "16.0 EiB"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char buffer[24];
        assert_string_equal(text_format_bytes(CASES[i].bytes, buffer), CASES[i].text);
    }
}

static void count_has_three_digits_and_decimal_prefixes(void **state) {
    (void)state;
    static const struct {
        double count;
        const char *text;
    } CASES[] = {
        {0, "0"},        {960, "960"},       {999.4, "999"},    {999.5, "1.00k"},
        {1000, "1.00k"}, {12345, "12.3k"},   {124.4e6, "124M"}, {1.24e9, "1.24G"},
        {1e12, "1.00T"}, {99.94e9, "99.9G"}, {99.96e9, "100G"}, {-1500, "-1.50k"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char buffer[24];
        assert_string_equal(text_format_count(CASES[i].count, buffer), CASES[i].text);
    }
}

static void grouped_puts_a_comma_every_three_digits(void **state) {
    (void)state;
    static const struct {
        uint64_t value;
        const char *text;
    } CASES[] = {{0, "0"},
                 {999, "999"},
                 {1000, "1,000"},
                 {12345678, "12,345,678"},
                 {UINT64_MAX, "18,446,744,073,709,551,615"}};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char buffer[32];
        assert_string_equal(text_format_grouped(CASES[i].value, buffer), CASES[i].text);
    }
}

static void parse_bytes_takes_units_and_refuses_the_rest(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } GOOD[] = {{"0", 0},
                {"4096", 4096},
                {"17 B", 17},
                {"9GiB", 9663676416},
                {"9gib", 9663676416},
                {"512 MiB", 536870912},
                {"1.5GB", 1500000000},
                {"2TiB", 2199023255552},
                {"0.5 KiB", 512},
                {"4611686018427387904", (uint64_t)1 << 62}};
    static const char *const BAD[] = {"",        " 1",  "-1",   "GiB",    "1 Gib b", "1e30",
                                      "1 giga",  "nan", "inf",  "5EiB",   "1,5GB",   "4194305TiB",
                                      "1.5.2GB", ".5G", "+1MB", "1GiB x", "0.5"};
    for (size_t i = 0; i < ARRAY_COUNT(GOOD); i++) {
        uint64_t bytes = 1;
        assert_true(text_parse_bytes(GOOD[i].text, &bytes));
        assert_int_equal(bytes, GOOD[i].bytes);
    }
    for (size_t i = 0; i < ARRAY_COUNT(BAD); i++) {
        uint64_t bytes = 77;
        if (text_parse_bytes(BAD[i], &bytes)) {
            fail_msg("\"%s\" was read as %llu", BAD[i], (unsigned long long)bytes);
        }
        assert_int_equal(bytes, 77);
    }
}

static void parse_u64_accepts_digits_only(void **state) {
    (void)state;
    static const char *const BAD[] = {"", " 1", "1 ", "-1", "+1", "0x1", "18446744073709551616"};
    uint64_t value = 7;
    for (size_t i = 0; i < ARRAY_COUNT(BAD); i++) {
        assert_false(text_parse_u64(BAD[i], &value));
        assert_int_equal(value, 7);
    }
    assert_true(text_parse_u64("18446744073709551615", &value));
    assert_true(value == UINT64_MAX);
    assert_true(text_parse_u64("007", &value));
    assert_true(value == 7);
}

static void parse_i64_wants_the_whole_string(void **state) {
    (void)state;
    static const char *const BAD[] = {"",
                                      " 1",
                                      "1 ",
                                      "1x",
                                      "0x10",
                                      "1.0",
                                      "1e3",
                                      "-",
                                      "+",
                                      "9223372036854775808",
                                      "-9223372036854775809"};
    int64_t value = 5;
    assert_true(text_parse_i64("9223372036854775807", &value));
    assert_int_equal(value, INT64_MAX);
    assert_true(text_parse_i64("-9223372036854775808", &value));
    assert_int_equal(value, INT64_MIN);
    assert_true(text_parse_i64("-0", &value));
    assert_int_equal(value, 0);
    for (size_t i = 0; i < ARRAY_COUNT(BAD); i++) {
        value = 5;
        assert_false(text_parse_i64(BAD[i], &value));
        assert_int_equal(value, 5);
    }
}

static void parse_f64_wants_the_whole_string_and_a_finite_value(void **state) {
    (void)state;
    static const char *const BAD[] = {"", " 1", "1 ", "1x", "nan", "inf", "-inf", "1e999", "0,5"};
    double value = 5;
    assert_true(text_parse_f64("6e-4", &value));
    assert_true(value == 6e-4);
    assert_true(text_parse_f64("-.5", &value));
    assert_true(value == -0.5);
    for (size_t i = 0; i < ARRAY_COUNT(BAD); i++) {
        value = 5;
        assert_false(text_parse_f64(BAD[i], &value));
        assert_true(value == 5);
    }
}

static void nearest_finds_slips_and_gives_up_on_strangers(void **state) {
    (void)state;
    static const char *const NAMES[] = {"batch.tokens", "batch.sequence", "optimizer.lr", "seed"};
    static const struct {
        const char *wanted;
        int index;
    } CASES[] = {{"batch.tokens", 0}, {"batch.token", 0},
                 {"bacth.tokens", 0}, {"batch.sequense", 1},
                 {"optimiser.lr", 2}, {"sed", 3},
                 {"sees", 3},         {"zzzz", -1},
                 {"x", -1},           {"", -1},
                 {"seeming", -1},     {"batch.tokens_per_device", -1}};
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        assert_int_equal(text_find_nearest(CASES[i].wanted, NAMES, ARRAY_COUNT(NAMES)),
                         CASES[i].index);
    }
    assert_int_equal(text_find_nearest("seed", NAMES, 0), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_cuts_at_the_capacity_and_says_so),
        cmocka_unit_test(add_json_escapes_quotes_backslashes_and_control_characters),
        cmocka_unit_test(bytes_have_three_digits_and_binary_units),
        cmocka_unit_test(count_has_three_digits_and_decimal_prefixes),
        cmocka_unit_test(grouped_puts_a_comma_every_three_digits),
        cmocka_unit_test(parse_bytes_takes_units_and_refuses_the_rest),
        cmocka_unit_test(parse_u64_accepts_digits_only),
        cmocka_unit_test(parse_i64_wants_the_whole_string),
        cmocka_unit_test(parse_f64_wants_the_whole_string_and_a_finite_value),
        cmocka_unit_test(nearest_finds_slips_and_gives_up_on_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
