/* json_scan against JSON's grammar (RFC 8259), case by case. */
#include "runtime/checkpoint/json_scan.h"

#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_BYTES = 256 };

static struct json_scan scan_over(char buffer[static TEXT_BYTES], const char *text) {
    assert_true(strlen(text) < TEXT_BYTES);
    strcpy(buffer, text);
    return (struct json_scan){.bytes = buffer, .length = strlen(text)};
}

static void string_decodes_escapes_and_utf8(void **state) {
    (void)state;
    static const struct {
        const char *text, *decoded;
    } CASES[] = {
        {"\"\"", ""},
        {" \"plain\" ", "plain"},
        {"\"a\\\"b\\\\c\\/d\"", "a\"b\\c/d"},
        {"\"\\b\\f\\n\\r\\t\"", "\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"",
         "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char buffer[TEXT_BYTES];
        struct json_scan scan = scan_over(buffer, CASES[i].text);
        char *decoded;
        assert_true(json_scan_string(&scan, &decoded));
        assert_string_equal(decoded, CASES[i].decoded);
        assert_int_equal(json_scan_peek(&scan), '\0');
    }
}

static void string_is_refused_when_malformed(void **state) {
    (void)state;
    static const char *const CASES[] = {
        "",
        "x",
        "\"open",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\ud800\\n\"",
        "\"\\udc00\"",
        "\"\\ud800\\ud800\"",
        "\"\n\"",
        "\"\xff\"",
        "\"\xc0\x80\"",
        "\"\xe0\x80\x80\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe2\x82\"",
        "\"\x80\"",
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char buffer[TEXT_BYTES];
        struct json_scan scan = scan_over(buffer, CASES[i]);
        char *decoded;
        assert_false(json_scan_string(&scan, &decoded));
        assert_non_null(scan.reason);
    }
}

static void natural_reads_the_whole_range_and_nothing_else(void **state) {
    (void)state;
    char buffer[TEXT_BYTES];
    int64_t value = -1;
    struct json_scan scan = scan_over(buffer, " 9223372036854775807,");
    assert_true(json_scan_natural(&scan, &value));
    assert_true(value == INT64_MAX);
    scan = scan_over(buffer, "0]");
    assert_true(json_scan_natural(&scan, &value));
    assert_int_equal(value, 0);
    static const char *const REFUSED[] = {
        "9223372036854775808", "-1", "-0", "1.0", "1e2", "01", "", "x", "\"1\""};
    for (size_t i = 0; i < ARRAY_COUNT(REFUSED); i++) {
        scan = scan_over(buffer, REFUSED[i]);
        value = 7;
        assert_false(json_scan_natural(&scan, &value));
        assert_int_equal(value, 7);
    }
}

static void skip_passes_exactly_one_value(void **state) {
    (void)state;
    static const char *const CASES[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1.5e+10",
        "1E-999",
        "\"s\\n\"",
        "[]",
        "{}",
        "[ ]",
        "[[],{},[1,2,[3]],\"x\"]",
        "{\"a\":{\"b\":[1,{\"c\":null}]},\"d\":[]}",
        "123456789012345678901234567890",
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char buffer[TEXT_BYTES];
        char text[TEXT_BYTES] = " ";
        strcat(strcat(text, CASES[i]), " ;");
        struct json_scan scan = scan_over(buffer, text);
        assert_true(json_scan_skip(&scan));
        assert_int_equal(json_scan_peek(&scan), ';');
        assert_string_equal(buffer, text);
    }
}

static void skip_is_refused_when_malformed(void **state) {
    (void)state;
    static const char *const CASES[] = {
        "",        "nul",       "tru",
        "+1",      ".5",        "1.",
        "1e",      "1e+",       "01",
        "-",       "1e999",     "[",
        "[1",      "[1,",       "[1,]",
        "[,]",     "[1 2]",     "[1}",
        "{\"a\"}", "{\"a\":}",  "{\"a\":1,}",
        "{a:1}",   "{\"a\":1]", "{1:1}",
        "]",       "{\"a\" 1}", "[\"\\ud800\"]",
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        char buffer[TEXT_BYTES];
        struct json_scan scan = scan_over(buffer, CASES[i]);
        assert_false(json_scan_skip(&scan));
        assert_non_null(scan.reason);
    }
}

static void skip_bounds_the_depth(void **state) {
    (void)state;
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        char buffer[TEXT_BYTES];
        char text[TEXT_BYTES] = {0};
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        struct json_scan scan = scan_over(buffer, text);
        assert_int_equal(json_scan_skip(&scan), depth == JSON_DEPTH_MAX);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(string_decodes_escapes_and_utf8),
        cmocka_unit_test(string_is_refused_when_malformed),
        cmocka_unit_test(natural_reads_the_whole_range_and_nothing_else),
        cmocka_unit_test(skip_passes_exactly_one_value),
        cmocka_unit_test(skip_is_refused_when_malformed),
        cmocka_unit_test(skip_bounds_the_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
