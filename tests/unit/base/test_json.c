/* test_json: bounded parsing, typed reads, and faults that name the place and the field. */
#include "base/json.h"
#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct json_document parsed(const char *text) {
    struct json_document document;
    struct fault fault;
    assert_int_equal(json_parse(text, strlen(text), 1 << 20, "t.json", &document, &fault), OK);
    return document;
}

struct broken_text {
    const char *text;
    const char *place;
    const char *reason;
};

static void parse_refuses_broken_text_at_its_place(void **state) {
    (void)state;
    static const struct broken_text rows[] = {
        {"", "t.json:1:0", "not valid JSON"},
        {"{", "t.json:1:1", "not valid JSON"},
        {"[1, 2]", "t.json", "is a JSON array, but a JSON object is expected"},
        {"12", "t.json:1:", "not valid JSON"},
        {"{\"a\": 1,\n \"a\": 2}", "t.json:2:4", "duplicate"},
        {"{\"a\": {\"b\": 1, \"b\": 1}}", "t.json:1:", "duplicate"},
        {"{\"a\": NaN}", "t.json:1:", "not valid JSON"},
        {"{\"a\": Infinity}", "t.json:1:", "not valid JSON"},
        {"{\"a\": 1e999}", "t.json:1:", "real number overflow"},
        {"{\"a\": 9223372036854775808}", "t.json:1:", "too big integer"},
        {"{\"a\": \"\\u0000\"}", "t.json:1:", "\\u0000 is not allowed"},
        {"{\"a\": \"\xff\"}", "t.json:1:", "unable to decode byte 0xff"},
        {"{\"a\": 1} x", "t.json:1:", "end of file expected"},
        {"{\"a\": 01}", "t.json:1:", "not valid JSON"},
        {"{\"a\": \"\x1b[2J\"}", "t.json:1:", "control character 0x1b"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct json_document document = {.root.key = "untouched"};
        struct fault fault = {0};
        enum status status =
            json_parse(rows[i].text, strlen(rows[i].text), 1 << 20, "t.json", &document, &fault);
        assert_int_equal(status, STATUS_INPUT);
        assert_string_equal(document.root.key, "untouched");
        if (strstr(fault.subject, rows[i].place) != fault.subject ||
            strstr(fault.reason, rows[i].reason) == NULL) {
            fail_msg("%s gave %s: %s", rows[i].text, fault.subject, fault.reason);
        }
        assert_null(strchr(fault.reason, 0x1b));
    }
}

static void parse_refuses_a_text_longer_than_the_limit(void **state) {
    (void)state;
    struct json_document document;
    struct fault fault;
    assert_int_equal(json_parse("{\"a\":1}", 7, 6, "t.json", &document, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "the limit is 6"));
    assert_int_equal(json_parse("{\"a\":1}", 7, 7, "t.json", &document, &fault), OK);
    json_finish(&document);
}

/* {"a":[[...]]} of `depth` levels in all. */
static size_t nested(char *text, int depth) {
    size_t length = (size_t)sprintf(text, "{\"a\":");
    memset(text + length, '[', (size_t)depth - 1);
    length += (size_t)depth - 1;
    memset(text + length, ']', (size_t)depth - 1);
    length += (size_t)depth - 1;
    text[length++] = '}';
    return length;
}

static void parse_refuses_nesting_beyond_the_limit(void **state) {
    (void)state;
    char text[8192];
    struct json_document document;
    struct fault fault;
    size_t length = nested(text, JSON_DEPTH_MAX);
    assert_int_equal(json_parse(text, length, length, "t.json", &document, &fault), OK);
    json_finish(&document);
    length = nested(text, JSON_DEPTH_MAX + 1);
    assert_int_equal(json_parse(text, length, length, "t.json", &document, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "nested deeper than 32"));
    assert_string_equal(fault.subject, "t.json:1:37");
    length = nested(text, 4000);
    assert_int_equal(json_parse(text, length, length, "t.json", &document, &fault), STATUS_INPUT);
}

static void brackets_inside_strings_do_not_nest(void **state) {
    (void)state;
    char text[256] = "{\"a\":\"";
    for (int i = 0; i < 60; i++) {
        strcat(text, "[");
    }
    strcat(text, "\\\"[[[\\\\\", \"b\": 1}");
    struct json_document document = parsed(text);
    assert_int_equal(json_child_count(&document.root), 2);
    json_finish(&document);
}

static void parse_refuses_more_values_than_the_limit(void **state) {
    (void)state;
    size_t length = 2 * (size_t)JSON_VALUES_MAX + 64;
    char *text = malloc(length);
    memcpy(text, "{\"a\":[", 6);
    for (size_t i = 6; i < length; i += 2) {
        memcpy(text + i, "0,", 2);
    }
    struct json_document document;
    struct fault fault;
    assert_int_equal(json_parse(text, length, length, "t.json", &document, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "more than 4194304 JSON values"));
    free(text);
}

static void reads_give_the_values_of_the_text(void **state) {
    (void)state;
    struct json_document document = parsed(
        "{\"i\": -9223372036854775808, \"f\": 2.5e-3, \"whole\": 7, \"b\": true, \"c\": false,"
        " \"t\": \"a\\u00e9\", \"o\": {\"x\": [1, 2.0, null]}, \"none\": null}");
    struct fault fault;
    const struct json_node *root = &document.root;
    int64_t i = 0;
    double f = 0;
    bool b = false;
    bool c = true;
    bool present = false;
    const char *t = NULL;
    struct json_node o;
    struct json_node x;
    assert_int_equal(json_get_i64(root, "i", &i, &present, &fault), OK);
    assert_true(present && i == INT64_MIN);
    assert_int_equal(json_get_f64(root, "f", &f, NULL, &fault), OK);
    assert_true(f == 0.0025);
    assert_int_equal(json_get_f64(root, "whole", &f, NULL, &fault), OK);
    assert_true(f == 7.0);
    assert_int_equal(json_get_bool(root, "b", &b, NULL, &fault), OK);
    assert_int_equal(json_get_bool(root, "c", &c, NULL, &fault), OK);
    assert_true(b && !c);
    assert_int_equal(json_get_text(root, "t", &t, NULL, &fault), OK);
    assert_string_equal(t, "a\xc3\xa9");
    assert_int_equal(json_get_object(root, "o", &o, NULL, &fault), OK);
    assert_int_equal(json_get_array(&o, "x", &x, NULL, &fault), OK);
    assert_int_equal(json_child_count(&x), 3);
    struct json_node last = json_element(&x, 2);
    assert_true(json_node_is_null(&last));
    json_finish(&document);
}

static void absent_and_null_members_leave_the_value_alone(void **state) {
    (void)state;
    struct json_document document = parsed("{\"none\": null}");
    struct fault fault;
    int64_t i = 42;
    double f = 1.5;
    bool present = true;
    assert_int_equal(json_get_i64(&document.root, "none", &i, &present, &fault), OK);
    assert_false(present);
    assert_int_equal(json_get_f64(&document.root, "gone", &f, NULL, &fault), OK);
    assert_true(i == 42 && f == 1.5);
    json_finish(&document);
}

static void a_wrong_type_is_a_fault_naming_the_field(void **state) {
    (void)state;
    struct json_document document =
        parsed("{\"a\": \"x\\u001b\", \"b\": 1.5, \"o\": {\"list\": [1, "
               "true, {\"deep\": [3]}]}, \"t\": true}");
    struct fault fault;
    const struct json_node *root = &document.root;
    int64_t i = 42;
    bool b = false;
    const char *t = "kept";
    struct json_node node;
    struct json_node list;
    assert_int_equal(json_get_i64(root, "a", &i, NULL, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "`a` is the string \"x?\", expected an integer");
    assert_string_equal(fault.subject, "t.json");
    assert_int_equal(json_get_i64(root, "b", &i, NULL, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "`b` is the number 1.5, expected an integer");
    assert_int_equal(json_get_bool(root, "b", &b, NULL, &fault), STATUS_INPUT);
    assert_int_equal(json_get_text(root, "t", &t, NULL, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "`t` is true, expected a string");
    assert_string_equal(t, "kept");
    assert_int_equal(json_get_array(root, "o", &node, NULL, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "`o` is an object, expected an array");
    assert_int_equal(json_get_object(root, "o", &node, NULL, &fault), OK);
    assert_int_equal(json_get_array(&node, "list", &list, NULL, &fault), OK);
    struct json_node element = json_element(&list, 1);
    assert_int_equal(json_as_i64(&element, &i, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "`o.list[1]` is true, expected an integer");
    element = json_element(&list, 2);
    assert_int_equal(json_get_bool(&element, "deep", &b, NULL, &fault), STATUS_INPUT);
    assert_string_equal(fault.reason, "`o.list[2].deep` is an array, expected true or false");
    assert_int_equal(i, 42);
    json_fault_member(&node, "gone", &fault, "is missing");
    assert_string_equal(fault.reason, "`o.gone` is missing");
    json_finish(&document);
}

static void a_walk_keeps_the_order_of_the_file(void **state) {
    (void)state;
    enum { MEMBERS = 20000 };
    char *text = malloc(MEMBERS * 16);
    size_t length = 1;
    text[0] = '{';
    for (int i = 0; i < MEMBERS; i++) {
        /* 7919 is prime to 20000: the names come in no sorted order. */
        length +=
            (size_t)sprintf(text + length, "%s\"k%d\":%d", i > 0 ? "," : "", i * 7919 % MEMBERS, i);
    }
    text[length++] = '}';
    struct json_document document;
    struct fault fault;
    assert_int_equal(json_parse(text, length, length, "t.json", &document, &fault), OK);
    struct json_walk walk = json_walk_over(&document.root);
    int count = 0;
    while (json_walk_next(&walk)) {
        char key[16];
        int64_t value = -1;
        sprintf(key, "k%d", count * 7919 % MEMBERS);
        assert_string_equal(walk.member.key, key);
        assert_int_equal(json_as_i64(&walk.member, &value, &fault), OK);
        assert_int_equal(value, count);
        count++;
    }
    assert_int_equal(count, MEMBERS);
    json_finish(&document);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_refuses_broken_text_at_its_place),
        cmocka_unit_test(parse_refuses_a_text_longer_than_the_limit),
        cmocka_unit_test(parse_refuses_nesting_beyond_the_limit),
        cmocka_unit_test(brackets_inside_strings_do_not_nest),
        cmocka_unit_test(parse_refuses_more_values_than_the_limit),
        cmocka_unit_test(reads_give_the_values_of_the_text),
        cmocka_unit_test(absent_and_null_members_leave_the_value_alone),
        cmocka_unit_test(a_wrong_type_is_a_fault_naming_the_field),
        cmocka_unit_test(a_walk_keeps_the_order_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
