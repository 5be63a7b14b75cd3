/* Tests of base/random: published vectors, moments within their standard errors, permutations. */
#include "base/check.h"
#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 1 << 20, COUNT_MAX = 5000 };

static void block_gives_the_published_words(void **state) {
    (void)state;
    /* The first from the known answers that come with Random123; the second from an implementation
     * in another language, checked against all of them. */
    static const struct {
        uint64_t key, index;
        uint32_t words[4];
    } CASES[] = {
        {0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {0x299f31d0a4093822, 0x243f6a8885a308d3, {0x83019b0e, 0xfdaa390f, 0x17f89895, 0x87579be3}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        uint32_t words[4];
        random_block(CASES[i].key, CASES[i].index, words);
        assert_memory_equal(words, CASES[i].words, sizeof words);
    }
}

static void key_is_the_head_of_a_blake2b_of_seed_and_name(void **state) {
    (void)state;
    assert_true(random_key(7, "wte") == 0x4b4427d44e7e9331);
    assert_true(random_key(7, "wpe") != random_key(7, "wte"));
    assert_true(random_key(8, "wte") != random_key(7, "wte"));
}

/* Moments over SAMPLES values must lie within five standard errors of the distribution's. */
static void uniform_has_the_moments_of_its_interval(void **state) {
    (void)state;
    const uint64_t key = random_key(3, "uniform");
    double sum = 0;
    double squares = 0;
    double products = 0;
    double last = 0;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        double value = random_uniform(key, i);
        assert_true(value >= 0 && value < 1);
        double centred = value - 0.5;
        sum += centred;
        squares += centred * centred;
        products += centred * last;
        last = centred;
    }
    double error = 5 / sqrt(SAMPLES);
    assert_true(fabs(sum / SAMPLES) < error * sqrt(1.0 / 12));
    assert_true(fabs(squares / SAMPLES - 1.0 / 12) < error * sqrt(1.0 / 180));
    assert_true(fabs(products / SAMPLES) < error / 12);
}

static void normal_has_unit_variance_and_the_kurtosis_of_twelve_uniforms(void **state) {
    (void)state;
    const uint64_t key = random_key(4, "normal");
    double moments[5] = {0};
    for (uint64_t i = 0; i < SAMPLES; i++) {
        double value = (double)random_normal(key, i);
        assert_true(fabs(value) <= 6);
        double power = 1;
        for (int m = 1; m <= 4; m++) {
            power *= value;
            moments[m] += power / SAMPLES;
        }
    }
    /* Standard errors of a normal's moments: 1, sqrt 2, sqrt 15, sqrt 96, over sqrt n. */
    double error = 5 / sqrt(SAMPLES);
    assert_true(fabs(moments[1]) < error);
    assert_true(fabs(moments[2] - 1) < error * sqrt(2));
    assert_true(fabs(moments[3]) < error * sqrt(15));
    assert_true(fabs(moments[4] - 2.9) < error * sqrt(96));
}

static void normal_values_have_the_bits_that_runs_start_from(void **state) {
    (void)state;
    /* Computed with whole numbers of any size in another language. */
    static const struct {
        uint64_t key, index;
        uint32_t bits;
    } CASES[] = {
        {0x4b4427d44e7e9331, 0, 0x3ea29dc0},
        {0x4b4427d44e7e9331, 1, 0xbf33b468},
        {0x4b4427d44e7e9331, 0x7fffffff, 0xbea575b0},
        {0x4b4427d44e7e9331, 0x80000000, 0x3f9a72e0},
        {0x4b4427d44e7e9331, 0x10000000000, 0x3e414c20},
        {0x4b4427d44e7e9331, 0x7fffffffffffffff, 0x3cb69200},
        {0x0, 0, 0x3fac22dc},
        {0x0, 1, 0xbe96ab50},
        {0x0, 0x7fffffff, 0xbfbe73fc},
        {0x0, 0x80000000, 0xbfe3af48},
        {0x0, 0x10000000000, 0x3f806524},
        {0x0, 0x7fffffffffffffff, 0x3f96d314},
        {0xffffffffffffffff, 0, 0xbf9f5874},
        {0xffffffffffffffff, 1, 0xbf8b601c},
        {0xffffffffffffffff, 0x7fffffff, 0x3f9c1884},
        {0xffffffffffffffff, 0x80000000, 0xbe820cb0},
        {0xffffffffffffffff, 0x10000000000, 0x3f5c5628},
        {0xffffffffffffffff, 0x7fffffffffffffff, 0xc007a420},
    };
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        float value = random_normal(CASES[i].key, CASES[i].index);
        assert_memory_equal(&value, &CASES[i].bits, sizeof value);
    }
}

static void values_depend_on_key_and_index_alone(void **state) {
    (void)state;
    const uint64_t key = random_key(5, "x");
    float forward[64];
    for (uint64_t i = 0; i < 64; i++) {
        forward[i] = random_normal(key, i);
    }
    for (uint64_t i = 64; i-- > 0;) {
        float again = random_normal(key, i);
        assert_memory_equal(&again, &forward[i], sizeof again);
        assert_true(again != random_normal(key + 1, i));
    }
    assert_true(random_uniform(key, (uint64_t)1 << 40) != random_uniform(key, 0));
}

static void permute_visits_every_position_once(void **state) {
    (void)state;
    static const uint64_t COUNTS[] = {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097, COUNT_MAX};
    for (size_t c = 0; c < ARRAY_COUNT(COUNTS); c++) {
        bool seen[COUNT_MAX] = {false};
        int fixed = 0;
        for (uint64_t i = 0; i < COUNTS[c]; i++) {
            uint64_t to = random_permute(11, i, COUNTS[c]);
            assert_true(to < COUNTS[c]);
            assert_false(seen[to]);
            seen[to] = true;
            fixed += to == i;
        }
        /* Fixed points of a random permutation are Poisson with mean 1: 12 has chance 1e-10. */
        assert_true(COUNTS[c] < 16 || fixed < 12);
    }
}

static void permute_depends_on_its_key_and_spans_large_counts(void **state) {
    (void)state;
    int same = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        same += random_permute(1, i, 1000) == random_permute(2, i, 1000);
        assert_true(random_permute(1, i, ((uint64_t)1 << 62) - 1) < ((uint64_t)1 << 62) - 1);
    }
    assert_true(same < 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_gives_the_published_words),
        cmocka_unit_test(key_is_the_head_of_a_blake2b_of_seed_and_name),
        cmocka_unit_test(uniform_has_the_moments_of_its_interval),
        cmocka_unit_test(normal_has_unit_variance_and_the_kurtosis_of_twelve_uniforms),
        cmocka_unit_test(normal_values_have_the_bits_that_runs_start_from),
        cmocka_unit_test(values_depend_on_key_and_index_alone),
        cmocka_unit_test(permute_visits_every_position_once),
        cmocka_unit_test(permute_depends_on_its_key_and_spans_large_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
