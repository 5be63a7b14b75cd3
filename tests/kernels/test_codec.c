/* The codecs: their bytes, what they decode to, what they refuse; and their speed beside memcpy. */
#include "tests/kernels/codec_reference.h"
#include "tests/kernels/device.h"
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "base/clock.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/codec.h"
#include "tests/kernels/device_scalars.h"
#endif

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What an encoder is given besides the source. */
enum mode { MODE_BARE, MODE_FIRST, MODE_APART, MODE_IN_PLACE, MODE_COUNT };
static const char *const MODE_NAMES[MODE_COUNT] = {"bare", "first round", "feedback apart",
                                                   "feedback in place"};

static const int64_t BLOCK_SIZES[] = {255, 257, 511, 513};
enum { LONG_SIZE = 40037 }; /* several items of work, the last one short */

/* ---- every loop against the reference ---- */

struct codec_context {
    enum codec codec;
    enum mode mode;
    int64_t count, offset; /* where in `bytes` the encoding begins: any alignment */
    struct tensor source, feedback;
    struct tensor bytes, residual, decoded, sums;
};

static void run_codec(const struct compute *compute, void *context) {
    struct codec_context *codec = context;
    struct codec_encode_args args = {
        .codec = codec->codec, .count = codec->count, .source = codec->source.data};
    if (codec->mode != MODE_BARE) {
        args.residual = codec->residual.data;
    }
    if (codec->mode == MODE_APART) {
        args.feedback = codec->feedback.data;
    } else if (codec->mode == MODE_IN_PLACE) {
        args.feedback = codec->residual.data;
    }
    uint8_t *bytes = (uint8_t *)codec->bytes.data + codec->offset;
    struct codec_add_args add = {.codec = codec->codec, .count = codec->count, .weight = 0.3f};
    assert_true(codec_encode(compute, &args, bytes));
    codec_decode(compute, codec->codec, codec->count, bytes, codec->decoded.data);
    codec_decode_add(compute, &add, bytes, codec->sums.data);
}

#if SKEP_CUDA
static void run_codec_cuda(const struct cuda_compute *compute, struct device_run *device,
                           void *context) {
    struct codec_context *codec = context;
    struct codec_encode_args args = {
        .codec = codec->codec, .count = codec->count, .source = device_of(device, &codec->source)};
    if (codec->mode != MODE_BARE) {
        args.residual = device_of(device, &codec->residual);
    }
    if (codec->mode == MODE_APART) {
        args.feedback = device_of(device, &codec->feedback);
    } else if (codec->mode == MODE_IN_PLACE) {
        args.feedback = args.residual;
    }
    int refused = 0;
    int *on_device = device_put(compute, device, &refused, sizeof refused);
    uint8_t *bytes = (uint8_t *)device_of(device, &codec->bytes) + codec->offset;
    struct codec_add_args add = {.codec = codec->codec, .count = codec->count, .weight = 0.3f};
    cuda_codec_encode(compute, &args, bytes, on_device);
    cuda_codec_decode(compute, codec->codec, codec->count, bytes,
                      device_of(device, &codec->decoded));
    cuda_codec_decode_add(compute, &add, bytes, device_of(device, &codec->sums));
    device_copy(compute, &refused, on_device, sizeof refused);
    assert_int_equal(refused, 0);
}
#endif

/* What every buffer must hold afterwards, in the outputs' `exact`. */
static void reference_codec(struct codec_context *codec) {
    size_t size = codec_bytes(codec->codec, codec->count);
    float *meant = malloc((size_t)codec->count * sizeof *meant + 1);
    float *decoded = malloc((size_t)codec->count * sizeof *decoded + 1);
    uint8_t *image = malloc((size_t)codec->bytes.count * 4);
    assert_true(meant != NULL && decoded != NULL && image != NULL);
    for (int64_t i = 0; i < codec->count; i++) {
        bool adds = codec->mode == MODE_APART || codec->mode == MODE_IN_PLACE;
        double source = codec->source.exact[i];
        meant[i] = (float)(adds ? source + codec->feedback.exact[i] : source);
    }
    memcpy(image, codec->bytes.data, (size_t)codec->bytes.count * 4);
    codec_reference_encode(codec->codec, codec->count, meant, image + codec->offset, decoded);
    assert_true(codec->offset + (int64_t)size <= codec->bytes.count * 4);
    for (int64_t i = 0; i < codec->bytes.count; i++) {
        int32_t word;
        memcpy(&word, image + 4 * i, sizeof word);
        codec->bytes.exact[i] = word;
    }
    for (int64_t i = 0; i < codec->count; i++) {
        float weighted = (float)((double)0.3f * (double)decoded[i]);
        codec->sums.exact[i] = (double)(float)(codec->sums.exact[i] + (double)weighted);
        codec->decoded.exact[i] = (double)decoded[i];
        codec->residual.exact[i] = (double)(float)((double)meant[i] - (double)decoded[i]);
    }
    free(meant);
    free(decoded);
    free(image);
}

static void check_codec(enum codec kind, enum mode mode, int64_t count, enum pattern pattern) {
    uint64_t seed = harness_seed() + (uint64_t)count;
    int64_t offset = count % 4;
    struct codec_context codec = {
        .codec = kind,
        .mode = mode,
        .count = count,
        .offset = offset,
        .source = tensor_random(DTYPE_F32, count, pattern, seed),
        .feedback = tensor_random(DTYPE_F32, count, pattern, seed + 1),
        .residual = tensor_random(DTYPE_F32, count, pattern, seed + 1),
        .bytes =
            tensor_unset(DTYPE_I32, (int64_t)(codec_bytes(kind, count) + (uint64_t)offset + 3) / 4),
        .decoded = tensor_unset(DTYPE_F32, count),
        .sums = tensor_random(DTYPE_F32, count, pattern, seed + 2),
    };
    reference_codec(&codec);
    struct operation operation = {.name = "codec",
                                  .run = run_codec,
                                  .run_cuda = ON_CUDA(run_codec_cuda),
                                  .context = &codec,
                                  .same_at_all_levels = true,
                                  .output_count = mode == MODE_BARE ? 3 : 4,
                                  .outputs = {{"bytes", &codec.bytes, codec.bytes.exact},
                                              {"decoded", &codec.decoded, codec.decoded.exact},
                                              {"sums", &codec.sums, codec.sums.exact},
                                              {"residual", &codec.residual, codec.residual.exact}}};
    operation_describe(&operation, "%s, %s, count %lld, %s, seed %llu", codec_name(kind),
                       MODE_NAMES[mode], (long long)count, pattern_name(pattern),
                       (unsigned long long)harness_seed());
    operation_check(&operation);
    tensor_free(&codec.source);
    tensor_free(&codec.feedback);
    tensor_free(&codec.residual);
    tensor_free(&codec.bytes);
    tensor_free(&codec.decoded);
    tensor_free(&codec.sums);
}

static void check_sizes(enum codec codec, enum mode mode, enum pattern pattern) {
    for (int i = 0; i < EDGE_SIZE_COUNT; i++) {
        check_codec(codec, mode, EDGE_SIZES[i], pattern);
    }
    for (size_t i = 0; i < ARRAY_COUNT(BLOCK_SIZES); i++) {
        check_codec(codec, mode, BLOCK_SIZES[i], pattern);
    }
    if (pattern == PATTERN_MIXED) {
        check_codec(codec, mode, 16384, pattern);
        check_codec(codec, mode, LONG_SIZE, pattern);
    }
    check_codec(codec, mode, 0, pattern);
}

static void every_codec_equals_its_reference_to_the_bit(void **state) {
    (void)state;
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        for (int mode = 0; mode < MODE_COUNT; mode++) {
            for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
                check_sizes((enum codec)codec, (enum mode)mode, (enum pattern)pattern);
            }
        }
    }
}

/* ---- bytes by hand ---- */

struct hand_made {
    enum codec codec;
    int64_t count;
    float source[9];
    int64_t size;
    uint8_t bytes[36];
};

/* Ties go to even codes: 63.5 to 64, 0.5 to 0, 1.5 to 2, 2.5 to 2, and 3.5 to 4. */
static const struct hand_made HAND_MADE[] = {
    {CODEC_FP32, 2, {1, -2.5f}, 8, {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x20, 0xc0}},
    {CODEC_BF16, 3, {1, 0x1.01p0f, -0x1.03p0f}, 6, {0x80, 0x3f, 0x80, 0x3f, 0x82, 0xbf}},
    {CODEC_INT8,
     9,
     {127, -127, 63.5f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 0},
     13,
     {0x00, 0x00, 0x80, 0x3f, 0x7f, 0x81, 0x40, 0x00, 0x02, 0x02, 0x00, 0xfe, 0x00}},
    {CODEC_INT8, 1, {0}, 5, {0}},
    {CODEC_INT8, 2, {0x1p-126f, -0x1p-140f}, 6, {0}},
    {CODEC_INT4, 5, {7, -7, 3.5f, 0.5f, 1.5f}, 5, {0x80, 0x3f, 0x97, 0x04, 0x02}},
    {CODEC_INT4, 2, {0x1.cp-126f, 0x1.cp-124f}, 3, {0x80, 0x00, 0x72}},
    {CODEC_INT4, 2, {-0.0f, 0x1.8p-126f}, 3, {0}},
};

static void hand_made_vectors_have_these_bytes(void **state) {
    (void)state;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        for (size_t i = 0; cpu_supports_level((enum cpu_level)level) && i < ARRAY_COUNT(HAND_MADE);
             i++) {
            const struct hand_made *made = &HAND_MADE[i];
            uint8_t bytes[sizeof made->bytes];
            struct codec_encode_args args = {
                .codec = made->codec, .count = made->count, .source = made->source};
            assert_int_equal(codec_bytes(made->codec, made->count), made->size);
            assert_true(codec_encode(codec_compute((enum cpu_level)level), &args, bytes));
            assert_memory_equal(bytes, made->bytes, made->size);
        }
    }
}

static void sizes_are_exact(void **state) {
    (void)state;
    assert_int_equal(codec_bytes(CODEC_FP32, 1000), 4000);
    assert_int_equal(codec_bytes(CODEC_BF16, 1000), 2000);
    assert_int_equal(codec_bytes(CODEC_INT8, 1000), 1000 + 4 * 4);
    assert_int_equal(codec_bytes(CODEC_INT4, 1000), 500 + 16 * 2);
    assert_int_equal(codec_bytes(CODEC_INT4, 65), 34 + 2 + 1);
    /* 16 Mi parameters: 8.125 and 4.25 bits each. */
    assert_int_equal(codec_bytes(CODEC_INT8, 1 << 24), (1 << 24) / 8 * 8.125);
    assert_int_equal(codec_bytes(CODEC_INT4, 1 << 24), (1 << 24) / 8 * 4.25);
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        assert_int_equal(codec_bytes((enum codec)codec, 0), 0);
        int64_t most = codec_elements_within((enum codec)codec, 1 << 20);
        int64_t block = codec_block_elements((enum codec)codec);
        assert_int_equal(most % block, 0);
        assert_true(codec_bytes((enum codec)codec, most) <= 1 << 20);
        assert_true(codec_bytes((enum codec)codec, most + block) > 1 << 20);
    }
}

static void names_are_parsed_back(void **state) {
    (void)state;
    enum codec parsed = CODEC_INT4;
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        assert_true(codec_parse(codec_name((enum codec)codec), &parsed));
        assert_int_equal(parsed, codec);
    }
    assert_false(codec_parse("int5", &parsed));
    assert_false(codec_parse("", &parsed));
    assert_int_equal(parsed, CODEC_INT4);
}

/* ---- refusals ---- */

static bool encodes(const struct compute *compute, enum codec codec, const float *source,
                    const float *feedback, int64_t count) {
    uint8_t bytes[8192];
    struct fault fault;
    struct codec_encode_args args = {
        .codec = codec, .count = count, .source = source, .feedback = feedback};
    assert_true(codec_bytes(codec, count) <= sizeof bytes);
    if (!codec_encode(compute, &args, bytes)) {
        return false;
    }
    assert_int_equal(codec_check(codec, count, bytes, codec_bytes(codec, count), &fault), OK);
    return true;
}

static void check_refusals(const struct compute *compute, enum codec codec) {
    static const int64_t PLACES[] = {0, 5, 63, 64, 255, 256, 511, 512, 531};
    static const float BROKEN[] = {NAN, -NAN, INFINITY, -INFINITY};
    float source[532];
    float feedback[532] = {0};
    for (int i = 0; i < 532; i++) {
        source[i] = (float)(i % 7) - 3;
    }
    assert_true(encodes(compute, codec, source, NULL, 532));
    for (size_t place = 0; place < ARRAY_COUNT(PLACES); place++) {
        float *at = source + PLACES[place];
        float kept = *at;
        for (size_t i = 0; i < ARRAY_COUNT(BROKEN); i++) {
            *at = BROKEN[i];
            assert_false(encodes(compute, codec, source, NULL, 532));
            assert_false(encodes(compute, codec, source, feedback, 532));
        }
        *at = FLT_MAX;
        feedback[PLACES[place]] = FLT_MAX;
        assert_false(encodes(compute, codec, source, feedback, 532));
        feedback[PLACES[place]] = 0;
        *at = FLT_MAX / 2;
        assert_true(encodes(compute, codec, source, NULL, 532));
        *at = kept;
    }
}

static void what_is_not_finite_is_refused_wherever_it_lies(void **state) {
    (void)state;
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        for (int codec = 0; cpu_supports_level((enum cpu_level)level) && codec < CODEC_COUNT;
             codec++) {
            check_refusals(codec_compute((enum cpu_level)level), (enum codec)codec);
        }
    }
}

/* bf16 rounds it up to infinity, and so does int8 127 times its scale; int4's scale rounds down. */
static void the_largest_float_is_refused_where_it_would_become_infinite(void **state) {
    (void)state;
    float source[64] = {FLT_MAX, -FLT_MAX};
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (!cpu_supports_level((enum cpu_level)level)) {
            continue;
        }
        const struct compute *compute = codec_compute((enum cpu_level)level);
        assert_true(encodes(compute, CODEC_FP32, source, NULL, 64));
        assert_false(encodes(compute, CODEC_BF16, source, NULL, 64));
        assert_false(encodes(compute, CODEC_INT8, source, NULL, 64));
        assert_true(encodes(compute, CODEC_INT4, source, NULL, 64));
    }
}

/* ---- timing ---- */

enum { BENCH_COUNT = 1 << 24, BENCH_ROUNDS = 25 };

struct bench {
    const struct compute *compute;
    struct tensor source, feedback, sums;
    struct tensor bytes[CODEC_COUNT];
};

enum timed {
    TIMED_MEMCPY,
    TIMED_ENCODE,
    TIMED_ENCODE_FEEDBACK,
    TIMED_ADD,
    TIMED_DECODE,
    TIMED_COUNT
};

static int64_t time_once(struct bench *bench, enum codec codec, enum timed timed) {
    struct codec_encode_args args = {
        .codec = codec, .count = BENCH_COUNT, .source = bench->source.data};
    struct codec_add_args add = {.codec = codec, .count = BENCH_COUNT, .weight = 0.125f};
    if (timed == TIMED_ENCODE_FEEDBACK) {
        args.feedback = bench->feedback.data;
        args.residual = bench->feedback.data;
    }
    uint8_t *bytes = bench->bytes[codec].data;
    bool encoded = true;
    int64_t start = clock_monotonic_ns();
    switch (timed) {
    case TIMED_MEMCPY:
        memcpy(bench->sums.data, bench->source.data, 4 * (size_t)BENCH_COUNT);
        break;
    case TIMED_ENCODE:
    case TIMED_ENCODE_FEEDBACK:
        encoded = codec_encode(bench->compute, &args, bytes);
        break;
    case TIMED_ADD:
        codec_decode_add(bench->compute, &add, bytes, bench->sums.data);
        break;
    case TIMED_DECODE:
    case TIMED_COUNT:
        codec_decode(bench->compute, codec, BENCH_COUNT, bytes, bench->sums.data);
        break;
    }
    int64_t taken = clock_monotonic_ns() - start;
    ASSERT(encoded);
    return taken;
}

/* memcpy is timed between the others, so that a noisy machine is noisy for all. */
static void bench_level(struct bench *bench, enum cpu_level level) {
    static const char *const NAMES[TIMED_COUNT] = {"memcpy", "encode", "encode, feedback",
                                                   "decode and add", "decode"};
    int64_t least[CODEC_COUNT][TIMED_COUNT];
    int64_t least_memcpy = INT64_MAX;
    memset(least, 0x7f, sizeof least);
    bench->compute = codec_compute(level);
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        for (int i = 0; i < CODEC_COUNT * TIMED_COUNT; i++) {
            int64_t *slot = &least[i / TIMED_COUNT][i % TIMED_COUNT];
            int64_t taken =
                time_once(bench, (enum codec)(i / TIMED_COUNT), (enum timed)(i % TIMED_COUNT));
            *slot = taken < *slot ? taken : *slot;
        }
    }
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        int64_t taken = least[codec][TIMED_MEMCPY];
        least_memcpy = taken < least_memcpy ? taken : least_memcpy;
    }
    double bytes = 4.0 * BENCH_COUNT;
    printf("%-11s memcpy %5.2f GB/s of fp32\n", cpu_level_name(level),
           bytes / (double)least_memcpy);
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        for (int timed = TIMED_ENCODE; timed < TIMED_COUNT; timed++) {
            double taken = (double)least[codec][timed];
            printf("%-11s %s %-17s %6.2f GB/s of fp32, %5.2f of memcpy\n", cpu_level_name(level),
                   codec_name((enum codec)codec), NAMES[timed], bytes / taken,
                   (double)least_memcpy / taken);
        }
    }
}

/* Encode, decode and decode_add in one call, on a device. */
static void bench_on_device(void) {
    for (int kind = 0; kind < CODEC_COUNT; kind++) {
        double encoded = (double)codec_bytes((enum codec)kind, BENCH_COUNT);
        struct codec_context codec = {
            .codec = (enum codec)kind,
            .mode = MODE_BARE,
            .count = BENCH_COUNT,
            .source = tensor_random(DTYPE_F32, BENCH_COUNT, PATTERN_NORMAL, 1),
            .bytes = tensor_unset(DTYPE_I32, (int64_t)(encoded + 3) / 4),
            .decoded = tensor_unset(DTYPE_F32, BENCH_COUNT),
            .sums = tensor_zeros(DTYPE_F32, BENCH_COUNT),
        };
        struct operation operation = {
            .name = "codec", .run_cuda = ON_CUDA(run_codec_cuda), .context = &codec};
        operation_describe(&operation, "%s count %lld", codec_name((enum codec)kind),
                           (long long)BENCH_COUNT);
        operation_bench(&operation, 16 * (double)BENCH_COUNT + 3 * encoded, 0);
        tensor_free(&codec.source);
        tensor_free(&codec.bytes);
        tensor_free(&codec.decoded);
        tensor_free(&codec.sums);
    }
}

static void bench_codecs(const char *lone_level) {
    struct bench bench = {
        .source = tensor_random(DTYPE_F32, BENCH_COUNT, PATTERN_NORMAL, 1),
        .feedback = tensor_zeros(DTYPE_F32, BENCH_COUNT),
        .sums = tensor_zeros(DTYPE_F32, BENCH_COUNT),
    };
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        bench.bytes[codec] = workspace_of(codec_bytes((enum codec)codec, BENCH_COUNT));
        memset(bench.bytes[codec].data, 0, codec_bytes((enum codec)codec, BENCH_COUNT));
    }
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        bool asked =
            lone_level == NULL || strcmp(lone_level, cpu_level_name((enum cpu_level)level)) == 0;
        if (asked && cpu_supports_level((enum cpu_level)level)) {
            bench_level(&bench, (enum cpu_level)level);
        }
    }
    tensor_free(&bench.source);
    tensor_free(&bench.feedback);
    tensor_free(&bench.sums);
    for (int codec = 0; codec < CODEC_COUNT; codec++) {
        tensor_free(&bench.bytes[codec]);
    }
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        if (device_is_wanted()) {
            bench_on_device();
        } else {
            bench_codecs(argument_count > 2 ? arguments[2] : NULL);
        }
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_equals_its_reference_to_the_bit),
        cmocka_unit_test(hand_made_vectors_have_these_bytes),
        cmocka_unit_test(sizes_are_exact),
        cmocka_unit_test(names_are_parsed_back),
        cmocka_unit_test(what_is_not_finite_is_refused_wherever_it_lies),
        cmocka_unit_test(the_largest_float_is_refused_where_it_would_become_infinite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
