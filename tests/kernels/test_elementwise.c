/* Every elementwise kernel against its formula in fp64. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/elementwise.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/elementwise.h"
#include "tests/kernels/device.h"
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LONG_COUNT = 40007, BENCH_COUNT = 6 << 20 };

enum kind { ADD, SWIGLU_FORWARD, SWIGLU_BACKWARD, GELU_FORWARD, GELU_BACKWARD, KIND_COUNT };

struct kind_row {
    const char *operation;
    int inputs, outputs;
};

static const struct kind_row KINDS[KIND_COUNT] = {
    [ADD] = {"add", 2, 1},
    [SWIGLU_FORWARD] = {"swiglu", 2, 1},
    [SWIGLU_BACKWARD] = {"activation_backward", 3, 2},
    [GELU_FORWARD] = {"gelu", 1, 1},
    [GELU_BACKWARD] = {"activation_backward", 2, 1},
};

struct element_case {
    enum kind kind;
    enum dtype dtype;
    int64_t count;
    enum pattern pattern;
    uint64_t seed;
};

struct element_run {
    enum kind kind;
    struct elementwise_args args;
    struct tensor in[3], out[2];
};

static double logistic(double x) {
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double silu(double x) {
    return x * logistic(x);
}

static double silu_slope(double x) {
    return logistic(x) + silu(x) * logistic(-x);
}

static double gelu_exponent(double x) {
    return 2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}

static double gelu(double x) {
    return x * logistic(gelu_exponent(x));
}

static double gelu_slope(double x) {
    double rise = 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    double s = logistic(gelu_exponent(x));
    return s + x * s * logistic(-gelu_exponent(x)) * rise;
}

static void reference(enum kind kind, const double in[3], double out[2]) {
    switch (kind) {
    case ADD:
        out[0] = in[0] + in[1];
        break;
    case SWIGLU_FORWARD:
        out[0] = silu(in[0]) * in[1];
        break;
    case SWIGLU_BACKWARD:
        out[0] = in[0] * in[2] * silu_slope(in[1]);
        out[1] = in[0] * silu(in[1]);
        break;
    case GELU_FORWARD:
        out[0] = gelu(in[0]);
        break;
    case GELU_BACKWARD:
    case KIND_COUNT:
        out[0] = in[0] * gelu_slope(in[1]);
        break;
    }
}

static void run_kind(const struct compute *compute, void *context) {
    struct element_run *run = context;
    void *const in[3] = {run->in[0].data, run->in[1].data, run->in[2].data};
    void *const out[2] = {run->out[0].data, run->out[1].data};
    switch (run->kind) {
    case ADD:
        add_run(compute, &run->args, in[0], in[1], out[0]);
        break;
    case SWIGLU_FORWARD:
        swiglu_forward(compute, &run->args, in[0], in[1], out[0]);
        break;
    case SWIGLU_BACKWARD:
        swiglu_backward(compute, &run->args, in[0], in[1], in[2], out[0], out[1]);
        break;
    case GELU_FORWARD:
        gelu_forward(compute, &run->args, in[0], out[0]);
        break;
    case GELU_BACKWARD:
    case KIND_COUNT:
        gelu_backward(compute, &run->args, in[0], in[1], out[0]);
        break;
    }
}

#if SKEP_CUDA
static void run_kind_on(const struct cuda_compute *compute, enum kind kind,
                        const struct elementwise_args *args, void *const in[3],
                        void *const out[2]) {
    switch (kind) {
    case ADD:
        cuda_add_run(compute, args, in[0], in[1], out[0]);
        break;
    case SWIGLU_FORWARD:
        cuda_swiglu_forward(compute, args, in[0], in[1], out[0]);
        break;
    case SWIGLU_BACKWARD:
        cuda_swiglu_backward(compute, args, in[0], in[1], in[2], out[0], out[1]);
        break;
    case GELU_FORWARD:
        cuda_gelu_forward(compute, args, in[0], out[0]);
        break;
    case GELU_BACKWARD:
    case KIND_COUNT:
        cuda_gelu_backward(compute, args, in[0], in[1], out[0]);
        break;
    }
}

static void run_kind_cuda(const struct cuda_compute *compute, struct device_run *device,
                          void *context) {
    struct element_run *run = context;
    void *const in[3] = {device_of(device, &run->in[0]), device_of(device, &run->in[1]),
                         device_of(device, &run->in[2])};
    void *const out[2] = {device_of(device, &run->out[0]), device_of(device, &run->out[1])};
    run_kind_on(compute, run->kind, &run->args, in, out);
}
#endif

static struct element_run run_of(struct element_case c) {
    struct element_run run = {.kind = c.kind, .args = {.count = c.count, .dtype = c.dtype}};
    for (int i = 0; i < KINDS[c.kind].inputs; i++) {
        run.in[i] = tensor_random(c.dtype, c.count, c.pattern, c.seed + (uint64_t)i);
    }
    for (int i = 0; i < KINDS[c.kind].outputs; i++) {
        run.out[i] = tensor_unset(c.dtype, c.count);
    }
    return run;
}

static struct operation operation_of(struct element_case c, struct element_run *run) {
    struct operation operation = {.name = KINDS[c.kind].operation,
                                  .run = run_kind,
                                  .run_cuda = ON_CUDA(run_kind_cuda),
                                  .context = run,
                                  .output_count = KINDS[c.kind].outputs};
    operation_describe(&operation, "%s kind %d count %lld %s seed %llu", dtype_name(c.dtype),
                       c.kind, (long long)c.count, pattern_name(c.pattern),
                       (unsigned long long)c.seed);
    for (int i = 0; i < operation.output_count; i++) {
        operation.outputs[i] = (struct checked_output){"out", &run->out[i], run->out[i].exact};
    }
    return operation;
}

static void run_finish(struct element_run *run) {
    for (int i = 0; i < 3; i++) {
        tensor_free(&run->in[i]);
    }
    for (int i = 0; i < 2; i++) {
        tensor_free(&run->out[i]);
    }
}

static void check_case(struct element_case c) {
    struct element_run run = run_of(c);
    for (int64_t i = 0; i < c.count; i++) {
        double in[3] = {0};
        double out[2] = {0};
        for (int j = 0; j < KINDS[c.kind].inputs; j++) {
            in[j] = run.in[j].exact[i];
        }
        reference(c.kind, in, out);
        for (int j = 0; j < KINDS[c.kind].outputs; j++) {
            run.out[j].exact[i] = out[j];
        }
    }
    struct operation operation = operation_of(c, &run);
    operation_check(&operation);
    run_finish(&run);
}

static void check_kind(enum kind kind) {
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        for (int size = 0; size < EDGE_SIZE_COUNT; size++) {
            check_case((struct element_case){kind, (enum dtype)dtype, EDGE_SIZES[size],
                                             PATTERN_NORMAL, harness_seed()});
        }
        for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
            check_case((struct element_case){kind, (enum dtype)dtype, LONG_COUNT,
                                             (enum pattern)pattern, harness_seed() + 7});
        }
    }
}

static void add_rounds_the_exact_sum_once(void **state) {
    (void)state;
    check_kind(ADD);
}

static void swiglu_forward_equals_its_formula(void **state) {
    (void)state;
    check_kind(SWIGLU_FORWARD);
}

static void swiglu_backward_equals_its_formula(void **state) {
    (void)state;
    check_kind(SWIGLU_BACKWARD);
}

static void gelu_forward_equals_its_formula(void **state) {
    (void)state;
    check_kind(GELU_FORWARD);
}

static void gelu_backward_equals_its_formula(void **state) {
    (void)state;
    check_kind(GELU_BACKWARD);
}

static double total_silu(const double *x, void *context) {
    (void)context;
    return silu(x[0]) + silu(x[1]) + silu(x[2]);
}

static double total_gelu(const double *x, void *context) {
    (void)context;
    return gelu(x[0]) + gelu(x[1]) + gelu(x[2]);
}

static void reference_slopes_equal_differences(void **state) {
    (void)state;
    const double x[3] = {-2.5, 0.3, 4.0};
    double slopes[3];
    for (int i = 0; i < 3; i++) {
        slopes[i] = silu_slope(x[i]);
    }
    gradient_check("silu", total_silu, NULL, x, slopes, 3);
    for (int i = 0; i < 3; i++) {
        slopes[i] = gelu_slope(x[i]);
    }
    gradient_check("gelu", total_gelu, NULL, x, slopes, 3);
}

#if SKEP_CUDA
static void run_in_place_cuda(const struct cuda_compute *compute, struct device_run *device,
                              void *context) {
    struct element_run *run = context;
    bool is_sum = run->kind == ADD;
    void *const out[2] = {device_of(device, &run->out[0]), device_of(device, &run->out[1])};
    void *const in[3] = {is_sum ? out[0] : device_of(device, &run->in[0]),
                         is_sum ? device_of(device, &run->in[1]) : out[0], out[1]};
    run_kind_on(compute, run->kind, &run->args, in, out);
}
#endif

static void run_in_place(const struct compute *compute, void *context) {
    struct element_run *run = context;
    if (run->kind == ADD) {
        add_run(compute, &run->args, run->out[0].data, run->in[1].data, run->out[0].data);
        return;
    }
    swiglu_backward(compute, &run->args, run->in[0].data, run->out[0].data, run->out[1].data,
                    run->out[0].data, run->out[1].data);
}

static void add_and_swiglu_backward_work_in_place(void **state) {
    (void)state;
    struct element_case c = {ADD, DTYPE_BF16, 1000, PATTERN_NORMAL, harness_seed()};
    for (int pass = 0; pass < 2; pass++, c.kind = SWIGLU_BACKWARD) {
        struct element_run run = run_of(c);
        for (int i = 0; i < KINDS[c.kind].outputs; i++) {
            tensor_free(&run.out[i]);
            run.out[i] = tensor_random(c.dtype, c.count, c.pattern, c.seed + 9 + (uint64_t)i);
        }
        for (int64_t i = 0; i < c.count; i++) {
            const double sum_in[3] = {run.out[0].exact[i], run.in[1].exact[i], 0};
            const double swiglu_in[3] = {run.in[0].exact[i], run.out[0].exact[i],
                                         c.kind == ADD ? 0 : run.out[1].exact[i]};
            double out[2] = {0};
            reference(c.kind, c.kind == ADD ? sum_in : swiglu_in, out);
            for (int j = 0; j < KINDS[c.kind].outputs; j++) {
                run.out[j].exact[i] = out[j];
            }
        }
        struct operation operation = operation_of(c, &run);
        operation.run = run_in_place;
        operation.run_cuda = ON_CUDA(run_in_place_cuda);
        operation_check(&operation);
        run_finish(&run);
    }
}

/* ---- timing ---- */

static void bench_elements(void) {
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
            struct element_case c = {(enum kind)kind, (enum dtype)dtype, BENCH_COUNT,
                                     PATTERN_NORMAL, harness_seed()};
            struct element_run run = run_of(c);
            struct operation operation = operation_of(c, &run);
            int streams = KINDS[kind].inputs + KINDS[kind].outputs;
            operation_bench(&operation, (double)(streams * BENCH_COUNT * dtype_bytes(c.dtype)), 0);
            run_finish(&run);
        }
    }
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_elements();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_rounds_the_exact_sum_once),
        cmocka_unit_test(swiglu_forward_equals_its_formula),
        cmocka_unit_test(swiglu_backward_equals_its_formula),
        cmocka_unit_test(gelu_forward_equals_its_formula),
        cmocka_unit_test(gelu_backward_equals_its_formula),
        cmocka_unit_test(reference_slopes_equal_differences),
        cmocka_unit_test(add_and_swiglu_backward_work_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
