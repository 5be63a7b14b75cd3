/* test_json_write: the bytes of documents, what they read back as, and documents that are longer
 * than the text they pass through. */
#include "base/json.h"
#include "base/json_write.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DOCUMENT_BYTES = 1 << 16 };

static char document[DOCUMENT_BYTES];

static void add_everything(struct json_writer *json) {
    const uint8_t bytes[] = {0x0a, 0xff};
    json_begin_object(json, NULL);
    json_add_u64(json, "u", UINT64_MAX);
    json_add_i64(json, "i", INT64_MIN);
    json_add_u64_text(json, "q", UINT64_MAX);
    json_add_bool(json, "b", true);
    json_add_null(json, "n");
    json_add_f64(json, "f", 0.1, 9);
    json_add_f64(json, "inf", INFINITY, 9);
    json_add_f64(json, "nan", (double)NAN, 9);
    json_add_fixed(json, "t", 2.0, 3);
    json_add_hex(json, "h", bytes, sizeof bytes);
    json_add_text(json, "s", "a\"\\\n\x01");
    json_begin_array(json, "list");
    json_begin_object(json, NULL);
    json_end(json);
    json_begin_array(json, NULL);
    json_end(json);
    json_add_counted_text(json, NULL, "abc", 2);
    json_end(json);
    text_add(json_add_name(json, "raw"), "[1]");
    json_end(json);
}

static void a_document_has_every_kind_of_value(void **state) {
    (void)state;
    struct text text = text_over(document, sizeof document);
    struct json_writer json = json_writer_over(&text);
    add_everything(&json);
    assert_string_equal(document,
                        "{\"u\": 18446744073709551615, \"i\": -9223372036854775808, "
                        "\"q\": \"18446744073709551615\", \"b\": true, \"n\": null, \"f\": 0.1, "
                        "\"inf\": null, \"nan\": null, \"t\": 2.000, \"h\": \"0aff\", "
                        "\"s\": \"a\\\"\\\\\\u000a\\u0001\", \"list\": [{}, [], \"ab\"], "
                        "\"raw\": [1]}");
}

static void newlines_are_put_where_they_are_asked_for(void **state) {
    (void)state;
    struct text text = text_over(document, sizeof document);
    struct json_writer json = json_writer_over(&text);
    json_begin_object(&json, NULL);
    json_newline(&json, 2);
    json_add_i64(&json, "a", 1);
    json_newline(&json, 2);
    json_begin_array(&json, "b");
    json_add_i64(&json, NULL, 2);
    json_newline(&json, 4);
    json_add_i64(&json, NULL, 3);
    json_newline(&json, 0);
    json_end(&json);
    json_end(&json);
    assert_string_equal(document, "{\n  \"a\": 1,\n  \"b\": [2,\n    3\n]}");
}

static void append(void *context, struct text *text) {
    struct text *all = context;
    text_add_bytes(all, text->bytes, text->length);
    text->length = 0;
}

static void a_long_document_passes_through_a_small_text(void **state) {
    (void)state;
    char small[JSON_DRAIN_BYTES_MIN + 1];
    static char expected[DOCUMENT_BYTES];
    static char value[5000];
    for (size_t i = 0; i + 1 < sizeof value; i++) {
        value[i] = (char)(1 + i % 100);
    }
    struct text whole = text_over(expected, sizeof expected);
    struct text all = text_over(document, sizeof document);
    struct text piece = text_over(small, sizeof small);
    struct json_writer writers[] = {json_writer_over(&whole),
                                    json_writer_draining(&piece, append, &all)};
    for (int w = 0; w < 2; w++) {
        json_begin_array(&writers[w], NULL);
        add_everything(&writers[w]);
        json_add_text(&writers[w], NULL, value);
        json_add_hex(&writers[w], NULL, value, sizeof value);
        json_end(&writers[w]);
    }
    append(&all, &piece);
    assert_false(all.truncated || whole.truncated || piece.truncated);
    assert_string_equal(document, expected);
}

static void text_that_is_written_reads_back(void **state) {
    (void)state;
    struct text text = text_over(document, sizeof document);
    struct json_writer json = json_writer_over(&text);
    struct json_document read;
    struct fault fault;
    const char *found = NULL;
    json_begin_object(&json, NULL);
    json_add_text(&json, "\x1f\"name\"", "\t\\ \xc3\xa9");
    json_end(&json);
    assert_int_equal(json_parse(text.bytes, text.length, text.length, "text", &read, &fault), OK);
    assert_int_equal(json_get_text(&read.root, "\x1f\"name\"", &found, NULL, &fault), OK);
    assert_string_equal(found, "\t\\ \xc3\xa9");
    json_finish(&read);
}

static void a_document_that_does_not_fit_is_marked(void **state) {
    (void)state;
    char small[8];
    struct text text = text_over(small, sizeof small);
    struct json_writer json = json_writer_over(&text);
    add_everything(&json);
    assert_true(text.truncated);
    assert_string_equal(small, "{\"u\": 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_has_every_kind_of_value),
        cmocka_unit_test(newlines_are_put_where_they_are_asked_for),
        cmocka_unit_test(a_long_document_passes_through_a_small_text),
        cmocka_unit_test(text_that_is_written_reads_back),
        cmocka_unit_test(a_document_that_does_not_fit_is_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
