/* Every elementwise kernel against its formula in fp64. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/elementwise.h"

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
        operation_check(&operation);
        run_finish(&run);
    }
}

/* ---- casts and zeros ---- */

struct cast_context {
    struct tensor in, out;
};

static void run_cast(const struct compute *compute, void *context) {
    struct cast_context *cast = context;
    cast_run(compute, cast->in.count, cast->in.dtype, cast->in.data, cast->out.dtype,
             cast->out.data);
}

static void check_cast(struct tensor in, enum dtype to) {
    struct cast_context cast = {.in = in, .out = tensor_unset(to, in.count)};
    struct operation operation = {
        .name = "cast",
        .run = run_cast,
        .context = &cast,
        .same_at_all_levels = true,
        .output_count = 1,
        .outputs = {{"out", &cast.out, in.exact}},
    };
    operation_describe(&operation, "%s to %s count %lld seed %llu", dtype_name(in.dtype),
                       dtype_name(to), (long long)in.count, (unsigned long long)harness_seed());
    operation_check(&operation);
    tensor_free(&cast.in);
    tensor_free(&cast.out);
}

static void cast_rounds_to_nearest_between_all_float_types(void **state) {
    (void)state;
    for (int from = DTYPE_F32; from <= DTYPE_F16; from++) {
        for (int to = DTYPE_F32; to <= DTYPE_F16; to++) {
            for (int size = 0; size < EDGE_SIZE_COUNT; size++) {
                check_cast(tensor_random((enum dtype)from, EDGE_SIZES[size], PATTERN_NORMAL,
                                         harness_seed()),
                           (enum dtype)to);
            }
            check_cast(tensor_random((enum dtype)from, LONG_COUNT, PATTERN_MIXED, harness_seed()),
                       (enum dtype)to);
        }
    }
}

static void cast_from_half_is_exact_for_every_value(void **state) {
    (void)state;
    struct tensor in = tensor_unset(DTYPE_F16, 65536);
    for (int64_t i = 0; i < in.count; i++) {
        ((uint16_t *)in.data)[i] = (uint16_t)i;
        in.exact[i] = tensor_value(&in, i);
    }
    struct cast_context cast = {.in = in, .out = tensor_unset(DTYPE_F32, in.count)};
    struct operation operation = {.name = "fill",
                                  .run = run_cast,
                                  .context = &cast,
                                  .output_count = 1,
                                  .outputs = {{"out", &cast.out, in.exact}}};
    operation_describe(&operation, "all halves");
    operation_check(&operation);
    tensor_free(&cast.in);
    tensor_free(&cast.out);
}

static void run_zero(const struct compute *compute, void *context) {
    struct tensor *tensor = context;
    zero_run(compute, tensor->data, (uint64_t)tensor->count * sizeof(float));
}

static void zero_clears_exactly_its_bytes(void **state) {
    (void)state;
    const int64_t counts[] = {0, 1, 63, 1000, 200001};
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        struct tensor tensor = tensor_unset(DTYPE_F32, counts[i]);
        struct operation operation = {.name = "fill",
                                      .run = run_zero,
                                      .context = &tensor,
                                      .output_count = 1,
                                      .outputs = {{"bytes", &tensor, tensor.exact}}};
        operation_describe(&operation, "count %lld", (long long)counts[i]);
        operation_check(&operation);
        tensor_free(&tensor);
    }
}

/* ---- column sums ---- */

struct column_sum_context {
    struct column_sum_args args;
    struct tensor x, sums;
};

static void run_column_sum(const struct compute *compute, void *context) {
    struct column_sum_context *sum = context;
    struct tensor workspace =
        workspace_of(column_sum_workspace_bytes(&sum->args, compute->pool->thread_count));
    column_sum_run(compute, &sum->args, sum->x.data, sum->sums.data, workspace.data);
    tensor_free(&workspace);
}

static void check_column_sum(struct column_sum_args args) {
    struct column_sum_context sum = {
        .args = args,
        .x = tensor_random(args.dtype, args.rows * args.stride, PATTERN_NORMAL, harness_seed()),
        .sums = tensor_random(DTYPE_F32, args.columns, PATTERN_NORMAL, harness_seed() + 1),
    };
    for (int64_t row = 0; row < args.rows; row++) {
        for (int64_t i = 0; i < args.columns; i++) {
            sum.sums.exact[i] += sum.x.exact[row * args.stride + i];
        }
    }
    struct operation operation = {.name = "column_sum",
                                  .run = run_column_sum,
                                  .context = &sum,
                                  .output_count = 1,
                                  .outputs = {{"sums", &sum.sums, sum.sums.exact}}};
    operation_describe(&operation, "%s rows %lld columns %lld seed %llu", dtype_name(args.dtype),
                       (long long)args.rows, (long long)args.columns,
                       (unsigned long long)harness_seed());
    operation_check(&operation);
    tensor_free(&sum.x);
    tensor_free(&sum.sums);
}

static void column_sum_adds_rows_of_any_count_and_stride(void **state) {
    (void)state;
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        for (int i = 0; i < EDGE_SIZE_COUNT; i++) {
            int64_t columns = EDGE_SIZES[i];
            check_column_sum((struct column_sum_args){EDGE_SIZES[EDGE_SIZE_COUNT - 1 - i], columns,
                                                      columns + i % 3, (enum dtype)dtype});
        }
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

static void bench_cast(enum dtype from, enum dtype to) {
    struct cast_context cast = {.in = tensor_random(from, BENCH_COUNT, PATTERN_NORMAL, 1),
                                .out = tensor_unset(to, BENCH_COUNT)};
    struct operation operation = {.name = "cast", .run = run_cast, .context = &cast};
    operation_describe(&operation, "%s to %s count %d", dtype_name(from), dtype_name(to),
                       BENCH_COUNT);
    operation_bench(&operation, (double)(BENCH_COUNT * (dtype_bytes(from) + dtype_bytes(to))), 0);
    tensor_free(&cast.in);
    tensor_free(&cast.out);
}

static void bench_column_sum(enum dtype dtype) {
    struct column_sum_context sum = {.args = {4096, 768, 768, dtype},
                                     .x = tensor_random(dtype, 4096 * 768, PATTERN_NORMAL, 1),
                                     .sums = tensor_zeros(DTYPE_F32, 768)};
    struct operation operation = {.name = "column_sum", .run = run_column_sum, .context = &sum};
    operation_describe(&operation, "%s 4096 x 768", dtype_name(dtype));
    operation_bench(&operation, (double)(4096 * 768 * dtype_bytes(dtype)), 0);
    tensor_free(&sum.x);
    tensor_free(&sum.sums);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_elements();
        bench_cast(DTYPE_F32, DTYPE_BF16);
        bench_cast(DTYPE_BF16, DTYPE_F32);
        bench_cast(DTYPE_F16, DTYPE_F32);
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
            bench_column_sum((enum dtype)dtype);
        }
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
        cmocka_unit_test(cast_rounds_to_nearest_between_all_float_types),
        cmocka_unit_test(cast_from_half_is_exact_for_every_value),
        cmocka_unit_test(zero_clears_exactly_its_bytes),
        cmocka_unit_test(column_sum_adds_rows_of_any_count_and_stride),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
