/* test_cursor: no sample is given twice, none is lost while there is room, against a bitmap. */
#include "runtime/swarm/ledger/entry.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 4096, HELD_MAX = 64, STEPS = 2000 };

static void cursor_gives_each_sample_to_one_holder_under_random_traffic(void **state) {
    (void)state;
    static struct data_cursor cursor;
    static uint8_t holders[SAMPLES];
    struct sample_range held[HELD_MAX];
    uint32_t held_count = 0;
    uint64_t key = random_key(7, "cursor");
    for (uint64_t step = 0; step < STEPS; step++) {
        int takes = held_count == 0 || random_uniform(key, 2 * step) < 0.5;
        if (takes && held_count < HELD_MAX) {
            uint64_t count = 1 + (uint64_t)(random_uniform(key, 2 * step + 1) * 20);
            struct sample_range range = cursor_hand_out(&cursor, count);
            assert_true(range.begin < range.end && range.end - range.begin <= count);
            assert_true(range.end <= SAMPLES);
            for (uint64_t k = range.begin; k < range.end; k++) {
                assert_int_equal(holders[k]++, 0);
            }
            held[held_count++] = range;
        } else {
            uint32_t at = (uint32_t)(random_uniform(key, 2 * step + 1) * held_count);
            for (uint64_t k = held[at].begin; k < held[at].end; k++) {
                holders[k]--;
            }
            cursor_return(&cursor, held[at]);
            held[at] = held[--held_count];
        }
    }
    /* What nobody holds is exactly what the cursor lists. */
    for (uint32_t row = 0; row < cursor.returned_count; row++) {
        struct sample_range range = cursor.returned[row];
        assert_true(row == 0 || cursor.returned[row - 1].end < range.begin);
        for (uint64_t k = range.begin; k < range.end; k++) {
            assert_int_equal(holders[k]++, 0);
        }
    }
    for (uint64_t k = 0; k < cursor.position; k++) {
        assert_int_equal(holders[k], 1);
    }
}

static void cursor_takes_back_a_range_from_the_middle_of_a_row(void **state) {
    (void)state;
    static struct data_cursor cursor = {.position = 100, .returned_count = 1};
    cursor.returned[0] = (struct sample_range){10, 50};
    assert_int_equal(cursor_reclaim(&cursor, (struct sample_range){20, 30}), 1);
    assert_int_equal(cursor.returned_count, 2);
    assert_int_equal(cursor.returned[0].end, 20);
    assert_int_equal(cursor.returned[1].begin, 30);
    assert_int_equal(cursor.returned[1].end, 50);
    assert_int_equal(cursor_reclaim(&cursor, (struct sample_range){15, 35}), 0);
    assert_int_equal(cursor.returned_count, 2);
}

static void cursor_skips_what_its_list_has_no_row_for(void **state) {
    (void)state;
    static struct data_cursor cursor = {.position = 4 * SWARM_RETURNED_RANGES_MAX};
    for (uint64_t row = 0; row <= SWARM_RETURNED_RANGES_MAX; row++) {
        cursor_return(&cursor, (struct sample_range){3 * row, 3 * row + 1});
    }
    assert_int_equal(cursor.returned_count, SWARM_RETURNED_RANGES_MAX);
    assert_int_equal(cursor.returned[SWARM_RETURNED_RANGES_MAX - 1].begin,
                     3 * (SWARM_RETURNED_RANGES_MAX - 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cursor_gives_each_sample_to_one_holder_under_random_traffic),
        cmocka_unit_test(cursor_takes_back_a_range_from_the_middle_of_a_row),
        cmocka_unit_test(cursor_skips_what_its_list_has_no_row_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
