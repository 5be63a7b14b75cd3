/* safetensors: tables from header texts written here by hand, and files written and read back. */
#include "runtime/checkpoint/safetensors.h"

#include "base/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define F32_AT(name, begin, end)                                                                   \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[" #begin "," #end "]}"

static struct region region;

static enum status parse(const char *json, int64_t data_bytes, struct safetensors *file,
                         struct fault *fault) {
    char *text = region_alloc(&region, strlen(json) + 1, 1);
    strcpy(text, json);
    return safetensors_parse(text, strlen(json), data_bytes, "x.safetensors", &region, file, fault);
}

static int finish(void **state) {
    (void)state;
    region_finish(&region);
    return 0;
}

static void parse_gives_the_table_in_data_order(void **state) {
    (void)state;
    struct safetensors file;
    struct fault fault;
    const char *json =
        "{\"__metadata__\":{\"format\":\"pt\",\"a\\n\":\"\"},"
        "\"b\":{\"shape\":[2,3],\"dtype\":\"BF16\",\"data_offsets\":[4,16]},"
        "\"empty\":{\"dtype\":\"I64\",\"shape\":[4,0],\"data_offsets\":[4,4]},"
        "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":[{}]},"
        "\"\\u0063\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[16,20]}}  \n";
    assert_int_equal(parse(json, 20, &file, &fault), OK);
    static const char *const NAMES[] = {"scalar", "empty", "b", "c"};
    assert_int_equal(file.header.count, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(file.header.entries[i].name, NAMES[i]);
    }
    const struct safetensors_entry *b = safetensors_find(&file, "b");
    assert_ptr_equal(b, &file.header.entries[2]);
    assert_int_equal(b->dtype, ST_BF16);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_int_equal(b->elements, 6);
    assert_int_equal(safetensors_find(&file, "scalar")->elements, 1);
    assert_int_equal(safetensors_find(&file, "empty")->elements, 0);
    assert_null(safetensors_find(&file, "absent"));
    assert_string_equal(safetensors_metadata(&file, "format"), "pt");
    assert_string_equal(safetensors_metadata(&file, "a\n"), "");
    assert_null(safetensors_metadata(&file, "absent"));
}

static void parse_refuses_what_breaks_the_rules(void **state) {
    (void)state;
    static const struct {
        const char *json;
        int64_t data_bytes;
        const char *reason; /* a part of it */
    } CASES[] = {
        {"", 0, "start with '{'"},
        {" {}", 0, "start with '{'"},
        {"[]", 0, "start with '{'"},
        {"{} x", 0, "byte 3 of the header"},
        {"{}", 4, "4 bytes after"},
        {"{" F32_AT("a", 0, 4) "}", 8, "4 bytes after"},
        {"{" F32_AT("a", 0, 4) "}", 3, "tensor 'a': its offsets are outside the file"},
        {"{" F32_AT("a", 4, 8) "}", 8, "tensor 'a': the bytes before its data belong to no tensor"},
        {"{" F32_AT("a", 0, 4) "," F32_AT("b", 0, 4) "}", 4, "tensor 'b': its bytes overlap"},
        {"{" F32_AT("a", 0, 4) "," F32_AT("b", 8, 12) "}", 12,
         "tensor 'b': the bytes before its data belong to no tensor"},
        {"{" F32_AT("a", 0, 4) "," F32_AT("a", 4, 8) "}", 8,
         "tensor 'a': is a tensor that the header contains twice"},
        {"{" F32_AT("a", 4, 0) "}", 4, "tensor 'a': its offsets"},
        {"{" F32_AT("a", 0, 8) "}", 8, "has data_offsets that do not match"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0, "has no dtype, shape or data_offsets"},
        {"{\"a\":{\"dtype\":\"F99\"}}", 0,
         "tensor 'a': has a dtype that is not in the safetensors format"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "has a field twice"},
        {"{\"a\":[\"F32\",[1],[0,4]]}", 4, "tensor 'a': expected the start of an object"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         "more than 2^63"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0,
         "more than 2^63 bits"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2, "whole bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4,
         "too many dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
         "other than [begin, end]"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "too many dimensions"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ twice"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "a key twice"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "expected a string"},
        {"{\"__metadata__\":[]}", 0, "expected the start of an object"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct safetensors file = {.fd = 77};
        struct fault fault = {0};
        assert_int_equal(parse(CASES[i].json, CASES[i].data_bytes, &file, &fault), STATUS_INPUT);
        assert_int_equal(file.fd, 77);
        assert_string_equal(fault.subject, "x.safetensors");
        if (strstr(fault.reason, CASES[i].reason) == NULL) {
            fail_msg("%s: '%s' does not say '%s'", CASES[i].json, fault.reason, CASES[i].reason);
        }
    }
}

static void parse_hides_control_characters_of_names(void **state) {
    (void)state;
    struct safetensors file;
    struct fault fault;
    assert_int_equal(parse("{\"\\u001b[2J\":1}", 0, &file, &fault), STATUS_INPUT);
    assert_null(strchr(fault.reason, 0x1b));
    assert_non_null(strstr(fault.reason, "?[2J"));
}

/* A hundred million bytes of entries: refused at the limit of tensors, in memory of a few times
 * the table's limit. */
static void parse_bounds_a_header_bomb(void **state) {
    (void)state;
    enum { BOMB_BYTES = 100000000 };
    char *text = malloc(BOMB_BYTES + 1);
    assert_non_null(text);
    size_t length = 1;
    text[0] = '{';
    for (int i = 0; length + 80 < BOMB_BYTES; i++) {
        length += (size_t)sprintf(
            text + length, "%s\"%x\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
            i == 0 ? "" : ",", i);
    }
    text[length++] = '}';
    text[length] = '\0';
    struct safetensors file;
    struct fault fault;
    size_t before = region.bytes_total;
    enum status status =
        safetensors_parse(text, length, 0, "bomb.safetensors", &region, &file, &fault);
    free(text);
    assert_int_equal(status, STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "more tensors than are supported"));
    assert_true(region.bytes_total - before <
                4 * (size_t)SAFETENSORS_TENSORS_MAX * sizeof(struct safetensors_entry));
}

static void temporary_path(char path[static 64]) {
    strcpy(path, "/tmp/skep-safetensors-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

static void open_refuses_bad_lengths(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *reason;
    } CASES[] = {
        {"", 0, "field with the header's length"},
        {"\2\0\0\0\0\0\0", 7, "field with the header's length"},
        {"\3\0\0\0\0\0\0\0{}", 10,
         "the field gives a header of 3 bytes, which does not fit in the file of 10"},
        {"\1\341\365\5\0\0\0\0{}", 10, "the limit is 100000000"},
        {"\377\377\377\377\377\377\377\377{}", 10, "the limit is 100000000"},
    };
    char path[64];
    temporary_path(path);
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        struct fault fault = {0};
        struct safetensors file;
        int fd = -1;
        assert_int_equal(file_open_write(path, &fd, &fault), OK);
        assert_int_equal(write(fd, CASES[i].bytes, CASES[i].count), CASES[i].count);
        close(fd);
        assert_int_equal(safetensors_open(path, &region, &file, &fault), STATUS_INPUT);
        assert_non_null(strstr(fault.reason, CASES[i].reason));
        assert_string_equal(fault.subject, path);
    }
    unlink(path);
}

static void written_file_reads_back_with_wide_types_first(void **state) {
    (void)state;
    struct safetensors_entry entries[] = {
        {.name = "half", .dtype = ST_BF16, .rank = 1, .shape = {3}},
        {.name = "tab\t\"q\"", .dtype = ST_F32, .rank = 2, .shape = {1, 2}},
        {.name = "long", .dtype = ST_I64, .rank = 0},
    };
    static const struct safetensors_pair METADATA[] = {{"format", "pt"}, {"z", "\\"}};
    struct safetensors_header header = {entries, 3, METADATA, 2};
    assert_int_equal(safetensors_lay_out(entries, 3), 22);
    char buffer[1024];
    size_t header_bytes = safetensors_header_bytes(&header);
    assert_int_equal(header_bytes % SAFETENSORS_ALIGN_BYTES, 0);
    char path[64];
    temporary_path(path);
    int fd = -1;
    struct fault fault;
    assert_int_equal(file_open_write(path, &fd, &fault), OK);
    assert_int_equal(safetensors_render_header(&header, buffer, header_bytes + 1), header_bytes);
    assert_int_equal(file_write_at(fd, path, buffer, header_bytes, 0, &fault), OK);
    assert_int_equal(pwrite(fd, "0123456789abcdefghijkl", 22, (off_t)header_bytes), 22);
    close(fd);
    struct safetensors file;
    assert_int_equal(safetensors_open(path, &region, &file, &fault), OK);
    assert_int_equal(file.data_at, header_bytes);
    static const struct {
        const char *name, *bytes;
    } WANTED[] = {{"long", "01234567"}, {"tab\t\"q\"", "89abcdef"}, {"half", "ghijkl"}};
    for (int i = 0; i < 3; i++) {
        char bytes[9] = {0};
        const struct safetensors_entry *entry = safetensors_find(&file, WANTED[i].name);
        assert_ptr_equal(entry, &file.header.entries[i]);
        assert_int_equal(entry->end - entry->begin, strlen(WANTED[i].bytes));
        assert_int_equal(safetensors_read(&file, entry, 0, bytes, strlen(WANTED[i].bytes), &fault),
                         OK);
        assert_string_equal(bytes, WANTED[i].bytes);
    }
    assert_string_equal(safetensors_metadata(&file, "z"), "\\");
    safetensors_close(&file);
    unlink(path);
}

static void empty_file_is_legal(void **state) {
    (void)state;
    char buffer[32];
    struct fault fault;
    char path[64];
    temporary_path(path);
    int fd = -1;
    assert_int_equal(file_open_write(path, &fd, &fault), OK);
    const struct safetensors_header header = {0};
    size_t header_bytes = safetensors_render_header(&header, buffer, sizeof buffer);
    assert_int_equal(file_write_at(fd, path, buffer, header_bytes, 0, &fault), OK);
    close(fd);
    struct safetensors file;
    assert_int_equal(safetensors_open(path, &region, &file, &fault), OK);
    assert_int_equal(file.header.count, 0);
    safetensors_close(&file);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(parse_gives_the_table_in_data_order, finish),
        cmocka_unit_test_teardown(parse_refuses_what_breaks_the_rules, finish),
        cmocka_unit_test_teardown(parse_hides_control_characters_of_names, finish),
        cmocka_unit_test_teardown(parse_bounds_a_header_bomb, finish),
        cmocka_unit_test_teardown(open_refuses_bad_lengths, finish),
        cmocka_unit_test_teardown(written_file_reads_back_with_wide_types_first, finish),
        cmocka_unit_test_teardown(empty_file_is_legal, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
