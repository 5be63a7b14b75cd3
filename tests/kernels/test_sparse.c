/* The sparse codec against a reference that sorts all elements of a block and writes single bits;
 * what it refuses; and its speed beside memcpy. */
#include "kernels/sparse.h"
#include "tests/kernels/codec_reference.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/sparse_reference.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT_MAX = 4 * SPARSE_BLOCK + 77, BYTES_MAX = 5 * 320 };

static const int KEEPS[] = {32, 64, 128, 256};
static const int VALUE_BITS[] = {1, 2, 4};

/* ---- samples ---- */

static uint32_t drawn(uint64_t stream, uint64_t index, uint32_t below) {
    uint32_t words[4];
    random_block(harness_seed() + stream, index, words);
    return words[0] % below;
}

enum sample {
    SAMPLE_NORMAL = PATTERN_NORMAL,
    SAMPLE_ZERO = PATTERN_ZERO,
    SAMPLE_DENORMAL = PATTERN_DENORMAL,
    SAMPLE_LARGE = PATTERN_LARGE,
    SAMPLE_MIXED = PATTERN_MIXED,
    SAMPLE_EQUAL = PATTERN_COUNT, /* one magnitude, both signs */
    SAMPLE_TIES,                  /* few magnitudes: most of the largest ones are equal */
    SAMPLE_FEW,                   /* fewer elements than are kept */
    SAMPLE_COLUMNS,               /* all in a few columns, so that the pass over columns fails */
    SAMPLE_CLOSE,                 /* neighbouring floats, whose bf16 are equal */
    SAMPLE_LAST,                  /* the largest at the end: the longest quotients */
    SAMPLE_SPREAD,                /* all exponents */
    SAMPLE_COUNT
};

static float sample_value(enum sample sample, int64_t i) {
    uint32_t any = drawn(7, (uint64_t)i, 1u << 30);
    float sign = any & 1 ? -1 : 1;
    uint32_t bits;
    float value;
    switch (sample) {
    case SAMPLE_EQUAL:
        return sign * 0.3f;
    case SAMPLE_TIES:
        return sign * (float)(any >> 1 & 3);
    case SAMPLE_FEW:
        return any % 997 == 0 ? sign * (float)(any % 11) : 0;
    case SAMPLE_COLUMNS:
        return i % 64 < 48 ? sign * (float)(any % 65536) : 0;
    case SAMPLE_CLOSE:
        bits = 0x3f800000 + (any >> 1 & 0xff);
        memcpy(&value, &bits, sizeof value);
        return sign * value;
    case SAMPLE_LAST:
        return i % SPARSE_BLOCK < SPARSE_BLOCK - 300 ? 0.5f : sign * (float)(2 + any % 3);
    default:
        bits = 1 + any % 0x7e800000;
        memcpy(&value, &bits, sizeof value);
        return sign * value;
    }
}

static float *sample_values(enum sample sample, int64_t count) {
    float *values = malloc((size_t)count * sizeof *values + 1);
    assert_non_null(values);
    if (sample < SAMPLE_EQUAL) {
        struct tensor tensor =
            tensor_random(DTYPE_F32, count, (enum pattern)sample, harness_seed());
        memcpy(values, tensor.data, (size_t)count * sizeof *values);
        tensor_free(&tensor);
        return values;
    }
    for (int64_t i = 0; i < count; i++) {
        values[i] = sample_value(sample, i);
    }
    return values;
}

static const int64_t COUNTS[] = {0, 1, 2, 63, 64, 65, 257, 4095, 4096, 4097, 8192, 8200, COUNT_MAX};

/* Runs check on every shape, sample and size. */
typedef void (*sample_check)(struct sparse_shape shape, int64_t count, const float *values);

static void check_samples(sample_check check) {
    for (int sample = 0; sample < SAMPLE_COUNT; sample++) {
        for (size_t c = 0; c < ARRAY_COUNT(COUNTS); c++) {
            float *values = sample_values((enum sample)sample, COUNTS[c]);
            for (size_t s = 0; s < ARRAY_COUNT(KEEPS) * ARRAY_COUNT(VALUE_BITS); s++) {
                struct sparse_shape shape = {KEEPS[s / 3], VALUE_BITS[s % 3]};
                check(shape, COUNTS[c], values);
            }
            free(values);
        }
    }
}

/* ---- tests ---- */

static void check_level(enum cpu_level level, struct sparse_shape shape, int64_t count,
                        const float *values) {
    const struct compute *compute = codec_compute(level);
    static double exact[COUNT_MAX];
    static float decoded[COUNT_MAX];
    uint8_t meant[BYTES_MAX], bytes[BYTES_MAX + 1];
    struct fault fault;
    uint64_t size = sparse_reference_encode(shape, count, values, meant, exact);
    assert_int_equal(size, sparse_bytes(shape, count));
    assert_true(sparse_encode(compute, shape, count, values, bytes + 1));
    assert_memory_equal(bytes + 1, meant, size);
    assert_int_equal(sparse_check(shape, count, bytes + 1, size, &fault), OK);
    sparse_decode(compute, shape, count, bytes + 1, decoded);
    double energy = 0;
    for (int64_t i = 0; i < count; i++) {
        assert_true((double)decoded[i] == exact[i]);
        energy += exact[i] * exact[i];
    }
    double measured = sparse_energy(shape, count, bytes + 1);
    assert_true(fabs(measured - energy) <= 1e-12 * energy);
}

static void check_all_levels(struct sparse_shape shape, int64_t count, const float *values) {
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (cpu_supports_level((enum cpu_level)level)) {
            check_level((enum cpu_level)level, shape, count, values);
        }
    }
}

static void every_level_writes_the_bytes_of_the_reference(void **state) {
    (void)state;
    check_samples(check_all_levels);
}

static void sizes_are_those_of_the_longest_block(void **state) {
    (void)state;
    static const uint64_t BYTES[4][3] = {
        {42, 48, 56}, {74, 84, 100}, {129, 147, 179}, {222, 256, 320}};
    for (size_t s = 0; s < 12; s++) {
        struct sparse_shape shape = {KEEPS[s / 3], VALUE_BITS[s % 3]};
        assert_true(sparse_shape_is_valid(shape));
        assert_int_equal(sparse_block_bytes(shape), BYTES[s / 3][s % 3]);
        assert_int_equal(sparse_bytes(shape, 0), 0);
        assert_int_equal(sparse_bytes(shape, 1), BYTES[s / 3][s % 3]);
        assert_int_equal(sparse_bytes(shape, 4097), 2 * BYTES[s / 3][s % 3]);
    }
    /* GPT-2 124M: 0.1641 bits a parameter with k = 64 and 2 bits, and 0.1446 with 1 bit. */
    const double count = 124439808;
    assert_true(8 * (double)sparse_bytes((struct sparse_shape){64, 2}, 124439808) / count < 0.1641);
    assert_true(8 * (double)sparse_bytes((struct sparse_shape){64, 1}, 124439808) / count < 0.1446);
    assert_false(sparse_shape_is_valid((struct sparse_shape){64, 3}));
    assert_false(sparse_shape_is_valid((struct sparse_shape){65, 2}));
    assert_false(sparse_shape_is_valid((struct sparse_shape){0, 2}));
}

static void values_that_are_not_finite_are_refused_wherever_they_are(void **state) {
    (void)state;
    static const int64_t PLACES[] = {0, 63, 4095, 4096, 4099};
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    uint8_t bytes[BYTES_MAX];
    float *values = sample_values(SAMPLE_NORMAL, 4100);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        for (size_t i = 0; cpu_supports_level((enum cpu_level)level) && i < 20; i++) {
            float before = values[PLACES[i / 4]];
            const struct compute *compute = codec_compute((enum cpu_level)level);
            const struct sparse_shape shape = {64, 2};
            values[PLACES[i / 4]] = bad[i % 4];
            assert_false(sparse_encode(compute, shape, 4100, values, bytes));
            values[PLACES[i / 4]] = before;
            assert_true(sparse_encode(compute, shape, 4100, values, bytes));
        }
    }
    /* The largest float rounds to a level that is not finite. */
    values[5] = FLT_MAX;
    assert_false(sparse_encode(codec_compute(CPU_SCALAR), (struct sparse_shape){64, 4}, 4100,
                               values, bytes));
    free(values);
}

/* What was sent and what is left add up to the values, to the bit. */
static void check_rest(struct sparse_shape shape, int64_t count, const float *values) {
    const struct compute *compute = codec_compute(cpu_level_detect());
    static float rest[COUNT_MAX], decoded[COUNT_MAX];
    uint8_t bytes[BYTES_MAX];
    assert_true(sparse_encode(compute, shape, count, values, bytes));
    sparse_decode(compute, shape, count, bytes, decoded);
    memcpy(rest, values, (size_t)count * sizeof *rest);
    sparse_add(
        compute,
        &(struct sparse_add_args){.shape = shape, .count = count, .factor = -1, .sums = rest},
        bytes);
    for (int64_t i = 0; i < count; i++) {
        assert_true(rest[i] == values[i] - decoded[i]);
    }
}

static void feedback_is_what_was_not_sent(void **state) {
    (void)state;
    check_samples(check_rest);
}

static void the_mean_is_over_those_who_sent_an_element(void **state) {
    (void)state;
    enum { SENDERS = 3, COUNT = 5000 };
    static float sums[COUNT], weights[COUNT], decoded[SENDERS][COUNT];
    static const float WEIGHTS[SENDERS] = {3, 1, 2}, CLIPS[SENDERS] = {1, 0.5f, 1};
    const struct sparse_shape shape = {64, 2};
    const struct compute *compute = codec_compute(cpu_level_detect());
    int shared = 0;
    for (int s = 0; s < SENDERS; s++) {
        uint8_t bytes[BYTES_MAX];
        static float values[COUNT];
        for (int i = 0; i < COUNT; i++) {
            values[i] = sample_value(SAMPLE_TIES, i + 1000 * s);
        }
        assert_true(sparse_encode(compute, shape, COUNT, values, bytes));
        sparse_decode(compute, shape, COUNT, bytes, decoded[s]);
        struct sparse_add_args args = {.shape = shape,
                                       .count = COUNT,
                                       .factor = WEIGHTS[s] * CLIPS[s],
                                       .weight = WEIGHTS[s],
                                       .sums = sums,
                                       .weights = weights};
        sparse_add(compute, &args, bytes);
    }
    sparse_mean(compute, COUNT, weights, sums);
    for (int i = 0; i < COUNT; i++) {
        double sum = 0, weight = 0;
        for (int s = 0; s < SENDERS; s++) {
            sum += (double)(WEIGHTS[s] * CLIPS[s] * decoded[s][i]);
            weight += decoded[s][i] == 0 ? 0 : (double)WEIGHTS[s];
        }
        shared += weight > 3;
        assert_true(fabs((double)sums[i] - (weight == 0 ? 0 : sum / weight)) <= 1e-6 * fabs(sum));
    }
    assert_true(shared > 10);
}

/* ---- what is received ---- */

struct wrong {
    struct sparse_shape shape;
    int64_t count;
    int at; /* this byte becomes `byte` in the encoding of {2, -1, 0, 0 ...} */
    uint8_t byte;
    const char *reason;
};

/* The fields begin at 0, 4, 20 and 60 with 2 bits, and at 0, 4, 36 and 76 with 4 bits. */
static const struct wrong WRONG[] = {
    {{64, 2}, 4096, 1, 0xbf, "lower level"},
    {{64, 2}, 4096, 1, 0x41, "lower level"},
    {{64, 2}, 4096, 3, 0xc0, "higher level"},
    {{64, 2}, 4096, 4, 0x0d, "one of its levels"},
    {{64, 2}, 4096, 4, 0x19, "no element are not 0"},
    {{64, 2}, 4096, 19, 0x80, "no element are not 0"},
    {{64, 2}, 4096, 21, 0x04, "no element are not 0"},
    {{64, 2}, 4096, 83, 0x80, "past its end"},
    {{64, 2}, 40, 61, 0x01, "past its end"},
    {{64, 4}, 4096, 4, 0x97, "one of its levels"},
    {{64, 4}, 4096, 4, 0x86, "one of its levels"},
};

static void changed_bytes_are_rejected_with_a_reason(void **state) {
    (void)state;
    for (size_t w = 0; w < ARRAY_COUNT(WRONG); w++) {
        const struct wrong *wrong = &WRONG[w];
        uint8_t bytes[BYTES_MAX];
        static float values[4096] = {2, -1};
        struct fault fault = {0};
        const struct compute *compute = codec_compute(CPU_SCALAR);
        assert_true(sparse_encode(compute, wrong->shape, wrong->count, values, bytes));
        uint64_t size = sparse_bytes(wrong->shape, wrong->count);
        assert_int_equal(sparse_check(wrong->shape, wrong->count, bytes, size, &fault), OK);
        bytes[wrong->at] = wrong->byte;
        enum status status = sparse_check(wrong->shape, wrong->count, bytes, size, &fault);
        assert_int_equal(status, STATUS_INPUT);
        assert_non_null(strstr(fault.reason, wrong->reason));
        assert_string_equal(fault.subject, "sparse block 0");
        assert_int_equal(sparse_check(wrong->shape, wrong->count, bytes, size - 1, &fault),
                         STATUS_INPUT);
    }
}

static void too_many_elements_are_rejected(void **state) {
    (void)state;
    uint8_t bytes[BYTES_MAX];
    static float values[4096];
    struct fault fault;
    const struct sparse_shape shape = {64, 1};
    for (int i = 0; i < 4096; i++) {
        values[i] = 1;
    }
    assert_true(sparse_encode(codec_compute(CPU_SCALAR), shape, 4096, values, bytes));
    bytes[50 + 8] = 1; /* the 65th */
    assert_int_equal(sparse_check(shape, 4096, bytes, 74, &fault), STATUS_INPUT);
    assert_non_null(strstr(fault.reason, "more elements"));
}

/* Whatever is accepted has no other spelling: changing any one bit of an encoding gives bytes that
 * are rejected or decode to other values. */
static void check_single_bits(struct sparse_shape shape, int64_t count, const float *values) {
    const struct compute *compute = codec_compute(CPU_SCALAR);
    static float decoded[COUNT_MAX], other[COUNT_MAX];
    uint8_t bytes[BYTES_MAX];
    struct fault fault;
    if (count > 65 && count != 4097) {
        return;
    }
    assert_true(sparse_encode(compute, shape, count, values, bytes));
    sparse_decode(compute, shape, count, bytes, decoded);
    uint64_t size = sparse_bytes(shape, count);
    for (uint64_t bit = 0; bit < 8 * size; bit += 1 + drawn(bit, (uint64_t)count, 9)) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        sparse_decode(compute, shape, count, bytes, other);
        if (sparse_check(shape, count, bytes, size, &fault) == OK) {
            assert_memory_not_equal(decoded, other, (size_t)count * sizeof *other);
            for (int64_t i = 0; i < count; i++) {
                assert_true(isfinite(other[i]));
            }
        }
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void another_spelling_has_another_meaning(void **state) {
    (void)state;
    check_samples(check_single_bits);
}

/* ---- speed ---- */

enum { BENCH_COUNT = 1 << 24, BENCH_ROUNDS = 7 };

static void bench_shape(enum cpu_level level, struct sparse_shape shape, const float *values,
                        uint8_t *bytes, float *out) {
    static const char *const NAMES[] = {"memcpy", "encode", "decode", "add"};
    const struct compute *compute = codec_compute(level);
    int64_t least[4] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    struct sparse_add_args add = {
        .shape = shape, .count = BENCH_COUNT, .factor = 0.5f, .sums = out};
    for (int i = 0; i < 4 * BENCH_ROUNDS; i++) {
        int64_t start = clock_monotonic_ns();
        bool encoded = true;
        switch (i % 4) {
        case 0:
            memcpy(out, values, 4 * (size_t)BENCH_COUNT);
            break;
        case 1:
            encoded = sparse_encode(compute, shape, BENCH_COUNT, values, bytes);
            break;
        case 2:
            sparse_decode(compute, shape, BENCH_COUNT, bytes, out);
            break;
        default:
            sparse_add(compute, &add, bytes);
        }
        int64_t taken = clock_monotonic_ns() - start;
        ASSERT(encoded);
        least[i % 4] = taken < least[i % 4] ? taken : least[i % 4];
    }
    for (int i = 0; i < 4; i++) {
        printf("%-11s k %3d, %d bits %-6s %6.2f GB/s of fp32, %5.2f of memcpy\n",
               cpu_level_name(level), shape.keep, shape.value_bits, NAMES[i],
               4.0 * BENCH_COUNT / (double)least[i], (double)least[0] / (double)least[i]);
    }
}

static void bench_levels(void) {
    struct tensor values = tensor_random(DTYPE_F32, BENCH_COUNT, PATTERN_NORMAL, 1);
    struct tensor out = tensor_zeros(DTYPE_F32, BENCH_COUNT);
    uint8_t *bytes = malloc(sparse_bytes((struct sparse_shape){256, 4}, BENCH_COUNT));
    ASSERT(bytes != NULL);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        for (size_t k = 0; cpu_supports_level((enum cpu_level)level) && k < 4; k++) {
            bench_shape((enum cpu_level)level, (struct sparse_shape){KEEPS[k], 2}, values.data,
                        bytes, out.data);
        }
    }
    free(bytes);
    tensor_free(&values);
    tensor_free(&out);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_levels();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_writes_the_bytes_of_the_reference),
        cmocka_unit_test(sizes_are_those_of_the_longest_block),
        cmocka_unit_test(values_that_are_not_finite_are_refused_wherever_they_are),
        cmocka_unit_test(feedback_is_what_was_not_sent),
        cmocka_unit_test(the_mean_is_over_those_who_sent_an_element),
        cmocka_unit_test(changed_bytes_are_rejected_with_a_reason),
        cmocka_unit_test(too_many_elements_are_rejected),
        cmocka_unit_test(another_spelling_has_another_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
