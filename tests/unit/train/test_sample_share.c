/* Tests of train/sample_share: every window of the given ranges comes once, in their order,
 * whatever was trained before, and nothing else does. */
#include "runtime/data/sample_assignment.h"
#include "scratch.h"

#include "base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Two blocks of 1 MiB and a short one; some passes over them. */
enum { SEQUENCE = 4096, FILE_BYTES = (2 << 20) + 300000, SEED = 5, SAMPLES_MAX = 2000 };

static struct region region;
static struct token_data data;
static struct sample_order order;
static int64_t window_at[SAMPLES_MAX]; /* of the stream */

static int open_data(void **state) {
    static uint8_t bytes[FILE_BYTES];
    int failed = scratch_open(state);
    struct fault fault;
    scratch_write("text.bytes", bytes, sizeof bytes);
    const char *path = "text.bytes";
    struct data_options options = {.paths = {.paths = &path, .count = 1},
                                   .sequence = SEQUENCE,
                                   .vocab = 256,
                                   .separator = DATA_NO_SEPARATOR};
    assert_int_equal(data_open(&options, &region, &data, &fault), OK);
    int64_t cursor = 0;
    for (int k = 0; k < SAMPLES_MAX; k++) {
        window_at[k] = data_next_window(&data, SEED, &cursor);
    }
    sample_order_init(&data, SEED, &region, &order);
    return failed;
}

static int close_data(void **state) {
    data_close(&data);
    region_finish(&region);
    return scratch_close(state);
}

/* All windows of the ranges, sample by sample, less the trained ones. */
static int64_t expect_windows(const struct sample_assignment *share, int64_t *windows) {
    int64_t count = 0;
    for (uint32_t r = 0; r < share->assigned_count; r++) {
        for (uint64_t at = share->assigned[r].begin; at < share->assigned[r].end; at++) {
            bool trained = false;
            for (uint32_t t = 0; t < share->trained_count; t++) {
                trained |= at >= share->trained[t].begin && at < share->trained[t].end;
            }
            if (!trained) {
                windows[count++] = window_at[at];
            }
        }
    }
    return count;
}

static void check_walk(const struct sample_assignment *share) {
    static int64_t wanted[SAMPLES_MAX];
    int64_t count = expect_windows(share, wanted);
    struct assignment_position place = {0};
    int64_t window = -1;
    for (int64_t i = 0; i < count; i++) {
        assert_true(assignment_next_window(share, &order, &place, &window));
        assert_int_equal(window, wanted[i]);
    }
    assert_false(assignment_next_window(share, &order, &place, &window));
}

/* Trains up to `windows` more of a share, as a round that is cut short does. */
static void train(struct sample_assignment *share, int windows, int64_t tokens) {
    struct assignment_position from = {0};
    struct assignment_position place = {0};
    int64_t window;
    while (windows > 0 && assignment_next_window(share, &order, &place, &window)) {
        windows--;
    }
    assignment_mark_trained(share, &from, &place, tokens);
}

static void any_sample_is_found_alone(void **state) {
    (void)state;
    for (uint64_t i = 0; i < SAMPLES_MAX; i++) {
        uint64_t k = i * 797 % SAMPLES_MAX;
        assert_int_equal(sample_order_window(&order, k), window_at[k]);
    }
    assert_int_equal(order.short_count, 1);
}

static void windows_come_in_the_order_of_the_ranges(void **state) {
    (void)state;
    struct sample_assignment share = {0};
    static const struct sample_range RANGES[] = {{700, 733}, {10, 47}, {0, 3}, {1500, 1900}};
    assert_true(assignment_set_ranges(&share, RANGES, 4));
    check_walk(&share);
    assert_true(assignment_set_ranges(&share, RANGES, 0));
    check_walk(&share);
}

static void what_was_trained_counts_after_an_abort(void **state) {
    (void)state;
    struct sample_assignment share = {0};
    static const struct sample_range RANGES[] = {{100, 140}, {140, 180}, {600, 640}, {40, 80}};
    for (uint32_t aborts = 0; aborts < 4; aborts++) {
        assert_true(assignment_set_ranges(&share, RANGES, aborts + 1));
        check_walk(&share);
        train(&share, 17, 1000);
        check_walk(&share);
        assert_int_equal(share.tokens, 1000 * (aborts + 1));
    }
    for (uint32_t i = 1; i < share.trained_count; i++) {
        assert_true(share.trained[i - 1].end < share.trained[i].begin);
    }
}

static void trained_pieces_join(void **state) {
    (void)state;
    struct sample_assignment share = {0};
    struct assignment_position from = {.range = 0, .sample = 0};
    struct assignment_position to = {.range = 0, .sample = 20};
    static const struct sample_range RANGE[] = {{10, 60}};
    assert_true(assignment_set_ranges(&share, RANGE, 1));
    assignment_mark_trained(&share, &from, &to, 5);
    from.sample = 40;
    to.sample = 50;
    assignment_mark_trained(&share, &from, &to, 5);
    assert_int_equal(share.trained_count, 2);
    check_walk(&share);
    from.sample = 15;
    to.sample = 45;
    assignment_mark_trained(&share, &from, &to, 5);
    assert_int_equal(share.trained_count, 1);
    assert_int_equal(share.trained[0].begin, 10);
    assert_int_equal(share.trained[0].end, 50);
    check_walk(&share);
}

static void what_is_no_longer_given_must_be_forgotten(void **state) {
    (void)state;
    struct sample_assignment share = {0};
    static const struct sample_range FIRST[] = {{100, 140}};
    static const struct sample_range WIDER[] = {{90, 150}};
    static const struct sample_range OTHER[] = {{101, 200}};
    assert_true(assignment_set_ranges(&share, FIRST, 1));
    train(&share, 5, 50);
    assert_true(assignment_set_ranges(&share, WIDER, 1));
    check_walk(&share);
    assert_false(assignment_set_ranges(&share, OTHER, 1));
    assignment_clear_trained(&share);
    assert_int_equal(share.tokens, 0);
    check_walk(&share);
}

static void ranges_beyond_all_samples_hold_nothing(void **state) {
    (void)state;
    struct sample_assignment share = {0};
    struct assignment_position place = {0};
    int64_t window;
    struct sample_range far = {DATA_CURSOR_MAX + 1, UINT64_MAX};
    assert_true(assignment_set_ranges(&share, &far, 1));
    assert_false(assignment_next_window(&share, &order, &place, &window));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_sample_is_found_alone),
        cmocka_unit_test(windows_come_in_the_order_of_the_ranges),
        cmocka_unit_test(what_was_trained_counts_after_an_abort),
        cmocka_unit_test(trained_pieces_join),
        cmocka_unit_test(what_is_no_longer_given_must_be_forgotten),
        cmocka_unit_test(ranges_beyond_all_samples_hold_nothing),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
