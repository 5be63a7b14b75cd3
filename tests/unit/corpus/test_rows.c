/* Tests of packed rows: no conversation is divided or lost, little is wasted, and the files of rows
 * are read as they were written: ids, labels and positions, token by token. */
#include "../train/scratch.h"
#include "base/check.h"
#include "base/random.h"
#include "runtime/corpus/row_packer.h"
#include "runtime/corpus/shard_writer.h"
#include "runtime/data/data.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ROW_TOKENS = 2048, VOCAB = 50000 };

static struct fault fault;
static struct row_packer packer;

static void must(enum status status) {
    if (status != OK) {
        fail_msg("%s: %s; %s", fault.subject, fault.reason, fault.remedy);
    }
}

static double uniform(uint64_t seed, uint64_t index) {
    uint32_t words[4];
    random_block(random_key(seed, "rows"), index, words);
    return (words[0] + 0.5) / 4294967296.0;
}

/* A length whose logarithm is normal with the deviation 1, and whose mean is 250; at most a row. */
static int32_t log_normal(uint64_t index) {
    const double pi = 3.14159265358979;
    const double normal = sqrt(-2 * log(uniform(1, index))) * cos(2 * pi * uniform(2, index));
    const double length = exp(log(250) - 0.5 + normal);
    return length < 2 ? 2 : length > ROW_TOKENS ? ROW_TOKENS : (int32_t)length;
}

/* Conversation `index`: its first id is the index, and each id adds one. */
static void add(int index, int32_t length, struct region *region) {
    int32_t ids[ROW_TOKENS];
    bool is_trained[ROW_TOKENS];
    for (int32_t i = 0; i < length; i++) {
        ids[i] = (index + i) % VOCAB;
        is_trained[i] = (index + i) % 3 == 0;
    }
    row_packer_add(&packer, ids, is_trained, length, region);
}

/* Checks that the rows contain each conversation once and undivided. */
static void check_rows(int count, const int32_t *lengths) {
    static bool is_found[1 << 20];
    static int32_t row[ROW_TOKENS];
    memset(is_found, 0, sizeof is_found);
    int64_t found_tokens = 0;
    for (int r = 0; r < packer.row_count; r++) {
        const int64_t filled = row_packer_fill(&packer, r, 7, row);
        for (int64_t t = 0; t < filled;) {
            assert_true((row[t] & PACKED_START) != 0);
            const int index = row[t] & PACKED_ID;
            assert_true(index < count && !is_found[index] && t + lengths[index] <= filled);
            is_found[index] = true;
            for (int32_t i = 0; i < lengths[index]; i++) {
                assert_int_equal(row[t + i] & PACKED_ID, (index + i) % VOCAB);
                assert_int_equal((row[t + i] & PACKED_TRAINED) != 0, (index + i) % 3 == 0);
                assert_int_equal((row[t + i] & PACKED_START) != 0, i == 0);
            }
            t += lengths[index];
        }
        found_tokens += filled;
        for (int64_t t = filled; t < ROW_TOKENS; t++) {
            assert_int_equal(row[t], t == filled ? 7 | PACKED_START : 7);
        }
    }
    assert_int_equal(found_tokens, packer.token_count);
    for (int i = 0; i < count; i++) {
        assert_true(is_found[i]);
    }
}

static void little_of_log_normal_rows_is_wasted(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static int32_t lengths[COUNT];
    struct region region = {0};
    row_packer_init(&packer, ROW_TOKENS, &region);
    for (int i = 0; i < COUNT; i++) {
        lengths[i] = log_normal((uint64_t)i);
        add(i, lengths[i], &region);
    }
    row_packer_pack(&packer);
    check_rows(COUNT, lengths);
    const double waste = 1 - (double)packer.token_count / ((double)packer.row_count * ROW_TOKENS);
    print_message("waste %.3f %%\n", 100 * waste);
    assert_true(waste <= 0.02);
    row_packer_clear(&packer);
    row_packer_pack(&packer);
    assert_int_equal(packer.row_count, 0);
    region_finish(&region);
}

static void lengths_at_the_limits_are_packed(void **state) {
    (void)state;
    static const int32_t LENGTHS[] = {ROW_TOKENS, 1, ROW_TOKENS - 1, 64, ROW_TOKENS - 64, 63};
    struct region region = {0};
    row_packer_init(&packer, ROW_TOKENS, &region);
    for (int i = 0; i < (int)ARRAY_COUNT(LENGTHS); i++) {
        add(i, LENGTHS[i], &region);
    }
    row_packer_pack(&packer);
    assert_int_equal(packer.row_count, 4);
    check_rows((int)ARRAY_COUNT(LENGTHS), LENGTHS);
    region_finish(&region);
}

/* ---- files ---- */

enum { SHORT_ROW = 12, ROWS = 7, ROWS_OF_A_FILE = 3 };

/* Conversations of 5 and 4 tokens in each row, and 3 of padding; their last two are trained. */
static int32_t token_of(int row, int t) {
    const int start = t < 5 ? 0 : t < 9 ? 5 : 9;
    const bool is_trained = t == 3 || t == 4 || t == 7 || t == 8;
    return (row * SHORT_ROW + t) | (t == start ? PACKED_START : 0) |
           (is_trained ? PACKED_TRAINED : 0);
}

static void write_rows(int width) {
    const struct shard_header header = {.width = width,
                                        .has_origin = true,
                                        .document_token = SHARD_NO_DOCUMENT_TOKEN,
                                        .has_mask = true,
                                        .row_tokens = SHORT_ROW};
    struct region region = {0};
    static struct shard_writer writer;
    shard_writer_init(&writer, ".", width == 2 ? "narrow" : "wide", &header,
                      ROWS_OF_A_FILE * SHORT_ROW);
    shard_writer_init_mask(&writer, &region);
    for (int r = 0; r < ROWS; r++) {
        int32_t row[SHORT_ROW];
        for (int t = 0; t < SHORT_ROW; t++) {
            row[t] = token_of(r, t);
        }
        must(shard_writer_add_row(&writer, row, 2, &fault));
    }
    must(shard_writer_end(&writer, &fault));
    assert_int_equal(writer.position.total.documents, 2 * ROWS);
    region_finish(&region);
}

static void open_rows(const char *name, int64_t sequence, struct region *region,
                      struct token_data *data, enum status expected) {
    static char paths[3][64];
    static const char *list[3];
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s_%06d.bin", name, i);
        list[i] = paths[i];
    }
    const struct data_options options = {.paths = {.paths = list, .count = 3},
                                         .sequence = sequence,
                                         .vocab = 1000,
                                         .separator = 5, /* an id like any other in rows */
                                         .reads_separator = true};
    assert_int_equal(data_open(&options, region, data, &fault), expected);
}

static void check_row(const struct token_data *data, int r) {
    static const int POSITIONS[SHORT_ROW] = {0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 1, 2};
    uint8_t raw[(SHORT_ROW + 1) * 4];
    int32_t ids[SHORT_ROW], labels[SHORT_ROW], positions[SHORT_ROW];
    const struct token_row row = {.ids = ids, .labels = labels, .positions = positions};
    int64_t valid = 0;
    must(data_read_window(data, r, raw, &row, &fault));
    for (int t = 0; t < SHORT_ROW; t++) {
        const int32_t next = t + 1 < SHORT_ROW ? token_of(r, t + 1) : 0;
        assert_int_equal(ids[t], token_of(r, t) & PACKED_ID);
        assert_int_equal(labels[t], (next & PACKED_TRAINED) != 0 ? next & PACKED_ID : -100);
        assert_int_equal(positions[t], POSITIONS[t]);
    }
    must(data_count_valid_labels(data, r, raw, &valid, &fault));
    assert_int_equal(valid, 4);
}

static void rows_are_read_as_they_were_written(void **state) {
    (void)state;
    for (int width = 2; width <= 4; width += 2) {
        struct region region = {0};
        struct token_data data;
        bool is_visited[ROWS] = {false};
        int64_t cursor = 0;
        write_rows(width);
        open_rows(width == 2 ? "narrow" : "wide", SHORT_ROW, &region, &data, OK);
        assert_int_equal(data.window_count, ROWS);
        for (int r = 0; r < ROWS; r++) {
            check_row(&data, r);
        }
        for (int r = 0; r < ROWS; r++) { /* one pass visits each row once */
            const int64_t window = data_next_window(&data, 3, &cursor);
            assert_true(window >= 0 && window < ROWS && !is_visited[window]);
            is_visited[window] = true;
        }
        data_close(&data);
        region_finish(&region);
    }
}

static void another_sequence_is_rejected(void **state) {
    (void)state;
    struct region region = {0};
    struct token_data data;
    write_rows(2);
    open_rows("narrow", SHORT_ROW - 1, &region, &data, STATUS_INPUT);
    assert_string_equal(fault.reason, "is packed into rows of 12 tokens, but batch.sequence is 11");
    assert_string_equal(fault.remedy,
                        "set batch.sequence to 12, or make the file again with --sequence 11");
    region_finish(&region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_of_log_normal_rows_is_wasted),
        cmocka_unit_test(lengths_at_the_limits_are_packed),
        cmocka_unit_test(rows_are_read_as_they_were_written),
        cmocka_unit_test(another_sequence_is_rejected),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
