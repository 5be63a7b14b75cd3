/* The sum of squares of an encoded vector, compared with the decoded values in long double. */
#include "tests/kernels/codec_reference.h"
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT_MAX = 1500, BYTES_MAX = 4 * COUNT_MAX };

static const int64_t COUNTS[] = {0, 1, 2, 63, 64, 65, 255, 256, 257, 1000, COUNT_MAX};

static void fill(float *values, int64_t count, int exponent) {
    for (int64_t i = 0; i < count; i++) {
        values[i] = ldexpf(random_normal(harness_seed(), (uint64_t)i), exponent);
    }
}

static void check_energy(enum codec codec, int64_t count, int exponent) {
    float values[COUNT_MAX], decoded[COUNT_MAX];
    uint8_t *bytes = malloc(codec_bytes(codec, count) + 1); /* so that a sanitizer sees its end */
    assert_non_null(bytes);
    fill(values, count, exponent);
    const struct compute *compute = codec_compute(cpu_level_detect());
    struct codec_encode_args args = {.codec = codec, .count = count, .source = values};
    assert_true(codec_encode(compute, &args, bytes));
    codec_decode(compute, codec, count, bytes, decoded);
    long double expected = 0;
    for (int64_t i = 0; i < count; i++) {
        expected += (long double)decoded[i] * (long double)decoded[i];
    }
    long double found = (long double)codec_energy(codec, count, bytes);
    /* Each decoded value is rounded to fp32 once, each addition of the energy to fp64. */
    if (!(fabsl(found - expected) <= 0x1p-22L * expected)) {
        fail_msg("%s, %lld elements of 2^%d: the energy is %Lg, not %Lg", codec_name(codec),
                 (long long)count, exponent, found, expected);
    }
    free(bytes);
}

static void the_energy_is_the_sum_of_the_squares_of_the_decoded_values(void **state) {
    (void)state;
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        for (size_t i = 0; i < ARRAY_COUNT(COUNTS); i++) {
            check_energy((enum codec)codec, COUNTS[i], 0);
            check_energy((enum codec)codec, COUNTS[i], -60);
            check_energy((enum codec)codec, COUNTS[i], 100);
        }
    }
}

static void the_largest_encodable_values_have_a_finite_energy(void **state) {
    (void)state;
    float values[COUNT_MAX];
    uint8_t bytes[BYTES_MAX];
    for (int64_t i = 0; i < COUNT_MAX; i++) {
        values[i] = i % 2 == 0 ? 3e38F : -3e38F;
    }
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        struct codec_encode_args args = {
            .codec = (enum codec)codec, .count = COUNT_MAX, .source = values};
        assert_true(codec_encode(codec_compute(cpu_level_detect()), &args, bytes));
        double energy = codec_energy((enum codec)codec, COUNT_MAX, bytes);
        assert_true(fabs(energy / (COUNT_MAX * 9e76) - 1) < 0.02);
    }
}

/* The bits that every machine must find. The expected values are exact sums of products of small
 * integers and powers of two, rounded to fp64. */
static void the_energy_of_fixed_bytes_has_fixed_bits(void **state) {
    (void)state;
    uint8_t int8_bytes[2 * (4 + 256)], int4_bytes[2 * (2 + 32)];
    const float scales[] = {0x1.000002p-3F, 0x1.8p10F};
    for (int block = 0; block < 2; block++) {
        memcpy(int8_bytes + 260 * block, &scales[block], sizeof scales[0]);
        memset(int8_bytes + 260 * block + 4, block == 0 ? 3 : 0x81, 256); /* 3, -127 */
        memcpy(int4_bytes + 34 * block, (const uint8_t *)&scales[block] + 2, 2);
        memset(int4_bytes + 34 * block + 2, block == 0 ? 0x79 : 0x10, 32); /* -7 and 7; 0 and 1 */
    }
    double first = 0x1.000002p-3 * 0x1.000002p-3 * 2304;
    assert_true(codec_energy(CODEC_INT8, 256, int8_bytes) == first);
    assert_true(codec_energy(CODEC_INT8, 512, int8_bytes) == first + 0x1.2p21 * 4129024);
    assert_true(codec_energy(CODEC_INT4, 64, int4_bytes) == 0x1p-6 * 64 * 49);
    assert_true(codec_energy(CODEC_INT4, 128, int4_bytes) == 49 + 0x1.2p21 * 32);
}

static void one_changed_code_changes_the_energy(void **state) {
    (void)state;
    float values[COUNT_MAX];
    uint8_t bytes[BYTES_MAX];
    fill(values, COUNT_MAX, 0);
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        struct codec_encode_args args = {
            .codec = (enum codec)codec, .count = COUNT_MAX, .source = values};
        assert_true(codec_encode(codec_compute(cpu_level_detect()), &args, bytes));
        double before = codec_energy((enum codec)codec, COUNT_MAX, bytes);
        bytes[codec_bytes((enum codec)codec, COUNT_MAX) - 1] ^= 1;
        assert_true(codec_energy((enum codec)codec, COUNT_MAX, bytes) != before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_energy_is_the_sum_of_the_squares_of_the_decoded_values),
        cmocka_unit_test(the_largest_encodable_values_have_a_finite_energy),
        cmocka_unit_test(the_energy_of_fixed_bytes_has_fixed_bits),
        cmocka_unit_test(one_changed_code_changes_the_energy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
