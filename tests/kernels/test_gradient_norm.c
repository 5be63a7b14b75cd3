/* The gradient norm, its accumulator and clipping. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/optimizer.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/optimizer.h"
#include "kernels/cuda/launch/workspace.h"
#include "tests/kernels/device_scalars.h"
#endif

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { GRANULE = 64, LONG_COUNT = 64 * 1100 };

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

#if SKEP_CUDA
/* The norm of the parts before and behind `cut`, added in the other order, and the clip. */
static struct step_scalars norm_cuda(const struct cuda_compute *compute, struct device_run *device,
                                     const struct tensor *gradients, int64_t cut) {
    struct step_scalars scalars = {0};
    const float *first = device_of(device, gradients);
    int64_t rest = gradients->count - cut;
    void *on_device = device_put(compute, device, &scalars, sizeof scalars);
    void *workspace =
        device_workspace(device, cuda_gradient_norm_workspace_bytes(gradients->count, NULL));
    cuda_gradient_norm_run(compute, rest, first + cut, on_device, workspace);
    if (cut > 0) {
        cuda_gradient_norm_run(compute, cut, first, on_device, workspace);
    }
    cuda_clip_run(compute, 0, on_device);
    device_copy(compute, &scalars, on_device, sizeof scalars);
    return scalars;
}

static void run_norm_cuda(const struct cuda_compute *compute, struct device_run *device,
                          void *context) {
    struct norm_context *norm = context;
    struct step_scalars scalars = norm_cuda(compute, device, &norm->gradients, 0);
    *(float *)norm->norm.data = (float)scalars.gradient_norm;
    memcpy(norm->digits.data, &scalars.norm, sizeof scalars.norm);
}
#endif

/* The documented order of a granule's 64 squares: eight lanes, then lanes 4, 2 and 1 apart. */
static double granule_of(const double *values) {
    double lanes[8] = {0};
    for (int i = 0; i < GRANULE; i++) {
        lanes[i % 8] += values[i] * values[i];
    }
    double halves[4] = {lanes[0] + lanes[4], lanes[1] + lanes[5], lanes[2] + lanes[6],
                        lanes[3] + lanes[7]};
    return (halves[0] + halves[2]) + (halves[1] + halves[3]);
}

/* Digit by digit from the top; every step is exact. */
static void reference_digits(struct norm_context *norm) {
    struct norm_accumulator sum = {0};
    for (int64_t first = 0; first < norm->gradients.count; first += GRANULE) {
        double rest = granule_of(norm->gradients.exact + first);
        for (int digit = NORM_DIGITS - 1; digit >= 0; digit--) {
            double unit = ldexp(1, 32 * digit - 320);
            double units = floor(rest / unit);
            sum.digits[digit] += (int64_t)units;
            rest -= units * unit;
        }
    }
    for (int digit = 0; digit + 1 < NORM_DIGITS; digit++) {
        sum.digits[digit + 1] += sum.digits[digit] >> 32;
        sum.digits[digit] &= 0xffffffff;
    }
    int32_t words[sizeof sum / 4];
    memcpy(words, &sum, sizeof sum);
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        norm->digits.exact[i] = words[i];
    }
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
    reference_digits(&norm);
    struct operation operation = {.name = "gradient_norm",
                                  .run = run_norm,
                                  .run_cuda = ON_CUDA(run_norm_cuda),
                                  .context = &norm,
                                  .same_at_all_levels = true,
                                  .output_count = 2,
                                  .outputs = {{"norm", &norm.norm, norm.norm.exact},
                                              {"digits", &norm.digits, norm.digits.exact}}};
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

#if SKEP_CUDA
static void split_norm_cuda(const struct cuda_compute *compute, struct device_run *device,
                            void *context) {
    struct norm_context *norm = context;
    struct step_scalars scalars = norm_cuda(compute, device, &norm->gradients, 37 * GRANULE);
    *(float *)norm->norm.data = (float)scalars.gradient_norm;
    memcpy(norm->digits.data, &scalars.norm, sizeof scalars.norm);
}
#endif

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
        .run_cuda = ON_CUDA(split_norm_cuda),
        .context = &norm,
        .output_count = 2,
        .outputs = {{"norm", &norm.norm, NULL}, {"digits", &norm.digits, norm.digits.exact}}};
    reference_digits(&norm);
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

#if SKEP_CUDA
static void run_broken_cuda(const struct cuda_compute *compute, struct device_run *device,
                            void *context) {
    struct broken_context *broken = context;
    struct step_scalars scalars = norm_cuda(compute, device, &broken->gradients, 0);
    assert_true(scalars.skip == 1 && isinf(scalars.gradient_norm) && scalars.clip_factor == 0);
    *(float *)broken->nonfinite.data = (float)scalars.norm.nonfinite;
}
#endif

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
        .run_cuda = ON_CUDA(run_broken_cuda),
        .context = &broken,
        .output_count = 1,
        .outputs = {{"nonfinite", &broken.nonfinite, broken.nonfinite.exact}}};
    operation_describe(&operation, "NaN and infinities");
    operation_check(&operation);
    tensor_free(&broken.gradients);
    tensor_free(&broken.nonfinite);
}

/* ---- timing ---- */

static void bench_norm(void) {
    struct norm_context norm = {
        .gradients = tensor_random(DTYPE_F32, 8 << 20, PATTERN_NORMAL, 1),
        .norm = tensor_unset(DTYPE_F32, 1),
        .digits = tensor_unset(DTYPE_I32, (int64_t)(sizeof(struct norm_accumulator) / 4)),
    };
    struct operation operation = {.name = "gradient_norm",
                                  .run = run_norm,
                                  .run_cuda = ON_CUDA(run_norm_cuda),
                                  .context = &norm};
    operation_describe(&operation, "count %lld", (long long)norm.gradients.count);
    operation_bench(&operation, 4 * (double)norm.gradients.count, 0);
    tensor_free(&norm.gradients);
    tensor_free(&norm.norm);
    tensor_free(&norm.digits);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_norm();
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
