/* Attention against a plain fp64 softmax over every pair, whose gradients are themselves checked by
 * finite differences. */
#include "base/check.h"
#include "kernels/cpu/cpu.h"
#include "tests/kernels/attention_problem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void check_dtype(const struct shape *shape, bool gradients, enum dtype dtype) {
    struct problem problem;
    problem_init(&problem, shape, dtype);
    problem_expect(&problem);
    struct operation operation = {
        .name = problem_operation_name(),
        .run = gradients ? problem_both : problem_forward,
        .run_cuda = gradients ? ON_CUDA(problem_both_cuda) : ON_CUDA(problem_forward_cuda),
        .context = &problem,
        .output_count = gradients ? 3 : 2,
        .outputs = {{"out", &problem.out, problem.expected_out},
                    {"lse", &problem.lse, problem.expected_lse},
                    {"dqkv", &problem.dqkv, problem.expected_dqkv}},
    };
    problem_describe(&operation, shape, dtype);
    operation_check(&operation);
    problem_finish(&problem);
}

static void check_shape(const struct shape *shape, bool gradients) {
    check_dtype(shape, gradients, DTYPE_F32);
    check_dtype(shape, gradients, DTYPE_BF16);
}

/* ---- tests ---- */

static double loss_of(const double *qkv, void *context) {
    struct problem *problem = context;
    attention_reference_forward(&problem->args, qkv, problem->positions.exact,
                                problem->expected_out, problem->expected_lse);
    double loss = 0;
    for (int64_t i = 0; i < problem->out.count; i++) {
        loss += problem->expected_out[i] * problem->dout.exact[i];
    }
    return loss;
}

static void reference_gradients_agree_with_finite_differences(void **state) {
    (void)state;
    const struct shape shape = {1, 7, 4, 2, 3, 4, DOCUMENTS_PACKED, PATTERN_NORMAL, 1, 0};
    struct problem problem;
    problem_init(&problem, &shape, DTYPE_F32);
    problem_expect(&problem);
    gradient_check("attention", loss_of, &problem, problem.qkv.exact, problem.expected_dqkv,
                   problem.qkv.count);
    problem_finish(&problem);
}

static void every_length_is_right_around_the_tiles(void **state) {
    (void)state;
    const int64_t times[] = {1, 2, 3, 15, 16, 17, 31, 33, 47, 63, 64, 65, 79, 97, 127, 128, 129};
    for (size_t i = 0; i < ARRAY_COUNT(times); i++) {
        if (problem_is_left_out(i)) {
            continue;
        }
        check_shape(&(struct shape){1, times[i], 2, 1, 20, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 3},
                    true);
    }
}

static void every_head_dim_is_right(void **state) {
    (void)state;
    const int64_t dims[] = {1,  2,  5,  8,  15, 16,  17,  31,  32,  48,
                            50, 64, 72, 80, 96, 112, 128, 200, 255, 256};
    for (size_t i = 0; i < ARRAY_COUNT(dims); i++) {
        if (problem_is_left_out(i)) {
            continue;
        }
        check_shape(&(struct shape){1, 35, 2, 2, dims[i], 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0},
                    true);
    }
}

static void grouped_queries_are_right(void **state) {
    (void)state;
    const int64_t heads[][2] = {{1, 1}, {3, 1}, {6, 2}, {7, 1}, {8, 8}, {9, 1}, {12, 1}, {20, 2}};
    for (size_t i = 0; i < ARRAY_COUNT(heads); i++) {
        if (problem_is_left_out(i)) {
            continue;
        }
        check_shape(&(struct shape){2, 37, heads[i][0], heads[i][1], 12, 0, DOCUMENTS_ONE,
                                    PATTERN_NORMAL, 1, 1},
                    true);
    }
}

static void windows_and_documents_are_right(void **state) {
    (void)state;
    const int64_t windows[] = {0, 1, 17, 64, 100};
    const enum documents documents[] = {DOCUMENTS_ONE, DOCUMENTS_PACKED, DOCUMENTS_SINGLE};
    for (size_t i = 0; i < ARRAY_COUNT(windows) * ARRAY_COUNT(documents); i++) {
        struct shape shape = {.rows = 2,
                              .time = 130,
                              .heads = 2,
                              .kv_heads = 1,
                              .head_dim = 9,
                              .window = windows[i % ARRAY_COUNT(windows)],
                              .documents = documents[i / ARRAY_COUNT(windows)]};
        if (!problem_is_left_out(i)) {
            check_shape(&shape, true);
        }
    }
}

static void long_rows_are_right(void **state) {
    (void)state;
    check_shape(&(struct shape){1, 333, 2, 2, 16, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0}, true);
    check_shape(&(struct shape){1, 400, 1, 1, 16, 70, DOCUMENTS_PACKED, PATTERN_NORMAL, 1, 0},
                true);
    /* bf16's sums of dq exceed the bound of a thread's workspace: cut split even for one thread */
    if (!problem_is_left_out(1)) {
        check_shape(&(struct shape){1, 130, 8, 1, 256, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0},
                    true);
    }
}

/* The widths that the CUDA kernels have, in more than one tile of queries and of keys. */
static void tiles_of_every_width_are_right(void **state) {
    (void)state;
    const int64_t dims[] = {64, 80, 96, 128, 256};
    for (size_t i = 0; i < ARRAY_COUNT(dims); i++) {
        struct shape shape = {.rows = 1,
                              .time = 150,
                              .heads = 2,
                              .kv_heads = 1,
                              .head_dim = dims[i],
                              .window = i % 2 == 0 ? 0 : 70,
                              .documents = i % 3 == 0 ? DOCUMENTS_ONE : DOCUMENTS_PACKED,
                              .gap = 8};
        check_dtype(&shape, true, DTYPE_BF16);
    }
}

static void unusual_values_are_right(void **state) {
    (void)state;
    check_shape(&(struct shape){1, 70, 2, 1, 24, 0, DOCUMENTS_ONE, PATTERN_ZERO, 1, 0}, true);
    check_shape(&(struct shape){1, 70, 2, 1, 24, 0, DOCUMENTS_ONE, PATTERN_DENORMAL, 1, 0}, true);
    check_shape(&(struct shape){1, 70, 2, 1, 24, 0, DOCUMENTS_ONE, PATTERN_LARGE, 1, 0}, false);
    check_shape(&(struct shape){1, 70, 2, 1, 24, 0, DOCUMENTS_ONE, PATTERN_MIXED, 1, 0}, false);
    check_shape(&(struct shape){1, 70, 2, 1, 24, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 3, 0}, true);
    check_shape(&(struct shape){1, 70, 2, 1, 24, 0, DOCUMENTS_ONE, PATTERN_NORMAL, -2, 0}, true);
    check_shape(&(struct shape){1, 70, 2, 1, 24, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 20, 0}, false);
}

/* Probabilities of such logits are all rounding, but no gradient may poison a run. */
static void gradients_are_finite_when_logits_are_huge(void **state) {
    (void)state;
    const struct shape shape = {1, 70, 2, 1, 24, 0, DOCUMENTS_ONE, PATTERN_LARGE, 1, 0};
    struct problem problem;
    problem_init(&problem, &shape, DTYPE_F32);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        if (!cpu_supports_level((enum cpu_level)level)) {
            continue;
        }
        struct kernel_table table;
        struct pool pool;
        struct fault fault;
        kernel_table_init(&table, (enum cpu_level)level);
        assert_int_equal(pool_init(&pool, 1, &fault), OK);
        problem_both(&(struct compute){&table, &pool}, &problem);
        pool_finish(&pool);
        for (int64_t i = 0; i < problem.dqkv.count; i++) {
            assert_true(isfinite(tensor_value(&problem.dqkv, i)));
        }
    }
    problem_finish(&problem);
}

/* ---- timing ---- */

/* The pairs of a causal triangle, one product of 2 head_dim operations each. */
static double product_flops(const struct attention_args *args) {
    double pairs = 0.5 * (double)args->time * (double)(args->time + 1);
    return 2 * pairs * (double)(args->rows * args->heads * args->head_dim);
}

static void bench_shape(const struct shape *shape) {
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        struct problem problem;
        problem_init(&problem, shape, dtype);
        struct operation operation = {.name = "forward",
                                      .run = problem_forward,
                                      .run_cuda = ON_CUDA(problem_forward_cuda),
                                      .context = &problem};
        problem_describe(&operation, shape, dtype);
        operation_bench(&operation, 0, 2 * product_flops(&problem.args));
        operation.name = "backward";
        operation.run = problem_backward;
        operation.run_cuda = ON_CUDA(problem_backward_cuda);
        operation_bench(&operation, 0, 5 * product_flops(&problem.args));
        problem_finish(&problem);
    }
}

static int bench(void) {
    const struct shape shapes[] = {
        {8, 256, 6, 6, 48, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0},
        {4, 64, 12, 12, 64, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0},
        {1, 1024, 12, 12, 64, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0},
        {1, 1024, 32, 8, 128, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0},
    };
    /* What a GPU needs to be busy: the rows of docs/CUDA.md. */
    const struct shape large[] = {
        {4, 2048, 16, 16, 64, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0},
        {1, 4096, 32, 8, 128, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0},
        {1, 4096, 32, 8, 128, 512, DOCUMENTS_PACKED, PATTERN_NORMAL, 1, 0},
        {1, 4096, 8, 4, 256, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        bench_shape(&shapes[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(large) && getenv("SKEP_CUDA") != NULL; i++) {
        bench_shape(&large[i]);
    }
    return 0;
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        return bench();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_gradients_agree_with_finite_differences),
        cmocka_unit_test(every_length_is_right_around_the_tiles),
        cmocka_unit_test(every_head_dim_is_right),
        cmocka_unit_test(grouped_queries_are_right),
        cmocka_unit_test(windows_and_documents_are_right),
        cmocka_unit_test(long_rows_are_right),
        cmocka_unit_test(tiles_of_every_width_are_right),
        cmocka_unit_test(unusual_values_are_right),
        cmocka_unit_test(gradients_are_finite_when_logits_are_huge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
