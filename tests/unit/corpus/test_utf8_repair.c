/* Tests of utf8_repair: each kind of ill-formed sequence against Python's
 * bytes.decode("utf-8", errors="replace"), whole and divided at every byte. */
#include "base/check.h"
#include "runtime/corpus/utf8_repair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_MAX = 256 };

/* Bytes, and what Python 3.11 makes of them. */
static const struct row {
    const char *bytes;
    size_t count;
    const char *text;
    size_t text_count;
    uint64_t replacements;
} ROWS[] = {
    {"", 0, "", 0, 0},
    {"plain text, longer than eight bytes", 35, "plain text, longer than eight bytes", 35, 0},
    {"\xc3\xbc"
     "ber \xe8\x9c\x82 \xf0\x9f\x90\x9d",
     14,
     "\xc3\xbc"
     "ber \xe8\x9c\x82 \xf0\x9f\x90\x9d",
     14, 0},
    {"\x80", 1, "\xef\xbf\xbd", 3, 1},
    {"\xc0\x80", 2, "\xef\xbf\xbd\xef\xbf\xbd", 6, 2},
    {"\xc2", 1, "\xef\xbf\xbd", 3, 1},
    {"\xc2"
     "A",
     2,
     "\xef\xbf\xbd"
     "A",
     4, 1},
    {"\xe0\x80\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9, 3},
    {"\xe0\xa0", 2, "\xef\xbf\xbd", 3, 1},
    {"\xe0\xa0"
     "A",
     3,
     "\xef\xbf\xbd"
     "A",
     4, 1},
    {"\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9, 3},
    {"\xed\x9f\xbf", 3, "\xed\x9f\xbf", 3, 0},
    {"\xf0\x90\x8d", 3, "\xef\xbf\xbd", 3, 1},
    {"\xf0\x90\x8dX", 4, "\xef\xbf\xbdX", 4, 1},
    {"\xf0\x8f\xbf\xbf", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 12, 4},
    {"\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 12, 4},
    {"\xf4\x8f\xbf\xbf", 4, "\xf4\x8f\xbf\xbf", 4, 0},
    {"\xf5\x80\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 12, 4},
    {"\xff\xfe", 2, "\xef\xbf\xbd\xef\xbf\xbd", 6, 2},
    {"12345678\xff"
     "12345678",
     17,
     "12345678\xef\xbf\xbd"
     "12345678",
     19, 1},
    {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf"
     "A",
     9,
     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
     "A",
     13, 4},
    {"a\x00"
     "b\x80\x00",
     5,
     "a\x00"
     "b\xef\xbf\xbd\x00",
     7, 1},
    {"\xf0\x9f\x90\x9d\xf0\x9f\x90", 7, "\xf0\x9f\x90\x9d\xef\xbf\xbd", 7, 1},
    {"\xe2\x82\xac\xe2\x82", 5, "\xe2\x82\xac\xef\xbf\xbd", 6, 1},
};

static void bytes_become_what_python_makes_of_them(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        char out[TEXT_MAX];
        const struct utf8_repaired repaired = utf8_repair(ROWS[i].bytes, ROWS[i].count, true, out);
        assert_int_equal(repaired.read_bytes, ROWS[i].count);
        assert_int_equal(repaired.written_bytes, ROWS[i].text_count);
        assert_memory_equal(out, ROWS[i].text, ROWS[i].text_count);
        assert_int_equal(repaired.replacements, ROWS[i].replacements);
    }
}

static void a_division_of_the_input_changes_nothing(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        for (size_t cut = 0; cut <= ROWS[i].count; cut++) {
            char out[TEXT_MAX];
            const struct utf8_repaired first = utf8_repair(ROWS[i].bytes, cut, false, out);
            assert_true(cut - first.read_bytes <= UTF8_TAIL_MAX);
            const struct utf8_repaired second =
                utf8_repair(ROWS[i].bytes + first.read_bytes, ROWS[i].count - first.read_bytes,
                            true, out + first.written_bytes);
            assert_int_equal(first.written_bytes + second.written_bytes, ROWS[i].text_count);
            assert_memory_equal(out, ROWS[i].text, ROWS[i].text_count);
            assert_int_equal(first.replacements + second.replacements, ROWS[i].replacements);
        }
    }
}

static void the_first_ill_formed_byte_is_located(void **state) {
    (void)state;
    char out[TEXT_MAX];
    assert_int_equal(utf8_repair("12345678ab\xff\xfe", 12, true, out).first_replaced, 10);
    assert_int_equal(utf8_repair("\xc3\xbc\xe2\x82", 4, true, out).first_replaced, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_become_what_python_makes_of_them),
        cmocka_unit_test(a_division_of_the_input_changes_nothing),
        cmocka_unit_test(the_first_ill_formed_byte_is_located),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
