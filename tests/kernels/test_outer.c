/* The outer step: its formula, its bits, and that a vote overwrites nothing. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/outer.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/outer.h"
#include "tests/kernels/device.h"
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct outer_context {
    float rate, momentum;
    bool in_place;
    struct tensor params, moments, gradients;
    struct tensor next_params, next_moments;
};

static void run_step(const struct compute *compute, void *context) {
    struct outer_context *outer = context;
    struct outer_step_args args = {
        .count = outer->params.count,
        .rate = outer->rate,
        .momentum = outer->momentum,
        .params = outer->in_place ? outer->next_params.data : outer->params.data,
        .moments = outer->in_place ? outer->next_moments.data : outer->moments.data,
        .gradients = outer->gradients.data,
        .next_params = outer->next_params.data,
        .next_moments = outer->next_moments.data,
    };
    outer_step_run(compute, &args);
}

#if SKEP_CUDA
static void run_step_cuda(const struct cuda_compute *compute, struct device_run *device,
                          void *context) {
    struct outer_context *outer = context;
    struct outer_step_args args = {
        .count = outer->params.count,
        .rate = outer->rate,
        .momentum = outer->momentum,
        .params = device_of(device, outer->in_place ? &outer->next_params : &outer->params),
        .moments = device_of(device, outer->in_place ? &outer->next_moments : &outer->moments),
        .gradients = device_of(device, &outer->gradients),
        .next_params = device_of(device, &outer->next_params),
        .next_moments = device_of(device, &outer->next_moments),
    };
    cuda_outer_step_run(compute, &args);
}
#endif

static void reference_step(struct outer_context *outer) {
    double rate = (double)outer->rate;
    double momentum = (double)outer->momentum;
    for (int64_t i = 0; i < outer->params.count; i++) {
        double gradient = outer->gradients.exact[i];
        double moment = momentum * outer->moments.exact[i] + gradient;
        outer->next_moments.exact[i] = moment;
        outer->next_params.exact[i] =
            outer->params.exact[i] - rate * (gradient + momentum * moment);
    }
}

static void check_step(int64_t count, enum pattern pattern, bool in_place) {
    uint64_t seed = harness_seed() + (uint64_t)count;
    struct outer_context outer = {
        .rate = 0.7f,
        .momentum = 0.9f,
        .in_place = in_place,
        .params = tensor_random(DTYPE_F32, count, pattern, seed),
        .moments = tensor_random(DTYPE_F32, count, pattern, seed + 1),
        .gradients = tensor_random(DTYPE_F32, count, pattern, seed + 2),
        .next_params = tensor_random(DTYPE_F32, count, pattern, seed),
        .next_moments = tensor_random(DTYPE_F32, count, pattern, seed + 1),
    };
    reference_step(&outer);
    struct operation operation = {
        .name = "outer_step",
        .run = run_step,
        .run_cuda = ON_CUDA(run_step_cuda),
        .context = &outer,
        .same_at_all_levels = true,
        .output_count = 5,
        .outputs = {{"next_params", &outer.next_params, outer.next_params.exact},
                    {"next_moments", &outer.next_moments, outer.next_moments.exact},
                    /* what is only read stays as it is */
                    {"params", &outer.params, outer.params.exact},
                    {"moments", &outer.moments, outer.moments.exact},
                    {"gradients", &outer.gradients, outer.gradients.exact}}};
    operation_describe(&operation, "count %lld, %s, %s, seed %llu", (long long)count,
                       pattern_name(pattern), in_place ? "in place" : "apart",
                       (unsigned long long)harness_seed());
    operation_check(&operation);
    tensor_free(&outer.params);
    tensor_free(&outer.moments);
    tensor_free(&outer.gradients);
    tensor_free(&outer.next_params);
    tensor_free(&outer.next_moments);
}

static void outer_step_equals_its_formula(void **state) {
    (void)state;
    for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
        if (pattern == PATTERN_DENORMAL) {
            continue; /* errors of whole units in the last place: below, by bits alone */
        }
        for (int i = 0; i <= EDGE_SIZE_COUNT; i++) {
            int64_t count = i < EDGE_SIZE_COUNT ? EDGE_SIZES[i] : 40037;
            check_step(count, (enum pattern)pattern, false);
            check_step(count, (enum pattern)pattern, true);
        }
    }
}

/* ---- the order of roundings ---- */

/* Each product and sum in fp64, rounded at once: what fp32 gives when nothing is fused. */
static void expect_roundings(struct outer_context *outer) {
    double rate = (double)outer->rate;
    double momentum = (double)outer->momentum;
    for (int64_t i = 0; i < outer->params.count; i++) {
        double gradient = outer->gradients.exact[i];
        double kept = (double)(float)(momentum * outer->moments.exact[i]);
        double moment = (double)(float)(kept + gradient);
        double ahead = (double)(float)(momentum * moment);
        double sum = (double)(float)(gradient + ahead);
        double step = (double)(float)(rate * sum);
        outer->next_moments.exact[i] = moment;
        outer->next_params.exact[i] = (double)(float)(outer->params.exact[i] - step);
    }
}

static void outer_step_rounds_in_the_order_written(void **state) {
    (void)state;
    for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
        uint64_t seed = harness_seed();
        struct outer_context outer = {
            .rate = 0.7f,
            .momentum = 0.9f,
            .params = tensor_random(DTYPE_F32, 2000, (enum pattern)pattern, seed),
            .moments = tensor_random(DTYPE_F32, 2000, (enum pattern)pattern, seed + 1),
            .gradients = tensor_random(DTYPE_F32, 2000, (enum pattern)pattern, seed + 2),
            .next_params = tensor_unset(DTYPE_F32, 2000),
            .next_moments = tensor_unset(DTYPE_F32, 2000),
        };
        expect_roundings(&outer);
        struct operation operation = {
            .name = "fill",
            .run = run_step,
            .run_cuda = ON_CUDA(run_step_cuda),
            .context = &outer,
            .same_at_all_levels = true,
            .output_count = 2,
            .outputs = {{"next_params", &outer.next_params, outer.next_params.exact},
                        {"next_moments", &outer.next_moments, outer.next_moments.exact}}};
        operation_describe(&operation, "outer_step, %s", pattern_name((enum pattern)pattern));
        operation_check(&operation);
        tensor_free(&outer.params);
        tensor_free(&outer.moments);
        tensor_free(&outer.gradients);
        tensor_free(&outer.next_params);
        tensor_free(&outer.next_moments);
    }
}

/* ---- PyTorch ---- */

/* torch.optim.SGD([p], lr=0.5, momentum=0.5, nesterov=True) from p = (2, -1); exact in fp32. */
static const struct {
    float gradients[2], params[2], moments[2];
} TORCH[] = {
    {{1, 0.25f}, {1.25f, -1.1875f}, {1, 0.25f}},
    {{-2, 0.5f}, {2.625f, -1.59375f}, {-1.5f, 0.625f}},
    {{0.5f, -0.75f}, {2.4375f, -1.109375f}, {-0.25f, -0.4375f}},
    {{4, 0}, {-0.53125f, -1.0546875f}, {3.875f, -0.21875f}},
};

static void run_torch(const struct compute *compute, void *context) {
    struct outer_context *outer = context;
    struct outer_step_args args = {
        .count = 2,
        .rate = 0.5f,
        .momentum = 0.5f,
        .params = outer->next_params.data,
        .moments = outer->next_moments.data,
        .next_params = outer->next_params.data,
        .next_moments = outer->next_moments.data,
    };
    for (size_t step = 0; step < ARRAY_COUNT(TORCH); step++) {
        args.gradients = TORCH[step].gradients;
        outer_step_run(compute, &args);
        assert_memory_equal(outer->next_params.data, TORCH[step].params, 8);
        assert_memory_equal(outer->next_moments.data, TORCH[step].moments, 8);
    }
}

static void outer_step_steps_as_pytorch_does(void **state) {
    (void)state;
    struct outer_context outer = {.next_params = tensor_zeros(DTYPE_F32, 2),
                                  .next_moments = tensor_zeros(DTYPE_F32, 2)};
    memcpy(outer.next_params.data, (float[2]){2, -1}, 8);
    struct operation operation = {
        .name = "fill",
        .run = run_torch,
        .context = &outer,
        .same_at_all_levels = true,
        .output_count = 2,
        .outputs = {{"params", &outer.next_params, NULL}, {"moments", &outer.next_moments, NULL}}};
    operation_check(&operation);
    tensor_free(&outer.next_params);
    tensor_free(&outer.next_moments);
}

/* ---- the pseudo-gradient and the shares ---- */

static void run_gradient(const struct compute *compute, void *context) {
    struct outer_context *outer = context;
    outer_gradient_run(compute, outer->params.count, outer->params.data, outer->moments.data,
                       outer->gradients.data);
    outer_gradient_run(compute, outer->params.count, outer->params.data, outer->next_params.data,
                       outer->next_params.data);
}

#if SKEP_CUDA
static void run_gradient_cuda(const struct cuda_compute *compute, struct device_run *device,
                              void *context) {
    struct outer_context *outer = context;
    const float *params = device_of(device, &outer->params);
    float *inner = device_of(device, &outer->next_params);
    cuda_outer_gradient_run(compute, outer->params.count, params,
                            device_of(device, &outer->moments),
                            device_of(device, &outer->gradients));
    cuda_outer_gradient_run(compute, outer->params.count, params, inner, inner);
}
#endif

static void pseudo_gradient_is_outer_less_inner(void **state) {
    (void)state;
    for (int i = 0; i <= EDGE_SIZE_COUNT; i++) {
        int64_t count = i < EDGE_SIZE_COUNT ? EDGE_SIZES[i] : 40037;
        uint64_t seed = harness_seed();
        struct outer_context outer = {
            .params = tensor_random(DTYPE_F32, count, PATTERN_MIXED, seed),
            .moments = tensor_random(DTYPE_F32, count, PATTERN_MIXED, seed + 1),
            .gradients = tensor_unset(DTYPE_F32, count),
            .next_params = tensor_random(DTYPE_F32, count, PATTERN_MIXED, seed + 1),
        };
        for (int64_t j = 0; j < count; j++) {
            double difference = (double)(float)(outer.params.exact[j] - outer.moments.exact[j]);
            outer.gradients.exact[j] = difference;
            outer.next_params.exact[j] = difference;
        }
        struct operation operation = {
            .name = "fill",
            .run = run_gradient,
            .run_cuda = ON_CUDA(run_gradient_cuda),
            .context = &outer,
            .same_at_all_levels = true,
            .output_count = 2,
            .outputs = {{"gradient", &outer.gradients, outer.gradients.exact},
                        {"over inner", &outer.next_params, outer.next_params.exact}}};
        operation_describe(&operation, "count %lld", (long long)count);
        operation_check(&operation);
        tensor_free(&outer.params);
        tensor_free(&outer.moments);
        tensor_free(&outer.gradients);
        tensor_free(&outer.next_params);
    }
}

static void shares_are_of_the_tokens(void **state) {
    (void)state;
    assert_true(outer_token_share(0, 0) == 0);
    assert_true(outer_token_share(0, 7) == 0);
    assert_true(outer_token_share(7, 7) == 1);
    assert_true(outer_token_share(3, 8) == 0.375f);
    assert_true(outer_token_share(1, 3) == 1.0f / 3);
    int64_t large = ((int64_t)1 << 53) - 2;
    assert_true(outer_token_share(large / 2, large) == 0.5f);
}

/* ---- timing ---- */

static void bench_step(void) {
    const int64_t count = 8 << 20;
    struct outer_context outer = {
        .rate = 0.7f,
        .momentum = 0.9f,
        .params = tensor_random(DTYPE_F32, count, PATTERN_NORMAL, 1),
        .moments = tensor_random(DTYPE_F32, count, PATTERN_NORMAL, 2),
        .gradients = tensor_random(DTYPE_F32, count, PATTERN_NORMAL, 3),
        .next_params = tensor_zeros(DTYPE_F32, count),
        .next_moments = tensor_zeros(DTYPE_F32, count),
    };
    struct operation operation = {.name = "outer_step", .run = run_step, .context = &outer};
    operation_describe(&operation, "count %lld", (long long)count);
    operation_bench(&operation, 20 * (double)count, 0);
    tensor_free(&outer.params);
    tensor_free(&outer.moments);
    tensor_free(&outer.gradients);
    tensor_free(&outer.next_params);
    tensor_free(&outer.next_moments);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_step();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outer_step_equals_its_formula),
        cmocka_unit_test(outer_step_rounds_in_the_order_written),
        cmocka_unit_test(outer_step_steps_as_pytorch_does),
        cmocka_unit_test(pseudo_gradient_is_outer_less_inner),
        cmocka_unit_test(shares_are_of_the_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
