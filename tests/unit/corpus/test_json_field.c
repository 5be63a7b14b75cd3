/* Tests of json_field: texts as Python's json.loads decodes them, and lines that are rejected with
 * the place of the error. */
#include "base/check.h"
#include "runtime/corpus/json_field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { LINE_MAX_BYTES = 1024 };

static enum json_field_status find(const char *text, size_t length, struct json_field *field) {
    static char line[LINE_MAX_BYTES];
    assert_true(length < sizeof line);
    memcpy(line, text, length + 1);
    return json_field_find(line, length, "text", field);
}

static void strings_are_decoded(void **state) {
    (void)state;
    static const struct {
        const char *line, *text;
        size_t length;
        uint64_t replacements;
    } ROWS[] = {
        {"{\"text\": \"plain\"}", "plain", 5, 0},
        {"{\"text\": \"\"}", "", 0, 0},
        {" {\"a\": [1, {\"text\": \"no\"}], \"text\" : \"yes\", \"z\": null } ", "yes", 3, 0},
        {"{\"a\": {\"text\": 1, \"text\": 2}, \"text\": \"once\"}", "once", 4, 0},
        {"{\"te\\u0078t\": \"escaped name\"}", "escaped name", 12, 0},
        {"{\"text\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", "\"\\/\b\f\n\r\t", 8, 0},
        {"{\"text\": \"\\u00e9\\u8702\"}", "\xc3\xa9\xe8\x9c\x82", 5, 0},
        {"{\"text\": \"\\ud83d\\udc1d!\"}", "\xf0\x9f\x90\x9d!", 5, 0},
        {"{\"text\": \"\\ud83dx\\udc1d\"}", "\xef\xbf\xbdx\xef\xbf\xbd", 7, 2},
        {"{\"text\": \"\\ud83d\\ud83d\\udc1d\"}", "\xef\xbf\xbd\xf0\x9f\x90\x9d", 7, 1},
        {"{\"text\": \"a\\u0000b\"}", "a\0b", 3, 0},
        {"{\"n\": -1.5e+3, \"e\": [], \"o\": {}, \"t\": true, \"text\": \"x\"}", "x", 1, 0},
        {"{\"n\": [[], [[1], {}], {\"a\": {\"b\": [0]}}], \"text\": \"x\"}", "x", 1, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct json_field field;
        assert_int_equal(find(ROWS[i].line, strlen(ROWS[i].line), &field), JSON_FIELD_FOUND);
        assert_int_equal(field.length, ROWS[i].length);
        assert_memory_equal(field.text, ROWS[i].text, ROWS[i].length);
        assert_int_equal(field.replacements, ROWS[i].replacements);
    }
}

static void other_values_are_told_apart(void **state) {
    (void)state;
    struct json_field field;
    assert_int_equal(find("{}", 2, &field), JSON_FIELD_MISSING);
    assert_int_equal(find("{\"a\": 1}", 8, &field), JSON_FIELD_MISSING);
    assert_int_equal(find("{\"text\": 3}", 11, &field), JSON_FIELD_NOT_TEXT);
    assert_int_equal(find("{\"text\": [\"a\"]}", 15, &field), JSON_FIELD_NOT_TEXT);
    assert_int_equal(find("{\"text\": null}", 14, &field), JSON_FIELD_NOT_TEXT);
}

static void invalid_lines_are_rejected_with_their_place(void **state) {
    (void)state;
    static const struct {
        const char *line;
        size_t column;
        const char *reason;
    } ROWS[] = {
        {"", 0, "expected an object"},
        {"[\"text\"]", 0, "expected an object"},
        {"{\"text\"}", 7, "expected a colon"},
        {"{\"text\": \"a}", 12, "a string without its end"},
        {"{\"text\": \"a\\\"}", 14, "a string without its end"},
        {"{\"text\": \"a\tb\"}", 11, "a control character in a string"},
        {"{\"text\": \"\\x41\"}", 12, "not a valid escape"},
        {"{\"text\": \"\\u00g0\"}", 12, "not a valid escape"},
        {"{\"text\": \"\\u00\"}", 12, "not a valid escape"},
        {"{\"text\": \"a\"} x", 14, "text after the object"},
        {"{\"text\": \"a\",}", 13, "expected a string"},
        {"{\"a\": 01, \"text\": \"a\"}", 8, "expected a value"},
        {"{\"a\": [1, ], \"text\": \"a\"}", 10, "expected a value"},
        {"{\"a\": [1 2], \"text\": \"a\"}", 9, "expected a comma or the end of the object"},
        {"{\"a\": {\"b\" 2}, \"text\": \"a\"}", 11, "expected a colon"},
        {"{\"a\": (1)}", 6, "expected a value"},
        {"{'text': 'a'}", 1, "expected a string"},
        {"{\"text\": \"a\", \"text\": \"b\"}", 14, "the field of the text is there twice"},
        {"{\"text\": 1, \"te\\u0078t\": \"b\"}", 12, "the field of the text is there twice"},
        {"{\"a\": NaN, \"text\": \"a\"}", 6, "NaN and Infinity are not numbers in JSON"},
        {"{\"a\": [-Infinity], \"text\": \"a\"}", 7, "NaN and Infinity are not numbers in JSON"},
        {"{\"text\": NaN}", 9, "NaN and Infinity are not numbers in JSON"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct json_field field;
        assert_int_equal(find(ROWS[i].line, strlen(ROWS[i].line), &field), JSON_FIELD_INVALID);
        assert_string_equal(field.reason, ROWS[i].reason);
        assert_int_equal(field.column, ROWS[i].column);
    }
}

static void nesting_has_a_limit(void **state) {
    (void)state;
    char line[LINE_MAX_BYTES];
    for (int depth = JSON_LINE_DEPTH_MAX; depth <= JSON_LINE_DEPTH_MAX + 1; depth++) {
        struct json_field field;
        int length = snprintf(line, sizeof line, "{\"a\": ");
        memset(line + length, '[', (size_t)depth);
        memset(line + length + depth, ']', (size_t)depth);
        length += 2 * depth;
        length += snprintf(line + length, sizeof line - (size_t)length, ", \"text\": \"deep\"}");
        const enum json_field_status status = find(line, (size_t)length, &field);
        assert_int_equal(status,
                         depth <= JSON_LINE_DEPTH_MAX ? JSON_FIELD_FOUND : JSON_FIELD_INVALID);
    }
}

/* Every start of a valid line is invalid, and never read beyond its end. */
static void every_truncated_line_is_rejected(void **state) {
    (void)state;
    static const char LINE[] = "{\"a\": [1.5e3, true, {\"b\": \"\\u00e9\\ud83d\\udc1d\"}], "
                               "\"text\": \"\\n\\ud83d\\udc1d\"}";
    for (size_t length = 0; length + 1 < sizeof LINE; length++) {
        char line[sizeof LINE];
        struct json_field field;
        memcpy(line, LINE, length);
        line[length] = '\0';
        assert_int_equal(find(line, length, &field), JSON_FIELD_INVALID);
        assert_true(field.column <= length);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(other_values_are_told_apart),
        cmocka_unit_test(invalid_lines_are_rejected_with_their_place),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(every_truncated_line_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
