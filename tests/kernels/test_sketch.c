/* Sketches: their values and bits, the variance that they state, and the changes of a vector that
 * a check of 7 standard deviations sees. With --bench, their speed. */
#include "tests/kernels/codec_reference.h"
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "kernels/sketch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT_MAX = 16384, BYTES_MAX = 4 * COUNT_MAX + 64, SKETCHED_CODECS = 3 };

static const enum codec CODECS[SKETCHED_CODECS] = {CODEC_FP32, CODEC_BF16, CODEC_INT8};
static const int64_t COUNTS[] = {1, 2, 63, 64, 65, 255, 256, 257, 511, 1000, 4096};
static const double SIGMAS = 7;

/* Buckets of fixed bytes, as the plain loop found them on x86-64. */
static const double FIXED_ONE_0 = 275, FIXED_ONE_63 = -373;
static const double FIXED_TWO_0 = 255.57812268473208, FIXED_TWO_63 = -387.60937674157321;

struct vector {
    float values[COUNT_MAX];
    uint8_t bytes[BYTES_MAX];
    float decoded[COUNT_MAX];
};

static struct vector first, second;

static void fill(float *values, int64_t count, uint64_t stream) {
    for (int64_t i = 0; i < count; i++) {
        values[i] = random_normal(harness_seed() + stream, (uint64_t)i);
    }
}

static void encode(enum codec codec, int64_t count, struct vector *vector) {
    const struct compute *compute = codec_compute(cpu_level_detect());
    struct codec_encode_args args = {.codec = codec, .count = count, .source = vector->values};
    assert_true(codec_encode(compute, &args, vector->bytes));
    codec_decode(compute, codec, count, vector->bytes, vector->decoded);
}

static struct sketch run(enum codec codec, int64_t count, const uint8_t *bytes, uint64_t key) {
    struct sketch sketch;
    sketch_run(codec_compute(cpu_level_detect()), codec, count, bytes, key, &sketch);
    return sketch;
}

/* ---- the definition, in fp64, element by element ---- */

static uint64_t reference_random(uint64_t key, uint64_t counter) {
    uint64_t word = key + counter * 0x9e3779b97f4a7c15u;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
    return word ^ (word >> 31);
}

/* The sign of element `element` of a group in set 0 (before the transform) or 1 (after it). */
static double reference_sign(uint64_t key, int64_t group, int set, int element) {
    int lane = element % 16, row = element / 16;
    uint64_t counter = (uint64_t)group * 8 + (uint64_t)set * 4 + (uint64_t)lane / 4;
    return (reference_random(key, counter) >> (lane % 4 * 16 + row) & 1) != 0 ? -1 : 1;
}

static void reference_run(const float *values, int64_t count, uint64_t key, double *buckets) {
    memset(buckets, 0, SKETCH_BUCKETS * sizeof *buckets);
    for (int64_t e = 0; e < count; e++) {
        int64_t group = e / 256;
        int element = (int)(e % 256), index = element / 4, transform = element % 4;
        double value = (double)values[e] * reference_sign(key, group, 0, element) / 8;
        for (int b = 0; b < SKETCH_BUCKETS; b++) {
            double sign = reference_sign(key, group, 1, 4 * b + transform);
            buckets[b] +=
                (__builtin_popcount((unsigned)(b & index)) % 2 != 0 ? -1 : 1) * sign * value;
        }
    }
}

static void buckets_are_those_of_the_definition(void **state) {
    (void)state;
    for (int c = 0; c < SKETCHED_CODECS; c++) {
        for (size_t i = 0; i < ARRAY_COUNT(COUNTS); i++) {
            double expected[SKETCH_BUCKETS];
            uint64_t key = harness_seed() * 31 + i;
            fill(first.values, COUNTS[i], i);
            encode(CODECS[c], COUNTS[i], &first);
            struct sketch found = run(CODECS[c], COUNTS[i], first.bytes, key);
            reference_run(first.decoded, COUNTS[i], key, expected);
            for (int b = 0; b < SKETCH_BUCKETS; b++) {
                /* int8: decoded values are rounded to fp32, the sketch multiplies exactly. */
                double tolerance = 1e-6 * sqrt((double)COUNTS[i]);
                if (!(fabs(found.buckets[b] - expected[b]) <= tolerance)) {
                    fail_msg("%s, %lld elements: bucket %d is %g, not %g", codec_name(CODECS[c]),
                             (long long)COUNTS[i], b, found.buckets[b], expected[b]);
                }
            }
        }
    }
}

static void bits_are_equal_at_every_level_and_alignment(void **state) {
    (void)state;
    for (int c = 0; c < SKETCHED_CODECS; c++) {
        for (size_t i = 0; i < ARRAY_COUNT(COUNTS); i++) {
            size_t size = codec_bytes(CODECS[c], COUNTS[i]);
            fill(first.values, COUNTS[i], 100 + i);
            encode(CODECS[c], COUNTS[i], &first);
            struct sketch plain;
            sketch_run(codec_compute(CPU_SCALAR), CODECS[c], COUNTS[i], first.bytes, 5, &plain);
            for (int level = CPU_SCALAR; level < CPU_LEVEL_COUNT; level++) {
                for (size_t offset = 0; offset < 3 && cpu_supports_level((enum cpu_level)level);
                     offset++) {
                    struct sketch found;
                    uint8_t *exact = malloc(size + offset); /* so that a sanitizer sees its end */
                    assert_non_null(exact);
                    memcpy(exact + offset, first.bytes, size);
                    sketch_run(codec_compute((enum cpu_level)level), CODECS[c], COUNTS[i],
                               exact + offset, 5, &found);
                    assert_memory_equal(&found, &plain, sizeof found);
                    free(exact);
                }
            }
        }
    }
}

/* Values that every machine must find, on any hardware: sums of small integers. */
static void fixed_bytes_have_fixed_buckets(void **state) {
    (void)state;
    uint8_t bytes[2 * 260];
    const float scales[] = {8, 0x1.000002p-3F};
    for (int block = 0; block < 2; block++) {
        memcpy(bytes + 260 * block, &scales[block], sizeof scales[0]);
        for (int i = 0; i < 256; i++) {
            bytes[260 * block + 4 + i] = (uint8_t)(int8_t)(i % 255 - 127);
        }
    }
    struct sketch one = run(CODEC_INT8, 256, bytes, 1), two = run(CODEC_INT8, 512, bytes, 1);
    double energy = 0;
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        assert_true(one.buckets[b] == rint(one.buckets[b]) && fabs(one.buckets[b]) < 1 << 17);
        energy += one.buckets[b] * one.buckets[b];
    }
    assert_true(one.buckets[0] == FIXED_ONE_0 && one.buckets[63] == FIXED_ONE_63);
    assert_true(two.buckets[0] == FIXED_TWO_0 && two.buckets[63] == FIXED_TWO_63);
    assert_true(one.variance == 64.0 * 256 / 12 / 64);
}

static void sketches_of_a_sum_are_sums_of_sketches(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    fill(first.values, COUNT, 1);
    fill(second.values, COUNT, 2);
    encode(CODEC_FP32, COUNT, &first);
    encode(CODEC_FP32, COUNT, &second);
    struct sketch a = run(CODEC_FP32, COUNT, first.bytes, 9);
    struct sketch b = run(CODEC_FP32, COUNT, second.bytes, 9);
    for (int64_t i = 0; i < COUNT; i++) {
        first.values[i] = 0.25F * first.values[i] - 2 * second.values[i];
    }
    encode(CODEC_FP32, COUNT, &first);
    struct sketch sum = run(CODEC_FP32, COUNT, first.bytes, 9);
    for (int i = 0; i < SKETCH_BUCKETS; i++) {
        assert_true(fabs(sum.buckets[i] - (0.25 * a.buckets[i] - 2 * b.buckets[i])) < 1e-5);
    }
}

/* ---- the error of a codec ---- */

/* The mean of two vectors is encoded; the error of its sketch is compared with the variance. */
static void the_variance_is_that_of_the_errors(void **state) {
    (void)state;
    enum { COUNT = 8192, KEYS = 200 };
    for (int c = 0; c < SKETCHED_CODECS; c++) {
        double squares = 0, stated = 0, largest = 0;
        for (uint64_t key = 0; key < KEYS; key++) {
            fill(first.values, COUNT, 3 * key);
            encode(CODECS[c], COUNT, &first);
            struct sketch found = run(CODECS[c], COUNT, first.bytes, key);
            memcpy(second.bytes, first.values, sizeof(float) * COUNT);
            struct sketch exact = run(CODEC_FP32, COUNT, second.bytes, key);
            for (int b = 0; b < SKETCH_BUCKETS; b++) {
                double error = found.buckets[b] - exact.buckets[b];
                squares += error * error / (KEYS * SKETCH_BUCKETS);
                largest = fmax(largest, fabs(error) / sqrt(found.variance));
            }
            stated += found.variance / KEYS;
        }
        printf("%s: variance of a bucket %.3g, stated %.3g, largest error %.2f sigma\n",
               codec_name(CODECS[c]), squares, stated, largest);
        if (CODECS[c] == CODEC_FP32) {
            assert_true(squares == 0 && stated == 0);
            continue;
        }
        /* bf16 states an upper bound: its step is between 1/2 and 1 of BF16_STEP x value. */
        assert_true(squares < 1.05 * stated &&
                    squares > (CODECS[c] == CODEC_INT8 ? 0.95 : 0.3) * stated);
        assert_true(largest < 6);
    }
}

/* ---- changes ---- */

static bool is_change_seen(const struct sketch *before, const struct sketch *after) {
    for (int b = 0; b < SKETCH_BUCKETS; b++) {
        if (fabs(after->buckets[b] - before->buckets[b]) > SIGMAS * sqrt(after->variance)) {
            return true;
        }
    }
    return false;
}

static double norm_of(const float *values, int64_t count) {
    double energy = 0;
    for (int64_t i = 0; i < count; i++) {
        energy += (double)values[i] * (double)values[i];
    }
    return sqrt(energy);
}

/* Adds a change of `part` of the norm to `elements` neighbours that begin at `at`, `stride` apart,
 * with signs that the key decides. */
static void change_values(int64_t count, double part, int elements, int64_t at, int64_t stride,
                          uint64_t signs) {
    double each = part * norm_of(first.values, count) / sqrt(elements);
    memcpy(second.values, first.values, sizeof(float) * (size_t)count);
    for (int i = 0; i < elements; i++) {
        double change = (signs >> i & 1) != 0 ? -each : each;
        int64_t index = (at + i * stride) % count;
        second.values[index] = (float)((double)second.values[index] + change);
    }
}

/* Each trial compares the exact sketch of a vector with that of an encoding of the changed one.
 * Strides put the changes into one transform, into several of a group, and into several groups. */
static void sparse_changes_of_a_tenth_of_the_norm_are_seen(void **state) {
    (void)state;
    enum { COUNT = 16128, TRIALS = 3000 };
    static const int ELEMENTS[] = {1, 2, 4};
    static const int64_t STRIDES[] = {1, 4, 16, 64, 128, 256, 1027};
    uint64_t trials = 0;
    for (int c = 0; c < SKETCHED_CODECS; c++) {
        for (uint64_t t = 0; t < TRIALS; t++) {
            int elements = ELEMENTS[t % ARRAY_COUNT(ELEMENTS)];
            int64_t stride = STRIDES[t / 3 % ARRAY_COUNT(STRIDES)];
            uint32_t words[4];
            random_block(harness_seed() + 77, t, words);
            uint64_t drawn = (uint64_t)words[0] << 32 | words[1];
            if (t % 100 == 0) {
                fill(first.values, COUNT, t);
            }
            change_values(COUNT, 0.1, elements, (int64_t)(drawn % COUNT), stride, drawn >> 32);
            memcpy(first.bytes, first.values, sizeof(float) * COUNT);
            encode(CODECS[c], COUNT, &second);
            struct sketch exact = run(CODEC_FP32, COUNT, first.bytes, drawn);
            struct sketch changed = run(CODECS[c], COUNT, second.bytes, drawn);
            if (!is_change_seen(&exact, &changed)) {
                fail_msg("%s, trial %llu: a change of %d elements, %lld apart, is not seen",
                         codec_name(CODECS[c]), (unsigned long long)t, elements, (long long)stride);
            }
            trials++;
        }
    }
    printf("%llu sparse changes, all seen\n", (unsigned long long)trials);
}

static void dense_changes_are_seen_and_rounding_is_not(void **state) {
    (void)state;
    enum { COUNT = 16128, TRIALS = 300 };
    for (int c = 0; c < SKETCHED_CODECS; c++) {
        for (uint64_t t = 0; t < TRIALS; t++) {
            fill(first.values, COUNT, 5 * t);
            memcpy(first.bytes, first.values, sizeof(float) * COUNT);
            struct sketch exact = run(CODEC_FP32, COUNT, first.bytes, t);
            memcpy(second.values, first.values, sizeof second.values);
            encode(CODECS[c], COUNT, &second);
            struct sketch rounded = run(CODECS[c], COUNT, second.bytes, t);
            assert_false(is_change_seen(&exact, &rounded));
            for (int64_t i = 0; i < COUNT; i++) {
                second.values[i] += 0.1F * random_normal(harness_seed() + t, (uint64_t)i + 1000000);
            }
            encode(CODECS[c], COUNT, &second);
            struct sketch changed = run(CODECS[c], COUNT, second.bytes, t);
            assert_true(is_change_seen(&exact, &changed));
        }
    }
}

/* ---- the encoding of a sketch ---- */

static void an_encoded_sketch_is_within_its_variance(void **state) {
    (void)state;
    fill(first.values, 4096, 8);
    encode(CODEC_INT8, 4096, &first);
    uint8_t bytes[SKETCH_BYTES], again[SKETCH_BYTES];
    double squares = 0, stated = 0;
    for (uint64_t key = 0; key < 200; key++) {
        struct sketch exact = run(CODEC_INT8, 4096, first.bytes, key), read;
        sketch_write(&exact, bytes);
        assert_true(sketch_read(bytes, &read));
        for (int b = 0; b < SKETCH_BUCKETS; b++) {
            double error = read.buckets[b] - exact.buckets[b];
            assert_true(fabs(error) <= sqrt(3 * read.variance) * (1 + 1e-6));
            squares += error * error / SKETCH_BUCKETS;
        }
        stated += read.variance;
        sketch_write(&read, again);
        assert_memory_equal(again, bytes, sizeof bytes);
    }
    assert_true(squares < 1.1 * stated && squares > 0.9 * stated);
}

static void extreme_sketches_are_encoded_and_invalid_ones_are_not_read(void **state) {
    (void)state;
    uint8_t bytes[SKETCH_BYTES];
    struct sketch sketch = {.variance = 0}, read;
    sketch_write(&sketch, bytes);
    assert_true(sketch_read(bytes, &read) && read.buckets[9] == 0 && read.variance == 0);
    sketch.buckets[3] = 1e44;
    sketch_write(&sketch, bytes);
    assert_true(sketch_read(bytes, &read) && isfinite(read.buckets[3]) && read.buckets[3] > 1e42);
    const float scales[] = {-1, NAN, INFINITY, -0.0F};
    for (size_t i = 0; i < ARRAY_COUNT(scales); i++) {
        memcpy(bytes, &scales[i], sizeof scales[i]);
        assert_false(sketch_read(bytes, &read));
    }
    const float scale = 1;
    const int16_t code = INT16_MIN;
    memcpy(bytes, &scale, sizeof scale);
    assert_true(sketch_read(bytes, &read));
    memcpy(bytes + 4 + 2 * 63, &code, sizeof code);
    assert_false(sketch_read(bytes, &read));
    const int16_t largest[] = {INT16_MAX - 1, 1 - INT16_MAX, 0}; /* not with a scale of 1 */
    for (size_t i = 0; i < ARRAY_COUNT(largest); i++) {
        memset(bytes + 4, 0, SKETCH_BYTES - 4);
        memcpy(bytes + 4, &largest[i], sizeof largest[i]);
        assert_false(sketch_read(bytes, &read));
    }
    memset(bytes, 0, 4);
    assert_true(sketch_read(bytes, &read));
    memcpy(bytes + 4, &(int16_t){INT16_MAX}, sizeof(int16_t)); /* with a scale of 0 */
    assert_false(sketch_read(bytes, &read));
}

static void bench(void) {
    enum { COUNT = COUNT_MAX, REPEATS = 2000 };
    fill(first.values, COUNT, 1);
    for (int c = 0; c < SKETCHED_CODECS; c++) {
        encode(CODECS[c], COUNT, &first);
        for (int level = CPU_SCALAR; level < CPU_LEVEL_COUNT; level++) {
            if (!cpu_supports_level((enum cpu_level)level)) {
                continue;
            }
            struct sketch found;
            int64_t began_ns = clock_monotonic_ns();
            for (uint64_t i = 0; i < REPEATS; i++) {
                sketch_run(codec_compute((enum cpu_level)level), CODECS[c], COUNT, first.bytes, i,
                           &found);
            }
            double seconds = (double)(clock_monotonic_ns() - began_ns) / 1e9;
            printf("%s at level %s: %.2f GB/s\n", codec_name(CODECS[c]),
                   cpu_level_name((enum cpu_level)level),
                   REPEATS * (double)codec_bytes(CODECS[c], COUNT) / seconds / 1e9);
        }
    }
}

int main(int argument_count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_those_of_the_definition),
        cmocka_unit_test(bits_are_equal_at_every_level_and_alignment),
        cmocka_unit_test(fixed_bytes_have_fixed_buckets),
        cmocka_unit_test(sketches_of_a_sum_are_sums_of_sketches),
        cmocka_unit_test(the_variance_is_that_of_the_errors),
        cmocka_unit_test(sparse_changes_of_a_tenth_of_the_norm_are_seen),
        cmocka_unit_test(dense_changes_are_seen_and_rounding_is_not),
        cmocka_unit_test(an_encoded_sketch_is_within_its_variance),
        cmocka_unit_test(extreme_sketches_are_encoded_and_invalid_ones_are_not_read),
    };
    if (harness_benches(argument_count, arguments)) {
        bench();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
