/* What quantising costs: bounds of one encoding, of a sum of members', and of many rounds. */
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

enum { MEMBERS = 8, LAYERS = 17, LAYER = 4096 * 4, VECTOR = LAYERS * LAYER };
enum { ROUNDS = 100, ROUND_COUNT = 64 * 40 + 17 };

static const struct compute *strongest(void) {
    return codec_compute(cpu_level_detect());
}

static void *buffer_of(uint64_t bytes) {
    void *buffer = calloc(bytes + 1, 1);
    assert_non_null(buffer);
    return buffer;
}

/* ---- one encoding ---- */

/* Half a step, and what rounding meant x inverse and the product back may add. */
static void check_half_a_step(enum codec codec, enum pattern pattern) {
    const int64_t count = 5000;
    struct tensor source = tensor_random(DTYPE_F32, count, pattern, harness_seed());
    float *decoded = buffer_of((uint64_t)count * 4);
    uint8_t *bytes = buffer_of(codec_bytes(codec, count));
    struct codec_encode_args args = {.codec = codec, .count = count, .source = source.data};
    assert_true(codec_encode(strongest(), &args, bytes));
    codec_decode(strongest(), codec, count, bytes, decoded);
    for (int64_t i = 0; i < count; i++) {
        double bound = codec_step(codec, i, bytes) * (0.5 + 0x1p-15);
        double largest = codec == CODEC_INT8 ? 127 : 7;
        bound = fmax(bound, bound == 0 ? largest * 0x1p-126 : 0);
        if (!(fabs((double)decoded[i] - source.exact[i]) <= bound)) {
            fail_msg("%s, %s, element %lld: %g became %g", codec_name(codec), pattern_name(pattern),
                     (long long)i, source.exact[i], (double)decoded[i]);
        }
    }
    tensor_free(&source);
    free(decoded);
    free(bytes);
}

static void no_element_errs_by_more_than_half_a_step(void **state) {
    (void)state;
    for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
        check_half_a_step(CODEC_INT8, (enum pattern)pattern);
        check_half_a_step(CODEC_INT4, (enum pattern)pattern);
    }
}

static void bf16_errs_by_at_most_two_to_the_minus_eighth(void **state) {
    (void)state;
    const int64_t count = 5000;
    struct tensor source = tensor_random(DTYPE_F32, count, PATTERN_MIXED, harness_seed());
    float *decoded = buffer_of((uint64_t)count * 4);
    uint8_t *bytes = buffer_of(codec_bytes(CODEC_BF16, count));
    struct codec_encode_args args = {.codec = CODEC_BF16, .count = count, .source = source.data};
    assert_true(codec_encode(strongest(), &args, bytes));
    codec_decode(strongest(), CODEC_BF16, count, bytes, decoded);
    for (int64_t i = 0; i < count; i++) {
        assert_true(fabs((double)decoded[i] - source.exact[i]) <= 0x1p-8 * fabs(source.exact[i]));
    }
    tensor_free(&source);
    free(decoded);
    free(bytes);
}

/* ---- members' sum ---- */

/* A member's pseudo-gradient: layers of scales from 2^-8 to 2^8, one element in 10,000 sixteen
 * times as large. Members have nothing in common: what they share would only average the errors
 * out. */
static void fill_member(float *values, int member) {
    uint64_t key = harness_seed() * 1000 + (uint64_t)member;
    for (int64_t i = 0; i < VECTOR; i++) {
        bool is_outlier = random_uniform(key + 500, (uint64_t)i) < 1e-4;
        int exponent = (int)(i / LAYER) - 8 + (is_outlier ? 4 : 0);
        values[i] = ldexpf(random_normal(key, (uint64_t)i), exponent);
    }
}

struct misfit {
    double square, error, along; /* sums: of truth^2, error^2, error x truth */
    double sum, size;            /* sums: of error, |truth| */
};

static void misfit_add(struct misfit *misfit, double truth, double got) {
    misfit->square += truth * truth;
    misfit->error += (got - truth) * (got - truth);
    misfit->along += (got - truth) * truth;
    misfit->sum += got - truth;
    misfit->size += fabs(truth);
}

/* Relative L2; then bias: of the mean of all elements, and along the truth (shrinking). */
static void check_misfit(struct misfit misfit, double l2_max, double bias_max, const char *what) {
    double l2 = sqrt(misfit.error / misfit.square);
    double mean = fabs(misfit.sum) / misfit.size;
    double shrink = fabs(misfit.along) / misfit.square;
    if (!(l2 <= l2_max && mean <= bias_max && shrink <= bias_max)) {
        fail_msg("%s: relative L2 %.5f, bias of the mean %.2g, along the truth %.2g, seed %llu",
                 what, l2, mean, shrink, (unsigned long long)harness_seed());
    }
    print_message("%s: relative L2 %.5f, bias of the mean %.2g, along the truth %.2g\n", what, l2,
                  mean, shrink);
}

/* The owner's part: adds every member's bytes, and encodes the sum again. */
static void exchange(enum codec codec, double *truth, float *result) {
    const struct compute *compute = strongest();
    float *values = buffer_of(VECTOR * 4);
    float *sums = buffer_of(VECTOR * 4);
    uint8_t *bytes = buffer_of(codec_bytes(codec, VECTOR));
    struct codec_encode_args args = {.codec = codec, .count = VECTOR, .source = values};
    struct codec_add_args add = {.codec = codec, .count = VECTOR, .weight = 1.0f / MEMBERS};
    for (int member = 0; member < MEMBERS; member++) {
        fill_member(values, member);
        for (int64_t i = 0; i < VECTOR; i++) {
            truth[i] += (double)values[i] / MEMBERS;
        }
        assert_true(codec_encode(compute, &args, bytes));
        codec_decode_add(compute, &add, bytes, sums);
    }
    args.source = sums;
    assert_true(codec_encode(compute, &args, bytes));
    codec_decode(compute, codec, VECTOR, bytes, result);
    free(values);
    free(sums);
    free(bytes);
}

static void int8_keeps_a_mean_of_eight_members(void **state) {
    (void)state;
    double *truth = buffer_of(VECTOR * 8);
    float *result = buffer_of(VECTOR * 4);
    exchange(CODEC_INT8, truth, result);
    struct misfit whole = {0};
    /* Each layer is scaled to the same size for the whole, else one would hide all others. */
    for (int64_t i = 0; i < VECTOR; i++) {
        int exponent = 8 - (int)(i / LAYER);
        misfit_add(&whole, ldexp(truth[i], exponent), ldexp((double)result[i], exponent));
    }
    check_misfit(whole, 0.014, 1e-4, "layers of equal weight");
    struct misfit raw = {0};
    for (int64_t i = 0; i < VECTOR; i++) {
        misfit_add(&raw, truth[i], (double)result[i]);
    }
    /* The two largest layers are most of it: too few elements to see a bias of 1e-4. */
    check_misfit(raw, 0.014, 3e-4, "layers as they are");
    assert_true((double)codec_bytes(CODEC_INT8, VECTOR) * 8 / VECTOR <= 8.2);
    free(truth);
    free(result);
}

/* ---- error feedback ---- */

struct rounds {
    double meant[ROUND_COUNT], sent[ROUND_COUNT]; /* sums over rounds */
    float residual[ROUND_COUNT];
    float decoded[ROUND_COUNT];
    uint8_t bytes[4 * ROUND_COUNT];
    double largest; /* of any source so far */
};

/* A steady part, so small that a lone int4 code would drop it for ever, beneath changing noise. */
static float source_at(int round, int64_t i) {
    float noise = random_normal(harness_seed() + 77 + (uint64_t)round, (uint64_t)i);
    return noise + 0.02f;
}

static void send_round(struct rounds *rounds, enum codec codec, int round, bool with_feedback) {
    float source[ROUND_COUNT];
    for (int64_t i = 0; i < ROUND_COUNT; i++) {
        source[i] = source_at(round, i);
        rounds->meant[i] += (double)source[i];
        rounds->largest = fmax(rounds->largest, fabs((double)source[i]));
    }
    struct codec_encode_args args = {.codec = codec, .count = ROUND_COUNT, .source = source};
    if (with_feedback) {
        args.feedback = rounds->residual;
        args.residual = rounds->residual;
    }
    assert_true(codec_encode(strongest(), &args, rounds->bytes));
    codec_decode(strongest(), codec, ROUND_COUNT, rounds->bytes, rounds->decoded);
    for (int64_t i = 0; i < ROUND_COUNT; i++) {
        rounds->sent[i] += (double)rounds->decoded[i];
    }
}

static double distance(const struct rounds *rounds) {
    double square = 0;
    for (int64_t i = 0; i < ROUND_COUNT; i++) {
        square += (rounds->sent[i] - rounds->meant[i]) * (rounds->sent[i] - rounds->meant[i]);
    }
    return sqrt(square / ROUND_COUNT);
}

/* With X the largest source and R the largest residual, R <= (X + R) / (2 x the largest code), and
 * so R <= X / (2 x the largest code - 1), in every round; int4's scale is rounded by up to 2^-8. */
static void check_tracking(enum codec codec, double largest_code) {
    struct rounds *rounds = buffer_of(sizeof *rounds);
    for (int round = 0; round < ROUNDS; round++) {
        send_round(rounds, codec, round, true);
        double bound = 1.01 * rounds->largest / (2 * largest_code - 1);
        for (int64_t i = 0; i < ROUND_COUNT; i++) {
            double residual = (double)rounds->residual[i];
            assert_true(fabs(residual) <= bound);
            /* 2^-24 of the largest value, each round. */
            assert_true(fabs(rounds->meant[i] - rounds->sent[i] - residual) <=
                        0x1p-23 * rounds->largest * ROUNDS);
        }
    }
    double with_feedback = distance(rounds);
    memset(rounds, 0, sizeof *rounds);
    for (int round = 0; round < ROUNDS; round++) {
        send_round(rounds, codec, round, false);
    }
    /* Errors of rounds that do not know of each other grow as the root of their number. */
    assert_true(with_feedback < distance(rounds) / (0.8 * sqrt(ROUNDS)));
    free(rounds);
}

static void feedback_keeps_what_was_sent_by_what_was_meant(void **state) {
    (void)state;
    check_tracking(CODEC_INT8, 127);
    check_tracking(CODEC_INT4, 7);
}

/* As a member does that keeps its feedback until the commit. */
static void a_residual_can_be_made_later_with_the_same_bits(void **state) {
    (void)state;
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        float source[700];
        float feedback[700];
        float residual[700];
        float later[700];
        uint8_t bytes[2800];
        for (int i = 0; i < 700; i++) {
            source[i] = source_at(codec, i);
            feedback[i] = source_at(codec + 9, i) / 8;
            later[i] = source[i] + feedback[i];
        }
        struct codec_encode_args args = {.codec = (enum codec)codec,
                                         .count = 700,
                                         .source = source,
                                         .feedback = feedback,
                                         .residual = residual};
        struct codec_add_args take = {.codec = (enum codec)codec, .count = 700, .weight = -1};
        assert_true(codec_encode(strongest(), &args, bytes));
        codec_decode_add(strongest(), &take, bytes, later);
        assert_memory_equal(later, residual, sizeof later);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_element_errs_by_more_than_half_a_step),
        cmocka_unit_test(bf16_errs_by_at_most_two_to_the_minus_eighth),
        cmocka_unit_test(int8_keeps_a_mean_of_eight_members),
        cmocka_unit_test(feedback_keeps_what_was_sent_by_what_was_meant),
        cmocka_unit_test(a_residual_can_be_made_later_with_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
