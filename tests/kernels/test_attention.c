/* Attention against a plain fp64 softmax over every pair, whose gradients are themselves checked by
 * finite differences. */
#include "base/check.h"
#include "base/random.h"
#include "kernels/attention.h"
#include "kernels/table.h"
#include "tests/kernels/attention_reference.h"
#include "tests/kernels/harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum documents {
    DOCUMENTS_ONE,    /* positions 0, 1, 2, ... */
    DOCUMENTS_PACKED, /* random lengths; the first row starts inside a document */
    DOCUMENTS_SINGLE, /* every token is its own document */
};

/* q, k and v lie interleaved in one buffer: a token is heads, kv_heads, kv_heads, then `gap`. */
struct shape {
    int64_t rows, time, heads, kv_heads, head_dim;
    int64_t window;
    enum documents documents;
    enum pattern pattern;
    double logit; /* factor on the usual scale head_dim^-0.5 */
    int64_t gap;
};

struct problem {
    struct attention_args args;
    struct tensor qkv, positions, dout, out, lse, dqkv, workspace;
    double *expected_out, *expected_lse, *expected_dqkv;
};

/* ---- problems ---- */

static void fill_positions(struct tensor *positions, const struct shape *shape) {
    int32_t *values = positions->data;
    for (int64_t i = 0; i < shape->rows * shape->time; i++) {
        int64_t t = i % shape->time;
        values[i] = t == 0 ? 0 : values[i - 1] + 1;
        if (shape->documents == DOCUMENTS_SINGLE) {
            values[i] = 0;
        } else if (shape->documents == DOCUMENTS_PACKED && t == 0) {
            values[i] = i == 0 ? 5 : 0;
        } else if (shape->documents == DOCUMENTS_PACKED &&
                   random_uniform(harness_seed(), (uint64_t)i) < 0.04f) {
            values[i] = 0;
        }
        positions->exact[i] = values[i];
    }
}

static struct attention_args args_of(const struct shape *shape, enum dtype dtype) {
    int64_t stride = (shape->heads + 2 * shape->kv_heads) * shape->head_dim + shape->gap;
    double logit = shape->logit == 0 ? 1 : shape->logit;
    return (struct attention_args){
        .rows = shape->rows,
        .time = shape->time,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_dim = shape->head_dim,
        .q_stride = stride,
        .kv_stride = stride,
        .out_stride = shape->heads * shape->head_dim + shape->gap,
        .window = shape->window,
        .scale = (float)(logit / sqrt((double)shape->head_dim)),
        .dtype = dtype,
    };
}

static uint64_t workspace_bytes(const struct attention_args *args, int threads) {
    uint64_t forward = attention_forward_workspace_bytes(args, threads);
    uint64_t backward = attention_backward_workspace_bytes(args, threads);
    return forward > backward ? forward : backward;
}

static void problem_init(struct problem *problem, const struct shape *shape, enum dtype dtype) {
    enum { THREADS = 3 };
    memset(problem, 0, sizeof *problem);
    problem->args = args_of(shape, dtype);
    const struct attention_args *args = &problem->args;
    int64_t tokens = shape->rows * shape->time;
    problem->qkv = tensor_random(dtype, tokens * args->q_stride, shape->pattern, harness_seed());
    problem->dout =
        tensor_random(dtype, tokens * args->out_stride, PATTERN_NORMAL, harness_seed() + 1);
    problem->out = tensor_zeros(dtype, tokens * args->out_stride);
    problem->lse = tensor_unset(DTYPE_F32, tokens * args->heads);
    problem->dqkv = tensor_zeros(dtype, tokens * args->q_stride);
    problem->positions = tensor_zeros(DTYPE_I32, tokens);
    fill_positions(&problem->positions, shape);
    uint64_t bytes = 0;
    for (int threads = 1; threads <= THREADS; threads++) {
        uint64_t need = workspace_bytes(args, threads);
        bytes = need > bytes ? need : bytes;
    }
    problem->workspace = workspace_of(bytes);
}

static void problem_expect(struct problem *problem) {
    const struct attention_args *args = &problem->args;
    problem->expected_out = calloc((size_t)problem->out.count, sizeof(double));
    problem->expected_lse = calloc((size_t)problem->lse.count, sizeof(double));
    problem->expected_dqkv = calloc((size_t)problem->dqkv.count, sizeof(double));
    attention_reference_forward(args, problem->qkv.exact, problem->positions.exact,
                                problem->expected_out, problem->expected_lse);
    attention_reference_backward(args, problem->qkv.exact, problem->positions.exact,
                                 problem->dout.exact, problem->expected_dqkv);
}

static void problem_finish(struct problem *problem) {
    tensor_free(&problem->qkv);
    tensor_free(&problem->positions);
    tensor_free(&problem->dout);
    tensor_free(&problem->out);
    tensor_free(&problem->lse);
    tensor_free(&problem->dqkv);
    tensor_free(&problem->workspace);
    free(problem->expected_out);
    free(problem->expected_lse);
    free(problem->expected_dqkv);
}

static char *element(const struct tensor *tensor, int64_t index) {
    return (char *)tensor->data + index * dtype_bytes(tensor->dtype);
}

static void run_forward(const struct compute *compute, void *context) {
    struct problem *problem = context;
    const struct attention_args *args = &problem->args;
    attention_forward(compute, args, problem->qkv.data,
                      element(&problem->qkv, attention_k_offset(args)),
                      element(&problem->qkv, attention_v_offset(args)), problem->positions.data,
                      problem->out.data, problem->lse.data, problem->workspace.data);
}

static void run_backward(const struct compute *compute, void *context) {
    struct problem *problem = context;
    const struct attention_args *args = &problem->args;
    attention_backward(compute, args, problem->qkv.data,
                       element(&problem->qkv, attention_k_offset(args)),
                       element(&problem->qkv, attention_v_offset(args)), problem->out.data,
                       problem->lse.data, problem->dout.data, problem->positions.data,
                       problem->dqkv.data, element(&problem->dqkv, attention_k_offset(args)),
                       element(&problem->dqkv, attention_v_offset(args)), problem->workspace.data);
}

static void run_both(const struct compute *compute, void *context) {
    run_forward(compute, context);
    run_backward(compute, context);
}

static void describe(struct operation *operation, const struct shape *shape, enum dtype dtype) {
    operation_describe(operation,
                       "%s rows %d time %d heads %d/%d dim %d window %d documents %d %s logit %g "
                       "gap %d seed %llu",
                       dtype_name(dtype), (int)shape->rows, (int)shape->time, (int)shape->heads,
                       (int)shape->kv_heads, (int)shape->head_dim, (int)shape->window,
                       (int)shape->documents, pattern_name(shape->pattern), shape->logit,
                       (int)shape->gap, (unsigned long long)harness_seed());
}

static void check_dtype(const struct shape *shape, bool gradients, enum dtype dtype) {
    struct problem problem;
    problem_init(&problem, shape, dtype);
    problem_expect(&problem);
    struct operation operation = {
        .name = "attention",
        .run = gradients ? run_both : run_forward,
        .context = &problem,
        .output_count = gradients ? 3 : 2,
        .outputs = {{"out", &problem.out, problem.expected_out},
                    {"lse", &problem.lse, problem.expected_lse},
                    {"dqkv", &problem.dqkv, problem.expected_dqkv}},
    };
    describe(&operation, shape, dtype);
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
        check_shape(&(struct shape){1, times[i], 2, 1, 20, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 3},
                    true);
    }
}

static void every_head_dim_is_right(void **state) {
    (void)state;
    const int64_t dims[] = {1,  2,  5,  8,  15, 16,  17,  31,  32,  48,
                            50, 64, 72, 80, 96, 112, 128, 200, 255, 256};
    for (size_t i = 0; i < ARRAY_COUNT(dims); i++) {
        check_shape(&(struct shape){1, 35, 2, 2, dims[i], 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0},
                    true);
    }
}

static void grouped_queries_are_right(void **state) {
    (void)state;
    const int64_t heads[][2] = {{1, 1}, {3, 1}, {6, 2}, {7, 1}, {8, 8}, {9, 1}, {12, 1}, {20, 2}};
    for (size_t i = 0; i < ARRAY_COUNT(heads); i++) {
        check_shape(&(struct shape){2, 37, heads[i][0], heads[i][1], 12, 0, DOCUMENTS_ONE,
                                    PATTERN_NORMAL, 1, 1},
                    true);
    }
}

static void windows_and_documents_are_right(void **state) {
    (void)state;
    const int64_t windows[] = {0, 1, 17, 64, 100};
    for (size_t i = 0; i < ARRAY_COUNT(windows); i++) {
        for (enum documents documents = DOCUMENTS_ONE; documents <= DOCUMENTS_SINGLE; documents++) {
            check_shape(
                &(struct shape){2, 130, 2, 1, 9, windows[i], documents, PATTERN_NORMAL, 1, 0},
                true);
        }
    }
}

static void long_rows_are_right(void **state) {
    (void)state;
    check_shape(&(struct shape){1, 333, 2, 2, 16, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0}, true);
    check_shape(&(struct shape){1, 400, 1, 1, 16, 70, DOCUMENTS_PACKED, PATTERN_NORMAL, 1, 0},
                true);
    /* bf16's sums of dq exceed the bound of a thread's workspace: cut split even for one thread */
    check_shape(&(struct shape){1, 130, 8, 1, 256, 0, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 0}, true);
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
        if (!cpu_level_runs((enum cpu_level)level)) {
            continue;
        }
        struct kernel_table table;
        struct pool pool;
        struct fault fault;
        kernel_table_init(&table, (enum cpu_level)level);
        assert_int_equal(pool_init(&pool, 1, &fault), OK);
        run_both(&(struct compute){&table, &pool}, &problem);
        pool_finish(&pool);
        for (int64_t i = 0; i < problem.dqkv.count; i++) {
            assert_true(isfinite(tensor_value(&problem.dqkv, i)));
        }
    }
    problem_finish(&problem);
}

struct cached_problem {
    struct problem *problem;
    struct attention_args args;
    struct tensor q, k, v, out, workspace;
    int64_t past;
};

static void run_cached(const struct compute *compute, void *context) {
    struct cached_problem *cached = context;
    attention_cached(compute, &cached->args, cached->past, cached->q.data, cached->k.data,
                     cached->v.data, cached->out.data, cached->workspace.data);
}

static void copy_elements(struct tensor *to, int64_t to_index, const struct tensor *from,
                          int64_t from_index, int64_t count) {
    memcpy(element(to, to_index), element(from, from_index),
           (size_t)(count * dtype_bytes(to->dtype)));
}

/* The caches and the new queries of tokens [past, past + time), out of the whole problem. */
static void cached_init(struct cached_problem *cached, struct problem *problem, int64_t past,
                        int64_t time) {
    enum { SPARE = 3, THREADS = 3 };
    const struct attention_args *args = &problem->args;
    int64_t kv = args->kv_heads * args->head_dim;
    int64_t context = past + time + SPARE;
    enum dtype dtype = args->dtype;
    *cached = (struct cached_problem){.problem = problem, .args = *args, .past = past};
    cached->args.time = time;
    cached->q = tensor_unset(dtype, time * args->q_stride);
    cached->k = tensor_unset(dtype, context * kv);
    cached->v = tensor_unset(dtype, context * kv);
    cached->out = tensor_zeros(dtype, time * args->out_stride);
    copy_elements(&cached->q, 0, &problem->qkv, past * args->q_stride, time * args->q_stride);
    for (int64_t t = 0; t < past + time; t++) {
        int64_t token = t * args->kv_stride;
        copy_elements(&cached->k, t * kv, &problem->qkv, token + attention_k_offset(args), kv);
        copy_elements(&cached->v, t * kv, &problem->qkv, token + attention_v_offset(args), kv);
    }
    cached->workspace =
        workspace_of(attention_cached_workspace_bytes(&cached->args, context, THREADS));
}

static void check_cached(const struct shape *shape, int64_t past, enum dtype dtype) {
    struct problem problem;
    problem_init(&problem, shape, dtype);
    problem_expect(&problem);
    struct cached_problem cached;
    cached_init(&cached, &problem, past, shape->time - past);
    struct operation operation = {
        .name = "attention",
        .run = run_cached,
        .context = &cached,
        .output_count = 1,
        .outputs = {{"out", &cached.out, problem.expected_out + past * problem.args.out_stride}},
    };
    describe(&operation, shape, dtype);
    operation_check(&operation);
    tensor_free(&cached.q);
    tensor_free(&cached.k);
    tensor_free(&cached.v);
    tensor_free(&cached.out);
    tensor_free(&cached.workspace);
    problem_finish(&problem);
}

static void cached_attention_equals_full_attention(void **state) {
    (void)state;
    const int64_t pasts[] = {0, 1, 16, 63, 64, 100, 148, 149};
    const int64_t heads[][2] = {{3, 3}, {8, 2}, {10, 1}};
    for (size_t i = 0; i < ARRAY_COUNT(pasts) * ARRAY_COUNT(heads); i++) {
        const int64_t *head = heads[i % ARRAY_COUNT(heads)];
        struct shape shape = {
            1, 150, head[0], head[1], 24, i % 2 == 0 ? 0 : 40, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 2};
        check_cached(&shape, pasts[i / ARRAY_COUNT(heads)], i % 4 < 2 ? DTYPE_F32 : DTYPE_BF16);
    }
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
        struct operation operation = {.name = "forward", .run = run_forward, .context = &problem};
        describe(&operation, shape, dtype);
        operation_bench(&operation, 0, 2 * product_flops(&problem.args));
        operation.name = "backward";
        operation.run = run_backward;
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
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        bench_shape(&shapes[i]);
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
        cmocka_unit_test(unusual_values_are_right),
        cmocka_unit_test(gradients_are_finite_when_logits_are_huge),
        cmocka_unit_test(cached_attention_equals_full_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
