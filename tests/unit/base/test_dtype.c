/* Tests of base/dtype: every half and every bfloat16 there and back, and rounding to nearest even
 * against a search among the neighbours. */
#include "base/check.h"
#include "base/dtype.h"
#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A half's value from the definition: sign, exponent, fraction. */
static double half_value(uint16_t bits) {
    int exponent = (bits >> 10) & 31;
    double fraction = bits & 1023;
    double magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

static void every_half_survives_the_way_there_and_back(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = f16_to_f32((uint16_t)bits);
        bool finite = (bits & 0x7c00) != 0x7c00;
        bool nan = !finite && (bits & 0x3ff) != 0;
        if (nan) {
            assert_true(isnan(value) && isnan(f16_to_f32(f16_from_f32(value))));
            continue;
        }
        assert_true(finite ? (double)value == half_value((uint16_t)bits) : isinf(value));
        assert_int_equal(f16_from_f32(value), bits);
    }
}

static void every_bfloat16_survives_the_way_there_and_back(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = bf16_to_f32((uint16_t)bits);
        if (isnan(value)) {
            assert_true(isnan(bf16_to_f32(bf16_from_f32(value))));
            continue;
        }
        assert_true(value == from_bits(bits << 16));
        assert_int_equal(bf16_from_f32(value), bits);
    }
}

/* Nearest of the two neighbours in [0, infinity), the even one when both are as near. */
static uint16_t nearest_of(double low, uint16_t low_bits, double high, double value) {
    double below = value - low;
    double above = high - value;
    bool up = above < below || (above == below && (low_bits & 1) != 0);
    return (uint16_t)(low_bits + up);
}

static void halves_round_to_the_nearest_and_ties_to_even(void **state) {
    (void)state;
    const uint64_t key = random_key(1, "dtype");
    for (uint64_t i = 0; i < 200000; i++) {
        uint16_t low = (uint16_t)(random_uniform(key, 2 * i) * 0x7bff);
        double a = half_value(low);
        double b = half_value((uint16_t)(low + 1));
        float value = i % 3 == 0 ? (float)((a + b) / 2)
                                 : (float)(a + (b - a) * random_uniform(key, 2 * i + 1));
        uint16_t wanted = nearest_of(a, low, b, (double)value);
        assert_int_equal(f16_from_f32(value), wanted);
        assert_int_equal(f16_from_f32(-value), wanted | 0x8000);
    }
}

static void bfloat16_rounds_to_the_nearest_and_ties_to_even(void **state) {
    (void)state;
    const uint64_t key = random_key(2, "dtype");
    for (uint64_t i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)(random_uniform(key, i) * 0x7f7f0000u);
        if (i % 3 == 0) {
            bits = (bits & 0xffff0000u) | 0x8000u;
        }
        uint16_t low = (uint16_t)(bits >> 16);
        float a = from_bits((uint32_t)low << 16);
        float b = from_bits((uint32_t)(low + 1) << 16);
        uint16_t wanted = nearest_of((double)a, low, (double)b, (double)from_bits(bits));
        assert_int_equal(bf16_from_f32(from_bits(bits)), wanted);
        assert_int_equal(bf16_from_f32(from_bits(bits | 0x80000000u)), wanted | 0x8000);
    }
}

static void edges_overflow_and_underflow_as_ieee_says(void **state) {
    (void)state;
    static const struct {
        float value;
        uint16_t half;
    } HALVES[] = {{65504.0f, 0x7bff},     {65519.996f, 0x7bff},   {65520.0f, 0x7c00},
                  {INFINITY, 0x7c00},     {-INFINITY, 0xfc00},    {0x1p-24f, 0x0001},
                  {0x1p-25f, 0x0000},     {0x1.8p-25f, 0x0001},   {0x1.8p-24f, 0x0002},
                  {0x1.ff8p-15f, 0x03ff}, {0x1.ffcp-15f, 0x0400}, {-0.0f, 0x8000}};
    for (size_t i = 0; i < ARRAY_COUNT(HALVES); i++) {
        assert_int_equal(f16_from_f32(HALVES[i].value), HALVES[i].half);
    }
    assert_int_equal(bf16_from_f32(from_bits(0x7f7f7fff)), 0x7f7f);
    assert_int_equal(bf16_from_f32(from_bits(0x7f7f8000)), 0x7f80);
    assert_int_equal(bf16_from_f32(INFINITY), 0x7f80);
    /* A NaN whose payload lies in the low bits alone must not become infinity. */
    assert_true(isnan(bf16_to_f32(bf16_from_f32(from_bits(0x7f800001)))));
    assert_true(isnan(f16_to_f32(f16_from_f32(from_bits(0x7f800001)))));
}

static void names_of_all_three_traditions_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum dtype dtype;
        int64_t bytes;
    } CASES[] = {{"f32", DTYPE_F32, 4},     {"float32", DTYPE_F32, 4},   {"F32", DTYPE_F32, 4},
                 {"bf16", DTYPE_BF16, 2},   {"bfloat16", DTYPE_BF16, 2}, {"BF16", DTYPE_BF16, 2},
                 {"float16", DTYPE_F16, 2}, {"F16", DTYPE_F16, 2},       {"int32", DTYPE_I32, 4},
                 {"I32", DTYPE_I32, 4},     {"fp32", DTYPE_F32, 4},      {"fp16", DTYPE_F16, 2}};
    static const char *const BAD[] = {"", "f", "f64", "float", "bf16 ", "torch.float32"};
    enum dtype dtype = DTYPE_COUNT;
    for (size_t i = 0; i < ARRAY_COUNT(CASES); i++) {
        assert_true(dtype_parse(CASES[i].text, &dtype));
        assert_int_equal(dtype, CASES[i].dtype);
        assert_int_equal(dtype_bytes(dtype), CASES[i].bytes);
    }
    for (size_t i = 0; i < ARRAY_COUNT(BAD); i++) {
        dtype = DTYPE_COUNT;
        assert_false(dtype_parse(BAD[i], &dtype));
        assert_int_equal(dtype, DTYPE_COUNT);
    }
    for (int i = 0; i < DTYPE_COUNT; i++) {
        assert_true(dtype_parse(dtype_name((enum dtype)i), &dtype));
        assert_int_equal(dtype, i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_survives_the_way_there_and_back),
        cmocka_unit_test(every_bfloat16_survives_the_way_there_and_back),
        cmocka_unit_test(halves_round_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(bfloat16_rounds_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(edges_overflow_and_underflow_as_ieee_says),
        cmocka_unit_test(names_of_all_three_traditions_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
