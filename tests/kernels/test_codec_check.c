/* What received bytes pass, and that whatever passes decodes to finite values. */
#include "tests/kernels/codec_reference.h"
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "base/random.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT_MAX = 700, BYTES_MAX = 4 * COUNT_MAX, CASES = 20000 };

static uint32_t drawn(uint64_t stream, uint64_t index, uint32_t below) {
    uint32_t words[4];
    random_block(harness_seed() + stream, index, words);
    return words[0] % below;
}

/* An exact copy on the heap, so that a sanitizer sees a byte read behind its end. */
static enum status check_copy(enum codec codec, int64_t count, const uint8_t *bytes,
                              uint64_t size) {
    struct fault fault = {0};
    uint8_t *copy = malloc(size + (size == 0));
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    enum status status = codec_check(codec, count, copy, size, &fault);
    assert_int_equal(status, fault.status);
    if (status == OK) {
        float *values = malloc((size_t)count * sizeof *values + 1);
        assert_non_null(values);
        codec_decode(codec_compute(cpu_level_detect()), codec, count, copy, values);
        for (int64_t i = 0; i < count; i++) {
            assert_true(isfinite(values[i]));
        }
        free(values);
    }
    free(copy);
    return status;
}

/* Floats of any bits: half of them of one exponent's neighbourhood, so that some are accepted. */
static void fill_any(float *values, int64_t count, uint64_t key) {
    uint32_t exponent = drawn(key, 1 << 20, 256);
    for (int64_t i = 0; i < count; i++) {
        uint32_t words[4];
        random_block(harness_seed() ^ key, (uint64_t)i, words);
        uint32_t near = exponent < 3 ? 0 : exponent - words[1] % 3;
        uint32_t bits =
            (words[0] & 0x807fffff) | (key % 2 == 0 ? near << 23 : words[0] & 0x7f800000);
        memcpy(&values[i], &bits, sizeof bits);
    }
}

static void whatever_is_encoded_passes_and_decodes_to_finite_values(void **state) {
    (void)state;
    int accepted[CODEC_COUNT] = {0};
    for (int i = 0; i < CASES / 4; i++) {
        enum codec codec = (enum codec)(i % CODEC_COUNT);
        int64_t count = drawn(3, (uint64_t)i, i % 3 == 0 ? 4 : COUNT_MAX);
        float values[COUNT_MAX];
        uint8_t bytes[BYTES_MAX];
        fill_any(values, count, (uint64_t)(i / CODEC_COUNT));
        struct codec_encode_args args = {.codec = codec, .count = count, .source = values};
        if (codec_encode(codec_compute(cpu_level_detect()), &args, bytes)) {
            accepted[codec]++;
            assert_int_equal(check_copy(codec, count, bytes, codec_bytes(codec, count)), OK);
        }
    }
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        assert_in_range(accepted[codec], CASES / 40, CASES / 16 - 1);
    }
}

static void random_bytes_are_refused_or_decode_to_finite_values(void **state) {
    (void)state;
    int accepted = 0;
    for (int i = 0; i < CASES; i++) {
        enum codec codec = (enum codec)(i % CODEC_COUNT);
        int64_t count = drawn(4, (uint64_t)i, i % 2 == 0 ? 6 : COUNT_MAX);
        uint8_t bytes[BYTES_MAX + 16];
        for (uint64_t j = 0; j < sizeof bytes; j += 16) {
            uint32_t words[4];
            random_block(harness_seed() + 5 + (uint64_t)i, j, words);
            memcpy(bytes + j, words, j + 16 <= sizeof bytes ? 16 : sizeof bytes - j);
        }
        accepted += check_copy(codec, count, bytes, codec_bytes(codec, count)) == OK;
    }
    assert_in_range(accepted, CASES / 10, CASES - CASES / 10);
}

static void changed_bytes_are_refused_or_decode_to_finite_values(void **state) {
    (void)state;
    float values[COUNT_MAX];
    uint8_t bytes[BYTES_MAX];
    for (int i = 0; i < CASES; i++) {
        enum codec codec = (enum codec)(i % CODEC_COUNT);
        int64_t count = 1 + drawn(6, (uint64_t)i, 300);
        uint64_t size = codec_bytes(codec, count);
        for (int64_t j = 0; j < count; j++) {
            values[j] = ldexpf(random_normal(harness_seed(), (uint64_t)(i + j)), i % 250 - 125);
        }
        struct codec_encode_args args = {.codec = codec, .count = count, .source = values};
        assert_true(codec_encode(codec_compute(cpu_level_detect()), &args, bytes));
        uint32_t place = drawn(7, (uint64_t)i, i % 2 == 0 && size > 4 ? 4 : (uint32_t)size);
        bytes[place] ^= (uint8_t)(1u << drawn(8, (uint64_t)i, 8));
        enum status status = check_copy(codec, count, bytes, size);
        assert_true(status == OK || status == STATUS_INPUT);
        assert_int_equal(check_copy(codec, count, bytes, size - 1), STATUS_INPUT);
    }
}

/* ---- each rule ---- */

struct rule {
    const char *place; /* of the fault; NULL: it passes */
    enum codec codec;
    int64_t count;
    uint64_t size;
    uint8_t bytes[8];
};

static const struct rule RULES[] = {
    {NULL, CODEC_FP32, 0, 0, {0}},
    {NULL, CODEC_INT8, 0, 0, {0}},
    {"int8", CODEC_INT8, 0, 1, {0}},
    {"fp32", CODEC_FP32, 1, 3, {0}},
    {"fp32", CODEC_FP32, 1, 5, {0}},
    {"bf16", CODEC_BF16, 2, 3, {0}},
    {"int4", CODEC_INT4, 3, 3, {0}},
    {NULL, CODEC_FP32, 2, 8, {0xff, 0xff, 0x7f, 0x7f, 0xff, 0xff, 0x7f, 0xff}}, /* FLT_MAX */
    {"fp32 element 1", CODEC_FP32, 2, 8, {0, 0, 0, 0, 0, 0, 0x80, 0x7f}},       /* infinity */
    {"fp32 element 0", CODEC_FP32, 2, 8, {1, 0, 0x80, 0xff, 0, 0, 0x80, 0x7f}}, /* NaN */
    {NULL, CODEC_BF16, 1, 2, {0x7f, 0xff}},
    {"bf16 element 0", CODEC_BF16, 1, 2, {0x80, 0xff}},
    {NULL, CODEC_INT8, 2, 6, {0, 0, 0x80, 0x3f, 0x7f, 0x81}},
    {"int8 block 0", CODEC_INT8, 2, 6, {0, 0, 0x80, 0x3f, 0x7f, 0x80}}, /* code -128 */
    {"int8 block 0", CODEC_INT8, 1, 5, {0, 0, 0x80, 0xbf, 1}},          /* scale -1 */
    {"int8 block 0", CODEC_INT8, 1, 5, {0, 0, 0, 0x80, 1}},             /* scale -0 */
    {"int8 block 0", CODEC_INT8, 1, 5, {0, 0, 0x80, 0x7f, 0}},          /* infinite */
    {"int8 block 0", CODEC_INT8, 1, 5, {0, 0, 0xc0, 0x7f, 0}},          /* NaN */
    {"int8 block 0", CODEC_INT8, 1, 5, {0, 0, 0x7f, 0, 1}},             /* subnormal */
    {NULL, CODEC_INT8, 1, 5, {0, 0, 0x80, 0, 0x7f}},                    /* 127 x 2^-126 */
    {NULL, CODEC_INT8, 2, 6, {0, 0, 0x80, 0x3f, 5, 0x81}},              /* largest: -127 */
    {"int8 block 0", CODEC_INT8, 2, 6, {0, 0, 0x80, 0x3f, 0x7e, 0x82}}, /* largest: 126 */
    {"int8 block 0", CODEC_INT8, 1, 5, {0, 0, 0x80, 0x3f, 0}},          /* zeros, scale 1 */
    {"int8 block 0", CODEC_INT8, 1, 5, {0, 0, 0, 0, 0x7f}},             /* code 127, scale 0 */
    {NULL, CODEC_INT8, 1, 5, {0, 0, 0, 0, 0}},
    {NULL, CODEC_INT8, 1, 5, {0, 0, 0, 0x7c, 0x7f}},              /* 127 x 2^121 */
    {"int8 block 0", CODEC_INT8, 1, 5, {0, 0, 0x80, 0x7c, 0x7f}}, /* 127 x 2^122 */
    {NULL, CODEC_INT4, 2, 3, {0x80, 0x3f, 0x97}},
    {"int4 block 0", CODEC_INT4, 2, 3, {0x80, 0x3f, 0xa6}}, /* largest: 6 */
    {"int4 block 0", CODEC_INT4, 1, 3, {0, 0, 0x07}},       /* code 7, scale 0 */
    {"int4 block 0", CODEC_INT4, 2, 3, {0x80, 0x3f, 0x98}}, /* low code -8 */
    {"int4 block 0", CODEC_INT4, 2, 3, {0x80, 0x3f, 0x87}}, /* high code -8 */
    {NULL, CODEC_INT4, 1, 3, {0x80, 0x3f, 0x07}},
    {"int4 block 0", CODEC_INT4, 1, 3, {0x80, 0x3f, 0x17}}, /* behind an odd last element */
    {"int4 block 0", CODEC_INT4, 1, 3, {0x80, 0xbf, 0x07}},
    {"int4 block 0", CODEC_INT4, 1, 3, {0x80, 0x7f, 0x00}},
    {"int4 block 0", CODEC_INT4, 1, 3, {0x7f, 0x00, 0x01}},
};

static void every_rule_has_its_place(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(RULES); i++) {
        const struct rule *rule = &RULES[i];
        struct fault fault = {0};
        enum status status = codec_check(rule->codec, rule->count, rule->bytes, rule->size, &fault);
        assert_int_equal(status, rule->place == NULL ? OK : STATUS_INPUT);
        assert_string_equal(fault.subject, rule->place == NULL ? "" : rule->place);
    }
}

static void a_later_block_is_named(void **state) {
    (void)state;
    uint8_t bytes[BYTES_MAX] = {0};
    struct fault fault;
    uint64_t size = codec_bytes(CODEC_INT4, 600);
    bytes[34 * 9 + 1] = 0x80; /* the last block's scale, of 24 elements, becomes -0 */
    assert_int_equal(codec_check(CODEC_INT4, 600, bytes, size, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "int4 block 9");
    bytes[34 * 9 + 1] = 0;
    bytes[34 * 8 + 33] = 0x08;
    assert_int_equal(codec_check(CODEC_INT4, 600, bytes, size, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "int4 block 8");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_encoded_passes_and_decodes_to_finite_values),
        cmocka_unit_test(random_bytes_are_refused_or_decode_to_finite_values),
        cmocka_unit_test(changed_bytes_are_refused_or_decode_to_finite_values),
        cmocka_unit_test(every_rule_has_its_place),
        cmocka_unit_test(a_later_block_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
