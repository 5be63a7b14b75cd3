/* test_statistics: ranks and medians against a sorted copy. */
#include "base/statistics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VALUES = 17, TRIES = 200 };

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void ranks_are_those_of_a_sorted_array(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int try = 0; try < TRIES; try++) {
        int64_t values[VALUES] = {0};
        int64_t sorted[VALUES];
        double reals[VALUES];
        int count = 1 + try % VALUES;
        for (int i = 0; i < count; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            values[i] = (int64_t)(seed >> 60) - 8; /* few different ones: ties are common */
            reals[i] = (double)values[i] / 2;
        }
        memcpy(sorted, values, sizeof sorted);
        qsort(sorted, (size_t)count, sizeof *sorted, by_value);
        for (int rank = 0; rank < count; rank++) {
            assert_int_equal(sorted_value_i64(values, count, rank), sorted[rank]);
            assert_true(sorted_value_f64(reals, count, rank) == (double)sorted[rank] / 2);
        }
        assert_int_equal(median_i64(values, count), sorted[count / 2]);
        assert_true(median_f64(reals, count) == (double)sorted[count / 2] / 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_are_those_of_a_sorted_array)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
