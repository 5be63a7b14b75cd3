/* Tests of train/data: where windows lie, the order in which they come, and packed documents. */
#include "runtime/data/data.h"
#include "scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BLOCK = 1 << 20, SEQUENCE_MAX = 1 << 20 };

static struct region region;
static struct fault fault;
static uint8_t raw[4 * (SEQUENCE_MAX + 1)];
static int32_t ids[SEQUENCE_MAX], labels[SEQUENCE_MAX], positions[SEQUENCE_MAX];
static const struct token_row ROW = {.ids = ids, .labels = labels, .positions = positions};

static int finish_region(void **state) {
    (void)state;
    region_finish(&region);
    return 0;
}

static struct data_options options_for(const char *const *paths, int count, int64_t sequence) {
    return (struct data_options){.paths = {.paths = (const char **)paths, .count = count},
                                 .sequence = sequence,
                                 .vocab = 1 << 24,
                                 .separator = DATA_NO_SEPARATOR};
}

static struct token_data opened(const struct data_options *options) {
    struct token_data data;
    memset(&fault, 0, sizeof fault);
    if (data_open(options, &region, &data, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
    return data;
}

static struct token_data opened_one(const char *path, int64_t sequence) {
    struct data_options options = options_for(&path, 1, sequence);
    return opened(&options);
}

static void read_window(const struct token_data *data, int64_t window) {
    memset(&fault, 0, sizeof fault);
    if (data_read_window(data, window, raw, &ROW, &fault) != OK) {
        fail_msg("%s: %s", fault.subject, fault.reason);
    }
}

static void a_row_is_ids_with_the_next_token_as_label(void **state) {
    (void)state;
    static const uint16_t TOKENS[] = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19};
    scratch_write("ten.u16", TOKENS, sizeof TOKENS);
    struct token_data data = opened_one("ten.u16", 4);
    assert_int_equal(data.window_count, 2); /* tokens 0..4 and 4..8; 9 begins no whole row */
    for (int64_t window = 0; window < 2; window++) {
        read_window(&data, window);
        for (int64_t t = 0; t < 4; t++) {
            assert_int_equal(ids[t], 10 + 4 * window + t);
            assert_int_equal(labels[t], 11 + 4 * window + t);
            assert_int_equal(positions[t], t);
        }
    }
    data_close(&data);
}

static void a_file_needs_one_token_more_than_a_row(void **state) {
    (void)state;
    scratch_write("five.bytes", "abcde", 5);
    struct token_data data = opened_one("five.bytes", 4);
    assert_int_equal(data.window_count, 1);
    data_close(&data);
    const char *path = "five.bytes";
    struct data_options options = options_for(&path, 1, 5);
    struct token_data untouched = {.file_count = 77};
    assert_int_equal(data_open(&options, &region, &untouched, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "five.bytes");
    assert_non_null(strstr(fault.reason, "5 tokens; a row of 5"));
    assert_int_equal(untouched.file_count, 77);
    options.paths.count = 0;
    assert_int_equal(data_open(&options, &region, &untouched, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.remedy, "data.train"));
}

static void a_file_shorter_than_a_row_adds_no_row(void **state) {
    (void)state;
    static const struct {
        const char *paths[3];
        int count, short_count, windows;
    } ROWS[] = {{{"nine.bytes", "two.bytes"}, 2, 1, 2},
                {{"two.bytes", "nine.bytes"}, 2, 1, 2},
                {{"nine.bytes", "two.bytes", "nine.bytes"}, 3, 1, 4},
                {{"two.bytes", "nine.bytes", "two.bytes"}, 3, 2, 2}};
    scratch_write("nine.bytes", "abcdefghi", 9);
    scratch_write("two.bytes", "yz", 2);
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct data_options options = options_for(ROWS[i].paths, ROWS[i].count, 4);
        struct token_data data = opened(&options);
        int64_t cursor = 0;
        assert_int_equal(data.window_count, ROWS[i].windows);
        assert_int_equal(data.short_count, ROWS[i].short_count);
        assert_string_equal(data.short_path, "two.bytes");
        for (int64_t window = 0; window < data.window_count; window++) {
            read_window(&data, window);
            assert_int_equal(ids[0], window % 2 == 0 ? 'a' : 'e');
        }
        for (int64_t step = 0; step < 20; step++) {
            const int64_t window = data_next_window(&data, 5, &cursor);
            assert_in_range(window, 0, ROWS[i].windows - 1);
        }
        data_close(&data);
    }
    static const char *const SHORT[] = {"two.bytes", "two.bytes"};
    struct data_options options = options_for(SHORT, 2, 4);
    struct token_data untouched;
    assert_int_equal(data_open(&options, &region, &untouched, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "two.bytes");
    assert_non_null(strstr(fault.reason, "has at most 2 tokens; a row of 4"));
}

/* Token i of the file is i, so a row tells where it was read. */
static void check_places(const struct token_data *data, int64_t offset_bytes, int width) {
    int64_t block_bytes = data->files[0].block_bytes;
    int64_t origin = data->files[0].block_origin;
    int64_t behind = 0; /* the token behind the last row's ids */
    for (int64_t window = 0; window < data->window_count; window++) {
        read_window(data, window);
        int64_t first = ids[0];
        int64_t last = labels[data->sequence - 1];
        assert_int_equal(last - first, data->sequence);
        int64_t first_byte = offset_bytes + first * width - origin;
        int64_t last_byte = offset_bytes + last * width + width - 1 - origin;
        assert_int_equal(first_byte / block_bytes, last_byte / block_bytes);
        assert_true(first >= behind);
        behind = first + data->sequence;
    }
}

static void no_window_crosses_a_block(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int width;
        uint32_t magic;
        int64_t sequence, count, windows;
    } ROWS[] = {
        /* 2^18 tokens a block: 255 rows of 1024 and one more token to predict */
        {"three.u32", 4, 0, 1024, 3 * (BLOCK / 4), 3 * 255},
        {"short.u32", 4, 0, 1024, BLOCK / 4 + 1024, 255},
        {"just.u32", 4, 0, 1024, BLOCK / 4 + 1025, 256},
        {"header.bin", 4, 20240801, 1000, 2 * (BLOCK / 4) - 256, 261 + 262},
        {"whole.u32", 4, 0, BLOCK / 4 - 1, 2 * (BLOCK / 4), 2},
        {"headed.bin", 4, 20240801, BLOCK / 4 - 1, 3 * (BLOCK / 4), 2},
        /* a row longer than a block makes blocks of its own length */
        {"long.u32", 4, 0, BLOCK / 4, 2 * (BLOCK / 4 + 1), 2},
        {"longer.bin", 4, 20240801, BLOCK / 2, BLOCK / 2 + 1, 1},
    };
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        struct scratch_tokens tokens = {.count = ROWS[i].count,
                                        .modulus = 1 << 24,
                                        .width = ROWS[i].width,
                                        .magic = ROWS[i].magic,
                                        .version = 7};
        scratch_write_tokens(ROWS[i].path, &tokens);
        struct token_data data = opened_one(ROWS[i].path, ROWS[i].sequence);
        if (data.window_count != ROWS[i].windows) {
            fail_msg("%s: %lld windows", ROWS[i].path, (long long)data.window_count);
        }
        check_places(&data, ROWS[i].magic != 0 ? 1024 : 0, ROWS[i].width);
        data_close(&data);
    }
}

static void an_id_beyond_the_vocabulary_names_file_and_token(void **state) {
    (void)state;
    static const uint16_t TOKENS[] = {1, 2, 3, 4, 5, 6, 700, 8, 9};
    scratch_write("big.u16", TOKENS, sizeof TOKENS);
    const char *path = "big.u16";
    struct data_options options = options_for(&path, 1, 4);
    options.vocab = 700;
    struct token_data data = opened(&options);
    read_window(&data, 0);
    assert_int_equal(data_read_window(&data, 1, raw, &ROW, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "big.u16: token 6");
    assert_non_null(
        strstr(fault.reason, "the token id 700 is outside the model's vocabulary of 700 ids"));
    data_close(&data);
    options.vocab = 701;
    data = opened(&options);
    read_window(&data, 1);
    data_close(&data);
}

static void ids_above_31_bits_are_refused_not_negative(void **state) {
    (void)state;
    static const uint32_t TOKENS[] = {1, 0x80000001u, 3};
    scratch_write("huge.u32", TOKENS, sizeof TOKENS);
    struct token_data data = opened_one("huge.u32", 2);
    assert_int_equal(data_read_window(&data, 0, raw, &ROW, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "2147483649"));
    data_close(&data);
}

/* Files of unlike forms and lengths, one of them shorter than the widest block. */
static struct token_data several_files(int64_t sequence) {
    static const char *const PATHS[] = {"a.u16", "b.bin", "c.bytes", "d.u32"};
    scratch_write_tokens(PATHS[0], &(struct scratch_tokens){
                                       .count = BLOCK / 2 + 9000, .modulus = 60000, .width = 2});
    scratch_write_tokens(
        PATHS[1],
        &(struct scratch_tokens){
            .count = 5000, .modulus = 60000, .width = 2, .magic = 20240520, .version = 1});
    scratch_write_tokens(PATHS[2],
                         &(struct scratch_tokens){.count = 1001, .modulus = 251, .width = 1});
    scratch_write_tokens(
        PATHS[3], &(struct scratch_tokens){.count = BLOCK / 4, .modulus = 99999, .width = 4});
    struct data_options options = options_for(PATHS, (int)ARRAY_COUNT(PATHS), sequence);
    return opened(&options);
}

static void every_window_comes_once_a_pass_in_another_order_each_time(void **state) {
    (void)state;
    struct token_data data = several_files(500);
    int64_t count = data.window_count;
    assert_int_equal(count, 1048 + 17 + 9 + 2 + 524);
    int64_t *passes = region_alloc(&region, (size_t)(3 * count), sizeof *passes);
    int64_t cursor = 0;
    for (int64_t i = 0; i < 3 * count; i++) {
        passes[i] = data_next_window(&data, 42, &cursor);
    }
    for (int64_t pass = 0; pass < 3; pass++) {
        int64_t *seen = region_alloc(&region, (size_t)count, sizeof *seen);
        for (int64_t i = 0; i < count; i++) {
            int64_t window = passes[pass * count + i];
            assert_in_range(window, 0, count - 1);
            assert_int_equal(seen[window]++, 0);
        }
    }
    int64_t same = 0;
    for (int64_t i = 0; i < count; i++) {
        same += passes[i] == passes[count + i];
    }
    /* Two independent orders agree in about one place. */
    assert_true(same < 50);
    int64_t other = 0;
    cursor = 0;
    same = 0;
    for (int64_t i = 0; i < count; i++) {
        other = data_next_window(&data, 43, &cursor);
        same += passes[i] == other;
    }
    assert_true(same < 50);
    data_close(&data);
}

static void the_order_goes_on_from_any_cursor(void **state) {
    (void)state;
    struct token_data data = several_files(500);
    enum { STEPS = 400 };
    int64_t windows[STEPS], cursors[STEPS];
    int64_t cursor = data.block_count * data.block_windows_max - 1000; /* over a pass's end */
    for (int i = 0; i < STEPS; i++) {
        cursors[i] = cursor;
        windows[i] = data_next_window(&data, 7, &cursor);
        assert_true(cursor > cursors[i]);
    }
    for (int i = STEPS - 1; i >= 0; i--) {
        cursor = cursors[i];
        assert_int_equal(data_next_window(&data, 7, &cursor), windows[i]);
    }
    data_close(&data);
}

static void windows_of_every_file_are_read_from_that_file(void **state) {
    (void)state;
    struct token_data data = several_files(500);
    read_window(&data, 1048 + 17); /* the first of b.bin */
    assert_int_equal(ids[0], 0);
    assert_int_equal(labels[499], 500);
    read_window(&data, 1048 + 17 + 9 + 1); /* the second of c.bytes */
    assert_int_equal(ids[0], 500 % 251);
    read_window(&data, data.window_count - 1);
    assert_int_equal(ids[0], 523 * 500 % 99999);
    data_close(&data);
}

static void a_file_above_4_gib_is_read_where_its_tokens_lie(void **state) {
    (void)state;
    const int64_t bytes = ((int64_t)5 << 30) + 4 * 77;
    int fd = open("sparse.u32", O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    if (ftruncate(fd, bytes) != 0) {
        close(fd);
        skip(); /* a file system without sparse files of this size */
    }
    const int64_t marked = ((int64_t)4 << 30) + BLOCK + 3 * 16 * 4; /* row 3 of a block */
    const uint32_t TOKEN = 1234;
    assert_int_equal(pwrite(fd, &TOKEN, 4, marked), 4);
    close(fd);
    struct token_data data = opened_one("sparse.u32", 16);
    int64_t each = (BLOCK / 4 - 1) / 16;
    assert_int_equal(data.window_count, 5120 * each + 76 / 16);
    read_window(&data, 4097 * each + 3);
    assert_int_equal(ids[0], 1234);
    assert_int_equal(ids[1], 0);
    read_window(&data, data.window_count - 1);
    int64_t cursor = (int64_t)1 << 40;
    assert_in_range(data_next_window(&data, 3, &cursor), 0, data.window_count - 1);
    data_close(&data);
    assert_int_equal(unlink("sparse.u32"), 0);
}

/* 9 ends a document. */
static struct token_data packed(const char *path, const uint8_t *tokens, size_t count,
                                int64_t sequence) {
    scratch_write(path, tokens, count);
    struct data_options options = options_for(&path, 1, sequence);
    options.separator = 9;
    return opened(&options);
}

static void positions_restart_behind_each_separator(void **state) {
    (void)state;
    static const uint8_t TOKENS[] = {1, 2, 9, 3, 4, 5, 9, 9, 6, 7, 8, 9, 1};
    static const int32_t POSITIONS[] = {0, 1, 2, 0, 1, 2, 3, 0, 0, 1, 2, 3};
    static const int32_t LABELS[] = {2, 9, -100, 4, 5, 9, -100, -100, 7, 8, 9, -100};
    struct token_data data = packed("docs.bytes", TOKENS, sizeof TOKENS, 12);
    assert_int_equal(data.window_count, 1);
    read_window(&data, 0);
    for (int t = 0; t < 12; t++) {
        assert_int_equal(ids[t], TOKENS[t]);
        assert_int_equal(positions[t], POSITIONS[t]);
        assert_int_equal(labels[t], LABELS[t]);
    }
    int64_t valid = 0;
    assert_int_equal(data_count_valid_labels(&data, 0, raw, &valid, &fault), OK);
    assert_int_equal(valid, 8);
    data_close(&data);
}

static void a_window_begins_a_document_of_its_own(void **state) {
    (void)state;
    static const uint8_t TOKENS[] = {1, 2, 3, 4, 5, 9, 7, 8, 9};
    struct token_data data = packed("cut.bytes", TOKENS, sizeof TOKENS, 4);
    read_window(&data, 1);
    static const int32_t POSITIONS[] = {0, 1, 0, 1};
    static const int32_t LABELS[] = {9, -100, 8, 9};
    assert_memory_equal(positions, POSITIONS, sizeof POSITIONS);
    assert_memory_equal(labels, LABELS, sizeof LABELS);
    data_close(&data);
}

static void valid_labels_are_counted_as_the_rows_have_them(void **state) {
    (void)state;
    enum { COUNT = 3000, SEQUENCE = 64 };
    uint8_t tokens[COUNT];
    uint32_t noise = 12345;
    for (int i = 0; i < COUNT; i++) {
        noise = noise * 1664525u + 1013904223u;
        tokens[i] = (uint8_t)(noise >> 24 & 15);
    }
    struct token_data data = packed("noise.bytes", tokens, sizeof tokens, SEQUENCE);
    int64_t sum = 0;
    for (int64_t window = 0; window < data.window_count; window++) {
        int64_t valid = 0;
        int64_t wanted = 0;
        assert_int_equal(data_count_valid_labels(&data, window, raw, &valid, &fault), OK);
        read_window(&data, window);
        for (int t = 0; t < SEQUENCE; t++) {
            wanted += labels[t] != -100;
        }
        assert_int_equal(valid, wanted);
        sum += valid;
    }
    assert_true(sum > 0 && sum < data.window_count * SEQUENCE);
    data.separator = DATA_NO_SEPARATOR;
    int64_t all = 0;
    assert_int_equal(data_count_valid_labels(&data, 0, NULL, &all, &fault), OK);
    assert_int_equal(all, SEQUENCE);
    data_close(&data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_row_is_ids_with_the_next_token_as_label, finish_region),
        cmocka_unit_test_teardown(a_file_needs_one_token_more_than_a_row, finish_region),
        cmocka_unit_test_teardown(a_file_shorter_than_a_row_adds_no_row, finish_region),
        cmocka_unit_test_teardown(no_window_crosses_a_block, finish_region),
        cmocka_unit_test_teardown(an_id_beyond_the_vocabulary_names_file_and_token, finish_region),
        cmocka_unit_test_teardown(ids_above_31_bits_are_refused_not_negative, finish_region),
        cmocka_unit_test_teardown(every_window_comes_once_a_pass_in_another_order_each_time,
                                  finish_region),
        cmocka_unit_test_teardown(the_order_goes_on_from_any_cursor, finish_region),
        cmocka_unit_test_teardown(windows_of_every_file_are_read_from_that_file, finish_region),
        cmocka_unit_test_teardown(a_file_above_4_gib_is_read_where_its_tokens_lie, finish_region),
        cmocka_unit_test_teardown(positions_restart_behind_each_separator, finish_region),
        cmocka_unit_test_teardown(a_window_begins_a_document_of_its_own, finish_region),
        cmocka_unit_test_teardown(valid_labels_are_counted_as_the_rows_have_them, finish_region),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
