/* test_init: first values have the moments that transformers asks for, whatever the range. */
#include "runtime/model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct param MATRIX = {
    .name = "a.weight", .rank = 2, .shape = {512, 512}, .init = INIT_NORMAL, .init_std = 0.02f};

static void any_range_has_the_bits_of_the_whole(void **state) {
    (void)state;
    enum { COUNT = 512 * 512 };
    static const int64_t RANGES[][2] = {{0, 1}, {1, 63}, {64, 64}, {511, 513}, {COUNT - 7, 7}};
    float *whole = malloc(COUNT * sizeof *whole);
    float part[513];
    param_init_fill(&MATRIX, 42, 0, COUNT, whole);
    for (size_t i = 0; i < ARRAY_COUNT(RANGES); i++) {
        int64_t first = RANGES[i][0];
        int64_t count = RANGES[i][1];
        param_init_fill(&MATRIX, 42, first, count, part);
        assert_memory_equal(part, whole + first, (size_t)count * sizeof *part);
    }
    free(whole);
}

static void normal_values_have_the_stated_deviation(void **state) {
    (void)state;
    enum { COUNT = 512 * 512 };
    float *values = malloc(COUNT * sizeof *values);
    double sum = 0;
    double squares = 0;
    param_init_fill(&MATRIX, 1, 0, COUNT, values);
    for (int i = 0; i < COUNT; i++) {
        sum += values[i];
        squares += (double)values[i] * values[i];
    }
    /* Five standard errors of mean and deviation over 262,144 draws. */
    assert_true(fabs(sum / COUNT) < 5 * 0.02 / 512);
    assert_true(fabs(sqrt(squares / COUNT) - 0.02) < 5 * 0.02 / 724);
    free(values);
}

static void seed_and_name_give_other_values(void **state) {
    (void)state;
    struct param other = MATRIX;
    other.name = "b.weight";
    float values[3][64];
    param_init_fill(&MATRIX, 1, 0, 64, values[0]);
    param_init_fill(&MATRIX, 2, 0, 64, values[1]);
    param_init_fill(&other, 1, 0, 64, values[2]);
    int equal = 0;
    for (int i = 0; i < 64; i++) {
        equal += values[0][i] == values[1][i] || values[0][i] == values[2][i];
    }
    assert_true(equal < 4);
}

static void norms_start_at_one_and_biases_at_zero(void **state) {
    (void)state;
    struct param param = {.name = "n", .rank = 1, .shape = {5, 1}, .init = INIT_ONE};
    float values[6] = {7, 7, 7, 7, 7, 7};
    param_init_fill(&param, 1, 1, 4, values);
    assert_true(values[0] == 1 && values[3] == 1 && values[4] == 7);
    param.init = INIT_ZERO;
    param_init_fill(&param, 1, 0, 5, values);
    assert_true(values[0] == 0 && values[4] == 0 && values[5] == 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_range_has_the_bits_of_the_whole),
        cmocka_unit_test(normal_values_have_the_stated_deviation),
        cmocka_unit_test(seed_and_name_give_other_values),
        cmocka_unit_test(norms_start_at_one_and_biases_at_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
