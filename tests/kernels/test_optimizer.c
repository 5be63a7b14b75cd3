/* The gradient norm, its accumulator, clipping and AdamW. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "base/random.h"
#include "kernels/optimizer.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GRANULE = 64, LONG_COUNT = 64 * 1100, STEPS = 20 };

/* ---- norm ---- */

struct norm_context {
    struct tensor gradients, norm, digits;
};

static void run_norm(const struct compute *compute, void *context) {
    struct norm_context *norm = context;
    struct step_scalars scalars = {0};
    struct tensor workspace = workspace_of(
        gradient_norm_workspace_bytes(norm->gradients.count, compute->pool->thread_count));
    gradient_norm_run(compute, norm->gradients.count, norm->gradients.data, &scalars,
                      workspace.data);
    clip_run(0, &scalars);
    *(float *)norm->norm.data = (float)scalars.gradient_norm;
    memcpy(norm->digits.data, &scalars.norm, sizeof scalars.norm);
    tensor_free(&workspace);
}

static void check_norm(struct tensor gradients) {
    struct norm_context norm = {
        .gradients = gradients,
        .norm = tensor_unset(DTYPE_F32, 1),
        .digits = tensor_unset(DTYPE_I32, (int64_t)(sizeof(struct norm_accumulator) / 4)),
    };
    /* long double holds 64 bits: a truth well below an fp32 rounding. */
    long double squares = 0;
    for (int64_t i = 0; i < gradients.count; i++) {
        squares += (long double)gradients.exact[i] * (long double)gradients.exact[i];
    }
    norm.norm.exact[0] = (double)sqrtl(squares);
    struct operation operation = {
        .name = "gradient_norm",
        .run = run_norm,
        .context = &norm,
        .same_at_all_levels = true,
        .output_count = 2,
        .outputs = {{"norm", &norm.norm, norm.norm.exact}, {"digits", &norm.digits, NULL}}};
    operation_describe(&operation, "count %lld seed %llu", (long long)gradients.count,
                       (unsigned long long)harness_seed());
    operation_check(&operation);
    tensor_free(&norm.gradients);
    tensor_free(&norm.norm);
    tensor_free(&norm.digits);
}

static void gradient_norm_equals_the_root_of_squares(void **state) {
    (void)state;
    for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
        check_norm(tensor_random(DTYPE_F32, LONG_COUNT, (enum pattern)pattern, harness_seed()));
        check_norm(tensor_random(DTYPE_F32, GRANULE, (enum pattern)pattern, harness_seed()));
    }
    check_norm(tensor_random(DTYPE_F32, 0, PATTERN_NORMAL, harness_seed()));
}

static struct tensor filled(int64_t count, float value) {
    struct tensor tensor = tensor_zeros(DTYPE_F32, count);
    for (int64_t i = 0; i < count; i++) {
        ((float *)tensor.data)[i] = value;
        tensor.exact[i] = (double)value;
    }
    return tensor;
}

static void gradient_norm_holds_the_extremes_of_floats(void **state) {
    (void)state;
    check_norm(filled(GRANULE, FLT_TRUE_MIN));
    check_norm(filled(GRANULE * 300, FLT_TRUE_MIN));
    check_norm(filled(GRANULE, FLT_MAX / 8));
    check_norm(filled(GRANULE * 300, FLT_MAX / 256));
}

static struct step_scalars norm_of(const struct compute *compute, const struct tensor *gradients,
                                   int64_t first, int64_t count, struct step_scalars scalars) {
    struct norm_accumulator workspace; /* of one thread */
    gradient_norm_run(compute, count, (const float *)gradients->data + first, &scalars, &workspace);
    return scalars;
}

static void split_norm(const struct compute *compute, void *context) {
    struct norm_context *norm = context;
    if (compute->pool->thread_count > 1) {
        run_norm(compute, context);
        return;
    }
    int64_t cut = 37 * GRANULE;
    int64_t rest = norm->gradients.count - cut;
    struct step_scalars scalars = {0};
    scalars = norm_of(compute, &norm->gradients, cut, rest, scalars);
    scalars = norm_of(compute, &norm->gradients, 0, cut, scalars);
    clip_run(0, &scalars);
    *(float *)norm->norm.data = (float)scalars.gradient_norm;
    memcpy(norm->digits.data, &scalars.norm, sizeof scalars.norm);
}

/* One thread adds two shards in the other order; two and three threads add the whole. The harness
 * compares their bits. */
static void gradient_norm_has_the_same_bits_however_it_is_split(void **state) {
    (void)state;
    struct norm_context norm = {
        .gradients = tensor_random(DTYPE_F32, LONG_COUNT, PATTERN_MIXED, harness_seed()),
        .norm = tensor_unset(DTYPE_F32, 1),
        .digits = tensor_unset(DTYPE_I32, (int64_t)(sizeof(struct norm_accumulator) / 4)),
    };
    struct operation operation = {
        .name = "gradient_norm",
        .run = split_norm,
        .context = &norm,
        .output_count = 2,
        .outputs = {{"norm", &norm.norm, NULL}, {"digits", &norm.digits, NULL}}};
    operation_describe(&operation, "seed %llu", (unsigned long long)harness_seed());
    operation_check(&operation);
    tensor_free(&norm.gradients);
    tensor_free(&norm.norm);
    tensor_free(&norm.digits);
}

/* ---- clip ---- */

static struct step_scalars scalars_of_square(int digit, int64_t count) {
    struct step_scalars scalars = {0};
    scalars.norm.digits[digit] = count;
    return scalars;
}

static void clip_scales_only_what_is_above_the_bound(void **state) {
    (void)state;
    struct step_scalars scalars = scalars_of_square(10, 16); /* digit 10 counts ones */
    clip_run(2, &scalars);
    assert_true(scalars.gradient_norm == 4 && scalars.clip_factor == 0.5f && scalars.skip == 0);
    clip_run(4, &scalars);
    assert_true(scalars.clip_factor == 1);
    clip_run(100, &scalars);
    assert_true(scalars.clip_factor == 1);
    clip_run(0, &scalars);
    assert_true(scalars.clip_factor == 1);
    scalars = scalars_of_square(0, 0);
    clip_run(1, &scalars);
    assert_true(scalars.gradient_norm == 0 && scalars.clip_factor == 1 && scalars.skip == 0);
}

static void clip_carries_digits_that_ranks_have_added(void **state) {
    (void)state;
    /* 2^33 units of 2^-32 are two; with 2 ones, four. */
    struct step_scalars scalars = scalars_of_square(9, (int64_t)1 << 33);
    scalars.norm.digits[10] = 2;
    clip_run(1, &scalars);
    assert_true(scalars.gradient_norm == 2 && scalars.clip_factor == 0.5f);
}

static void clip_skips_the_step_when_any_granule_is_not_finite(void **state) {
    (void)state;
    struct step_scalars scalars = scalars_of_square(10, 16);
    scalars.norm.nonfinite = 1;
    clip_run(1, &scalars);
    assert_true(scalars.skip == 1 && isinf(scalars.gradient_norm));
}

struct broken_context {
    struct tensor gradients, nonfinite;
};

static void run_broken(const struct compute *compute, void *context) {
    struct broken_context *broken = context;
    struct step_scalars scalars = {0};
    struct tensor workspace = workspace_of(
        gradient_norm_workspace_bytes(broken->gradients.count, compute->pool->thread_count));
    gradient_norm_run(compute, broken->gradients.count, broken->gradients.data, &scalars,
                      workspace.data);
    *(float *)broken->nonfinite.data = (float)scalars.norm.nonfinite;
    tensor_free(&workspace);
}

static void gradient_norm_counts_granules_that_are_not_finite(void **state) {
    (void)state;
    struct broken_context broken = {
        .gradients = tensor_random(DTYPE_F32, LONG_COUNT, PATTERN_NORMAL, harness_seed()),
        .nonfinite = tensor_unset(DTYPE_F32, 1),
    };
    float *gradients = broken.gradients.data;
    gradients[5] = NAN;
    gradients[6] = INFINITY;
    gradients[GRANULE * 700 + 63] = -INFINITY;
    broken.nonfinite.exact[0] = 2;
    struct operation operation = {
        .name = "fill",
        .run = run_broken,
        .context = &broken,
        .output_count = 1,
        .outputs = {{"nonfinite", &broken.nonfinite, broken.nonfinite.exact}}};
    operation_describe(&operation, "NaN and infinities");
    operation_check(&operation);
    tensor_free(&broken.gradients);
    tensor_free(&broken.nonfinite);
}

/* ---- AdamW ---- */

struct adamw_context {
    struct adamw_args args;
    double rate, clip;
    struct tensor gradients[STEPS];
    struct tensor master, m, v, params;
};

static struct step_scalars step_of(const struct adamw_context *adamw, int step) {
    return (struct step_scalars){
        .learning_rate = (float)adamw->rate,
        .bias_correction_1 = (float)(1 - pow(adamw->args.beta1, step + 1)),
        .bias_correction_2 = (float)(1 - pow(adamw->args.beta2, step + 1)),
        .clip_factor = (float)adamw->clip,
    };
}

static void run_adamw(const struct compute *compute, void *context) {
    struct adamw_context *adamw = context;
    for (int step = 0; step < STEPS; step++) {
        struct step_scalars scalars = step_of(adamw, step);
        adamw_run(compute, &adamw->args, &scalars, adamw->gradients[step].data, adamw->master.data,
                  adamw->m.data, adamw->v.data, adamw->params.data);
    }
}

static double rounded_like(double value, enum dtype dtype) {
    return dtype == DTYPE_BF16 ? (double)bf16_to_f32(bf16_from_f32((float)value)) : value;
}

static void reference_adamw(struct adamw_context *adamw) {
    const struct adamw_args *args = &adamw->args;
    for (int64_t i = 0; i < args->count; i++) {
        double weight = adamw->master.exact[i];
        double m = adamw->m.exact[i];
        double v = adamw->v.exact[i];
        for (int step = 0; step < STEPS; step++) {
            double gradient = adamw->gradients[step].exact[i] * adamw->clip;
            m = args->beta1 * m + (1 - args->beta1) * gradient;
            v = args->beta2 * v + (1 - args->beta2) * gradient * gradient;
            double root = sqrt(v / (1 - pow(args->beta2, step + 1)));
            double decay = i < args->decayed ? (double)args->weight_decay : 0;
            weight -= adamw->rate * decay * weight;
            weight -= adamw->rate * (m / (1 - pow(args->beta1, step + 1))) /
                      (root + (double)args->epsilon);
            m = rounded_like(m, args->dtype_moments);
            v = rounded_like(v, args->dtype_moments);
        }
        adamw->master.exact[i] = weight;
        adamw->params.exact[i] = weight;
        adamw->m.exact[i] = m;
        adamw->v.exact[i] = v;
    }
}

static struct adamw_context adamw_of(int64_t count, enum dtype moments, enum dtype params) {
    uint64_t seed = harness_seed();
    struct adamw_context adamw = {
        .args = {.count = count,
                 .decayed = count,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .epsilon = 1e-8f,
                 .weight_decay = 0.125f,
                 .dtype_moments = moments,
                 .dtype_params = params},
        .rate = 0x1p-10,
        .clip = 0.75,
        .master = tensor_random(DTYPE_F32, count, PATTERN_NORMAL, seed),
        .m = tensor_zeros(moments, count),
        .v = tensor_zeros(moments, count),
        .params = tensor_unset(params, count),
    };
    for (int step = 0; step < STEPS; step++) {
        adamw.gradients[step] =
            tensor_random(DTYPE_F32, count, PATTERN_NORMAL, seed + 10 + (uint64_t)step);
    }
    return adamw;
}

static void adamw_finish(struct adamw_context *adamw) {
    for (int step = 0; step < STEPS; step++) {
        tensor_free(&adamw->gradients[step]);
    }
    tensor_free(&adamw->master);
    tensor_free(&adamw->m);
    tensor_free(&adamw->v);
    tensor_free(&adamw->params);
}

static struct operation adamw_operation(struct adamw_context *adamw) {
    struct operation operation = {.name = "adamw",
                                  .run = run_adamw,
                                  .context = adamw,
                                  .same_at_all_levels = true,
                                  .output_count = 4,
                                  .outputs = {{"master", &adamw->master, adamw->master.exact},
                                              {"m", &adamw->m, adamw->m.exact},
                                              {"v", &adamw->v, adamw->v.exact},
                                              {"params", &adamw->params, adamw->params.exact}}};
    operation_describe(&operation, "count %lld moments %s params %s seed %llu",
                       (long long)adamw->args.count, dtype_name(adamw->args.dtype_moments),
                       dtype_name(adamw->args.dtype_params), (unsigned long long)harness_seed());
    return operation;
}

static void adamw_equals_its_formula_over_twenty_steps(void **state) {
    (void)state;
    for (int moments = DTYPE_F32; moments <= DTYPE_BF16; moments++) {
        for (int i = 0; i <= EDGE_SIZE_COUNT; i++) {
            int64_t count = i < EDGE_SIZE_COUNT ? EDGE_SIZES[i] : 20000;
            struct adamw_context adamw =
                adamw_of(count, (enum dtype)moments, i % 2 == 0 ? DTYPE_BF16 : DTYPE_F32);
            reference_adamw(&adamw);
            struct operation operation = adamw_operation(&adamw);
            operation.name = moments == DTYPE_BF16 ? "adamw_bf16" : "adamw";
            operation_check(&operation);
            adamw_finish(&adamw);
        }
    }
}

/* Turns at, before and after the bounds of what a thread takes at a time. */
static void adamw_decays_the_first_elements_only(void **state) {
    (void)state;
    static const int64_t TURNS[] = {0, 1, 64, 8191, 16384, 16448, 20000};
    for (size_t i = 0; i < ARRAY_COUNT(TURNS); i++) {
        struct adamw_context adamw = adamw_of(20000, DTYPE_F32, DTYPE_BF16);
        adamw.args.decayed = TURNS[i];
        reference_adamw(&adamw);
        struct operation operation = adamw_operation(&adamw);
        operation_describe(&operation, "count 20000 decayed %lld", (long long)TURNS[i]);
        operation_check(&operation);
        adamw_finish(&adamw);
    }
}

static void run_skipped(const struct compute *compute, void *context) {
    struct adamw_context *adamw = context;
    struct step_scalars scalars = step_of(adamw, 0);
    scalars.skip = 1;
    adamw_run(compute, &adamw->args, &scalars, adamw->gradients[0].data, adamw->master.data,
              adamw->m.data, adamw->v.data, adamw->params.data);
}

static void adamw_changes_nothing_when_the_step_is_skipped(void **state) {
    (void)state;
    struct adamw_context adamw = adamw_of(100, DTYPE_F32, DTYPE_BF16);
    struct operation operation = adamw_operation(&adamw);
    operation.name = "fill";
    operation.run = run_skipped;
    operation.output_count = 3; /* all but params, which hold NaN here */
    operation_check(&operation);
    adamw_finish(&adamw);
}

/* ---- timing ---- */

static void run_one_step(const struct compute *compute, void *context) {
    struct adamw_context *adamw = context;
    struct step_scalars scalars = step_of(adamw, 3);
    adamw_run(compute, &adamw->args, &scalars, adamw->gradients[0].data, adamw->master.data,
              adamw->m.data, adamw->v.data,
              adamw->args.dtype_moments == DTYPE_BF16 ? adamw->params.data : NULL);
}

static void bench_adamw(enum dtype moments) {
    const int64_t count = 8 << 20;
    struct adamw_context adamw = adamw_of(GRANULE, moments, DTYPE_BF16);
    tensor_free(&adamw.gradients[0]);
    tensor_free(&adamw.master);
    tensor_free(&adamw.m);
    tensor_free(&adamw.v);
    tensor_free(&adamw.params);
    adamw.args.count = count;
    adamw.args.decayed = count;
    adamw.gradients[0] = tensor_random(DTYPE_F32, count, PATTERN_NORMAL, 1);
    adamw.master = tensor_random(DTYPE_F32, count, PATTERN_NORMAL, 2);
    adamw.m = tensor_zeros(moments, count);
    adamw.v = tensor_zeros(moments, count);
    adamw.params = tensor_unset(DTYPE_BF16, count);
    struct operation operation = adamw_operation(&adamw);
    operation.run = run_one_step;
    double bytes = moments == DTYPE_BF16 ? 4 + 8 + 4 + 4 + 2 : 4 + 8 + 8 + 8;
    operation_bench(&operation, bytes * (double)count, 0);
    adamw_finish(&adamw);
}

static void bench_norm(void) {
    struct norm_context norm = {
        .gradients = tensor_random(DTYPE_F32, 8 << 20, PATTERN_NORMAL, 1),
        .norm = tensor_unset(DTYPE_F32, 1),
        .digits = tensor_unset(DTYPE_I32, (int64_t)(sizeof(struct norm_accumulator) / 4)),
    };
    struct operation operation = {.name = "gradient_norm", .run = run_norm, .context = &norm};
    operation_describe(&operation, "count %lld", (long long)norm.gradients.count);
    operation_bench(&operation, 4 * (double)norm.gradients.count, 0);
    tensor_free(&norm.gradients);
    tensor_free(&norm.norm);
    tensor_free(&norm.digits);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_norm();
        bench_adamw(DTYPE_F32);
        bench_adamw(DTYPE_BF16);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_norm_equals_the_root_of_squares),
        cmocka_unit_test(gradient_norm_holds_the_extremes_of_floats),
        cmocka_unit_test(gradient_norm_has_the_same_bits_however_it_is_split),
        cmocka_unit_test(gradient_norm_counts_granules_that_are_not_finite),
        cmocka_unit_test(clip_scales_only_what_is_above_the_bound),
        cmocka_unit_test(clip_carries_digits_that_ranks_have_added),
        cmocka_unit_test(clip_skips_the_step_when_any_granule_is_not_finite),
        cmocka_unit_test(adamw_equals_its_formula_over_twenty_steps),
        cmocka_unit_test(adamw_decays_the_first_elements_only),
        cmocka_unit_test(adamw_changes_nothing_when_the_step_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
