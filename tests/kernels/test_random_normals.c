/* Normal values of random streams: the defined bits, at odd positions, lengths and addresses. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "base/random.h"
#include "kernels/random_normals.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct draw_context {
    struct random_normals_args args;
    struct tensor outputs[RANDOM_NORMALS_OUTPUTS_MAX];
};

static void run_draw(const struct compute *compute, void *context) {
    const struct draw_context *draw = context;
    random_normals_run(compute, &draw->args);
}

/* The definition, bit by bit: the sum of twelve uniform values of 21 bits, less its mean. The
 * product is exact in fp64, so it is rounded once. */
static float reference_value(uint64_t key, uint64_t index, float deviation) {
    uint32_t words[8];
    random_block(key, 2 * index, words);
    random_block(key, 2 * index + 1, words + 4);
    double sum = 0;
    for (int bit = 0; bit < 12 * 21; bit++) {
        sum += ldexp((double)(words[bit / 32] >> (bit % 32) & 1), bit % 21 - 21);
    }
    return (float)((double)deviation * (sum - 6 * (1 - 0x1p-21)));
}

/* Adds an output of the given type, which begins `shift` elements into its tensor. */
static void add_output(struct draw_context *draw, enum dtype dtype, int64_t shift) {
    const struct random_normals_args *args = &draw->args;
    struct tensor *tensor = &draw->outputs[args->output_count];
    *tensor = tensor_unset(dtype, args->count + shift);
    for (int64_t i = 0; i < shift; i++) {
        tensor->exact[i] = tensor_value(tensor, i);
    }
    for (int64_t i = 0; i < args->count; i++) {
        float value = reference_value(args->key, (uint64_t)(args->first + i), args->deviation);
        tensor->exact[shift + i] =
            (double)(dtype == DTYPE_BF16 ? bf16_to_f32(bf16_from_f32(value)) : value);
    }
    draw->args.outputs[draw->args.output_count++] = (struct random_normals_output){
        .dtype = dtype, .values = (char *)tensor->data + shift * dtype_bytes(dtype)};
}

static void check_draw(struct draw_context *draw, int64_t shift) {
    struct operation operation = {.name = "fill",
                                  .run = run_draw,
                                  .context = draw,
                                  .same_at_all_levels = true,
                                  .output_count = draw->args.output_count};
    operation_describe(&operation, "first %lld, count %lld, shift %lld, deviation %g, seed %llu",
                       (long long)draw->args.first, (long long)draw->args.count, (long long)shift,
                       (double)draw->args.deviation, (unsigned long long)harness_seed());
    for (int i = 0; i < draw->args.output_count; i++) {
        operation.outputs[i] =
            (struct checked_output){"values", &draw->outputs[i], draw->outputs[i].exact};
    }
    operation_check(&operation);
    for (int i = 0; i < draw->args.output_count; i++) {
        tensor_free(&draw->outputs[i]);
    }
}

/* Counters are twice the index: they need a second word from 2^31 on, and wrap at 2^63. */
static const int64_t FIRSTS[] = {0,
                                 1,
                                 4099,
                                 ((int64_t)1 << 31) - 9,
                                 ((int64_t)1 << 32) - 5,
                                 ((int64_t)1 << 40) + 3,
                                 INT64_MAX - 1000};

static void values_have_the_defined_bits(void **state) {
    (void)state;
    for (size_t f = 0; f < ARRAY_COUNT(FIRSTS); f++) {
        for (int i = 0; i < EDGE_SIZE_COUNT; i++) {
            struct draw_context draw = {.args = {.key = random_key(harness_seed(), "a.weight"),
                                                 .first = FIRSTS[f],
                                                 .count = EDGE_SIZES[i],
                                                 .deviation = 0.02f}};
            int64_t shift = i % 2;
            add_output(&draw, DTYPE_F32, shift);
            add_output(&draw, DTYPE_BF16, shift);
            check_draw(&draw, shift);
        }
    }
}

static void each_output_gets_all_values_of_a_long_range(void **state) {
    (void)state;
    static const enum dtype TYPES[][RANDOM_NORMALS_OUTPUTS_MAX] = {
        {DTYPE_F32, DTYPE_F32}, {DTYPE_BF16, DTYPE_BF16}, {DTYPE_BF16, DTYPE_F32}};
    for (size_t t = 0; t < ARRAY_COUNT(TYPES); t++) {
        for (int outputs = 1; outputs <= RANDOM_NORMALS_OUTPUTS_MAX; outputs++) {
            struct draw_context draw = {.args = {.key = harness_seed() + t,
                                                 .first = ((int64_t)1 << 31) - 20000,
                                                 .count = 40037,
                                                 .deviation = 1}};
            for (int i = 0; i < outputs; i++) {
                add_output(&draw, TYPES[t][i], 3);
            }
            check_draw(&draw, 3);
        }
    }
}

static void any_deviation_rounds_once(void **state) {
    (void)state;
    static const float DEVIATIONS[] = {0, 1e-44f, 3e-39f, 0.006f, 1.0f / 3, 2e37f};
    for (size_t i = 0; i < ARRAY_COUNT(DEVIATIONS); i++) {
        struct draw_context draw = {
            .args = {.key = harness_seed(), .count = 1000, .deviation = DEVIATIONS[i]}};
        add_output(&draw, DTYPE_F32, 0);
        add_output(&draw, DTYPE_BF16, 1);
        check_draw(&draw, 1);
    }
}

static void nothing_is_written_for_a_count_of_zero(void **state) {
    (void)state;
    struct draw_context draw = {.args = {.key = 1, .first = 5, .deviation = 1}};
    add_output(&draw, DTYPE_F32, 2);
    check_draw(&draw, 2);
}

/* ---- timing ---- */

static void bench_draw(int output_count) {
    const int64_t count = 16 << 20;
    struct draw_context draw = {
        .args = {.key = 1, .count = count, .deviation = 0.02f, .output_count = output_count},
        .outputs = {tensor_zeros(DTYPE_F32, count), tensor_zeros(DTYPE_BF16, count)}};
    double bytes = 0;
    for (int i = 0; i < output_count; i++) {
        enum dtype dtype = draw.outputs[i].dtype;
        draw.args.outputs[i] = (struct random_normals_output){dtype, draw.outputs[i].data};
        bytes += (double)(count * dtype_bytes(dtype));
    }
    struct operation operation = {.name = "random_normals", .run = run_draw, .context = &draw};
    operation_describe(&operation, "count %lld, %s", (long long)count,
                       output_count == 1 ? "f32" : "f32 and bf16");
    operation_bench(&operation, bytes, 0);
    tensor_free(&draw.outputs[0]);
    tensor_free(&draw.outputs[1]);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_draw(1);
        bench_draw(2);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_the_defined_bits),
        cmocka_unit_test(each_output_gets_all_values_of_a_long_range),
        cmocka_unit_test(any_deviation_rounds_once),
        cmocka_unit_test(nothing_is_written_for_a_count_of_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
