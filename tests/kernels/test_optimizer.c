/* AdamW: its formula over twenty steps, its roundings, what it leaves alone. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "base/random.h"
#include "kernels/optimizer.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/optimizer.h"
#include "tests/kernels/device_scalars.h"
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GRANULE = 64, STEPS = 20 };

/* ---- AdamW ---- */

struct adamw_context {
    struct adamw_args args;
    double rate, clip;
    struct tensor gradients[STEPS];
    struct tensor master, m, v, params;
};

/* The rates and the decay of a step: they change in steps 7 and 14, as in a swarm that grows. */
struct rates {
    double beta1, beta2, decay, mean_share;
    double product1, product2; /* of the rates of all steps up to this one */
};

static struct rates rates_of(int step) {
    static const float BETA1[] = {0.9f, 0.975f, 0.95f};
    static const float BETA2[] = {0.999f, 0.99975f, 0.9995f};
    static const float DECAY[] = {0.125f, 0.03125f, 0.0625f};
    static const float MEAN_SHARE[] = {0, 0.75f, 0.5f};
    struct rates rates = {.product1 = 1, .product2 = 1};
    for (int i = 0; i <= step; i++) {
        rates.beta1 = (double)BETA1[i / 7];
        rates.beta2 = (double)BETA2[i / 7];
        rates.decay = (double)DECAY[i / 7];
        rates.mean_share = (double)MEAN_SHARE[i / 7];
        rates.product1 *= rates.beta1;
        rates.product2 *= rates.beta2;
    }
    return rates;
}

static struct step_scalars step_of(const struct adamw_context *adamw, int step) {
    const struct rates rates = rates_of(step);
    return (struct step_scalars){
        .learning_rate = (float)adamw->rate,
        .beta1 = (float)rates.beta1,
        .beta2 = (float)rates.beta2,
        .weight_decay = (float)rates.decay,
        .mean_share = (float)rates.mean_share,
        .bias_correction_1 = (float)(1 - rates.product1),
        .bias_correction_2 = (float)(1 - rates.product2),
        .clip_factor = (float)adamw->clip,
        .noise = 0x9d2c5680u * (uint32_t)(step + 1),
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

#if SKEP_CUDA
static void adamw_cuda(const struct cuda_compute *compute, struct device_run *device,
                       struct adamw_context *adamw, int steps, int32_t skip) {
    struct step_scalars scalars = {.skip = 1};
    void *on_device = device_put(compute, device, &scalars, sizeof scalars);
    for (int step = 0; step < steps; step++) {
        scalars = step_of(adamw, step);
        scalars.skip = skip;
        device_copy(compute, on_device, &scalars, sizeof scalars);
        cuda_adamw_run(compute, &adamw->args, on_device, device_of(device, &adamw->gradients[step]),
                       device_of(device, &adamw->master), device_of(device, &adamw->m),
                       device_of(device, &adamw->v), device_of(device, &adamw->params));
    }
}

static void run_adamw_cuda(const struct cuda_compute *compute, struct device_run *device,
                           void *context) {
    adamw_cuda(compute, device, context, STEPS, 0);
}

static void run_skipped_cuda(const struct cuda_compute *compute, struct device_run *device,
                             void *context) {
    adamw_cuda(compute, device, context, 1, 1);
}
#endif

static double rounded_like(double value, enum dtype dtype) {
    return dtype == DTYPE_BF16 ? (double)bf16_to_f32(bf16_from_f32((float)value)) : value;
}

static void reference_adamw(struct adamw_context *adamw) {
    const struct adamw_args *args = &adamw->args;
    struct rates rates[STEPS];
    for (int step = 0; step < STEPS; step++) {
        rates[step] = rates_of(step);
    }
    for (int64_t i = 0; i < args->count; i++) {
        double weight = adamw->master.exact[i];
        double m = adamw->m.exact[i];
        double v = adamw->v.exact[i];
        for (int step = 0; step < STEPS; step++) {
            double gradient = adamw->gradients[step].exact[i] * adamw->clip;
            m = rates[step].beta1 * m + (1 - rates[step].beta1) * gradient;
            v = rates[step].beta2 * v + (1 - rates[step].beta2) * gradient * gradient;
            double mean = m / (1 - rates[step].product1);
            double share = rates[step].mean_share;
            double root = sqrt((1 - share) * v / (1 - rates[step].product2) + share * mean * mean);
            double decay = i < args->decayed ? rates[step].decay : 0;
            weight -= adamw->rate * decay * weight;
            weight -= adamw->rate * mean / (root + (double)args->epsilon);
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
                 .epsilon = 1e-8f,
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
                                  .run_cuda = ON_CUDA(run_adamw_cuda),
                                  .context = adamw,
                                  .same_at_all_levels = true,
                                  .output_count = 4,
                                  .outputs = {{"master", &adamw->master, adamw->master.exact},
                                              {"m", &adamw->m, adamw->m.exact},
                                              {"v", &adamw->v, adamw->v.exact},
                                              {"params", &adamw->params, adamw->params.exact}}};
    operation_describe(&operation, "count %lld moments %s%s params %s seed %llu",
                       (long long)adamw->args.count, dtype_name(adamw->args.dtype_moments),
                       adamw->args.rounding == ROUNDING_STOCHASTIC ? " by noise" : "",
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

/* Each operation in fp64, rounded to fp32 at once: what fp32 gives when nothing is fused. */
static float once(double value) {
    return (float)value;
}

static void expect_roundings(struct adamw_context *adamw, int step, int64_t i) {
    const struct adamw_args *args = &adamw->args;
    struct step_scalars scalars = step_of(adamw, step);
    double rate = (double)scalars.learning_rate;
    double keep = i < args->decayed ? (double)once(1 - rate * (double)scalars.weight_decay) : 1;
    double root_scale = (double)once(1 / sqrt((double)scalars.bias_correction_2));
    double length = (double)once(rate / (double)scalars.bias_correction_1);
    double blend_m = (double)once(1 - (double)scalars.beta1);
    double blend_v = (double)once(1 - (double)scalars.beta2);
    double gradient = (double)once(adamw->gradients[step].exact[i] * (double)scalars.clip_factor);
    double m = adamw->m.exact[i];
    double v = adamw->v.exact[i];
    m = (double)once(m + (double)once(blend_m * (double)once(gradient - m)));
    double square = (double)once((double)once(blend_v * gradient) * gradient);
    v = (double)once((double)once((double)scalars.beta2 * v) + square);
    double share = (double)scalars.mean_share;
    double m_share = (double)once(sqrt(share * (double)scalars.bias_correction_2) /
                                  (double)scalars.bias_correction_1);
    double mean = (double)once(m_share * m);
    double spread = (double)once((1 - share) * v);
    spread = (double)once(spread + (double)once(mean * mean));
    double root = (double)once((double)once(sqrt(spread)) * root_scale);
    double ratio = (double)once(m / (double)once(root + (double)args->epsilon));
    double weight = (double)once(keep * adamw->master.exact[i]);
    adamw->master.exact[i] = (double)once(weight - (double)once(length * ratio));
    adamw->m.exact[i] = rounded_like(m, args->dtype_moments);
    adamw->v.exact[i] = rounded_like(v, args->dtype_moments);
    adamw->params.exact[i] = rounded_like(adamw->master.exact[i], args->dtype_params);
}

static void adamw_rounds_in_the_order_written(void **state) {
    (void)state;
    for (int moments = DTYPE_F32; moments <= DTYPE_BF16; moments++) {
        struct adamw_context adamw = adamw_of(2100, (enum dtype)moments, DTYPE_BF16);
        adamw.args.decayed = 1111;
        for (int step = 0; step < STEPS; step++) {
            for (int64_t i = 0; i < adamw.args.count; i++) {
                expect_roundings(&adamw, step, i);
            }
        }
        struct operation operation = adamw_operation(&adamw);
        operation.name = "fill";
        operation_check(&operation);
        adamw_finish(&adamw);
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
    operation.run_cuda = ON_CUDA(run_skipped_cuda);
    operation.output_count = 3; /* all but params, which hold NaN here */
    operation_check(&operation);
    adamw_finish(&adamw);
}

/* ---- stochastic rounding ---- */

/* kernels/loops/noise.h, written once more. */
static uint32_t expected_hash(uint32_t word) {
    word ^= word >> 16;
    word *= 0x7feb352du;
    word ^= word >> 15;
    word *= 0x846ca68bu;
    return word ^ word >> 16;
}

static double expected_by_noise(double value, uint32_t noise) {
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return isfinite(single) ? (double)bf16_to_f32((uint16_t)((bits + (noise & 0xffff)) >> 16))
                            : value;
}

static void set_gradient(struct adamw_context *adamw, int step, int64_t at, float value) {
    ((float *)adamw->gradients[step].data)[at] = value;
    adamw->gradients[step].exact[at] = (double)value;
}

/* The bits that the formula says, of an odd count and a tensor's late part; and values that are not
 * finite stay so. */
static void adamw_adds_the_noise_of_position_stream_and_step(void **state) {
    (void)state;
    struct adamw_context adamw = adamw_of(2101, DTYPE_BF16, DTYPE_BF16);
    adamw.args.rounding = ROUNDING_STOCHASTIC;
    adamw.args.stream = 7;
    adamw.args.position = ((int64_t)1 << 32) - 1000; /* some are past 2^32 */
    set_gradient(&adamw, STEPS - 1, 3, NAN);
    set_gradient(&adamw, STEPS - 1, 2100, -INFINITY);
    adamw.args.dtype_moments = DTYPE_F32; /* what is rounded is not yet bf16 */
    for (int step = 0; step < STEPS; step++) {
        uint32_t key = expected_hash(step_of(&adamw, step).noise + 7 * 0x9e3779b9u);
        for (int64_t i = 0; i < adamw.args.count; i++) {
            uint32_t noise = expected_hash((uint32_t)(adamw.args.position + i) ^ key);
            expect_roundings(&adamw, step, i);
            adamw.m.exact[i] = expected_by_noise(adamw.m.exact[i], noise);
            adamw.v.exact[i] = expected_by_noise(adamw.v.exact[i], noise >> 16);
        }
    }
    adamw.args.dtype_moments = DTYPE_BF16;
    assert_true(adamw.m.exact[2100] == -INFINITY && adamw.v.exact[2100] == INFINITY);
    struct operation operation = adamw_operation(&adamw);
    operation.name = "fill";
    operation_check(&operation);
    adamw_finish(&adamw);
}

/* Second moments that begin alike fall by a thousandth a step while gradients are zero: in the mean
 * as they should, within five standard errors; rounded to the nearest they stand still. */
static void second_moments_fall_in_the_mean_as_they_should(void **state) {
    (void)state;
    enum { COUNT = 1 << 14, DECAY_STEPS = 300 };
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        double v = 1.5;
        for (uint32_t step = 0; step < DECAY_STEPS; step++) {
            uint32_t key = expected_hash(step * 0x6c078965u);
            v = expected_by_noise((double)once(v * (double)0.999f), expected_hash(i ^ key) >> 16);
        }
        sum += v;
        squares += v * v;
    }
    double mean = sum / COUNT;
    double error = sqrt((squares / COUNT - mean * mean) / COUNT);
    assert_true(error > 0 && error < 1e-3);
    assert_true(fabs(mean - 1.5 * pow((double)0.999f, DECAY_STEPS)) < 5 * error);
    assert_true(rounded_like((double)once(1.5 * (double)0.999f), DTYPE_BF16) == 1.5);
}

/* ---- timing ---- */

static void run_one_step(const struct compute *compute, void *context) {
    struct adamw_context *adamw = context;
    struct step_scalars scalars = step_of(adamw, 3);
    adamw_run(compute, &adamw->args, &scalars, adamw->gradients[0].data, adamw->master.data,
              adamw->m.data, adamw->v.data,
              adamw->args.dtype_moments == DTYPE_BF16 ? adamw->params.data : NULL);
}

#if SKEP_CUDA
static void run_one_step_cuda(const struct cuda_compute *compute, struct device_run *device,
                              void *context) {
    adamw_cuda(compute, device, context, 1, 0);
}
#endif

static void bench_adamw(enum dtype moments, enum rounding rounding) {
    const int64_t count = 8 << 20;
    struct adamw_context adamw = adamw_of(GRANULE, moments, DTYPE_BF16);
    tensor_free(&adamw.gradients[0]);
    tensor_free(&adamw.master);
    tensor_free(&adamw.m);
    tensor_free(&adamw.v);
    tensor_free(&adamw.params);
    adamw.args.count = count;
    adamw.args.rounding = rounding;
    adamw.args.decayed = count;
    adamw.gradients[0] = tensor_random(DTYPE_F32, count, PATTERN_NORMAL, 1);
    adamw.master = tensor_random(DTYPE_F32, count, PATTERN_NORMAL, 2);
    adamw.m = tensor_zeros(moments, count);
    adamw.v = tensor_zeros(moments, count);
    adamw.params = tensor_unset(DTYPE_BF16, count);
    struct operation operation = adamw_operation(&adamw);
    operation.run = run_one_step;
    operation.run_cuda = ON_CUDA(run_one_step_cuda);
    double bytes = moments == DTYPE_BF16 ? 4 + 8 + 4 + 4 + 2 : 4 + 8 + 8 + 8;
    operation_bench(&operation, bytes * (double)count, 0);
    adamw_finish(&adamw);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_adamw(DTYPE_F32, ROUNDING_NEAREST);
        bench_adamw(DTYPE_BF16, ROUNDING_NEAREST);
        bench_adamw(DTYPE_BF16, ROUNDING_STOCHASTIC);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_equals_its_formula_over_twenty_steps),
        cmocka_unit_test(adamw_rounds_in_the_order_written),
        cmocka_unit_test(adamw_decays_the_first_elements_only),
        cmocka_unit_test(adamw_changes_nothing_when_the_step_is_skipped),
        cmocka_unit_test(adamw_adds_the_noise_of_position_stream_and_step),
        cmocka_unit_test(second_moments_fall_in_the_mean_as_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
