/* Attention over a cache of keys, as generation calls it, against attention over the whole row. */
#include "base/check.h"
#include "kernels/scalars.h"
#include "tests/kernels/attention_problem.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/attention.h"
#include "kernels/cuda/launch/workspace.h"
#include "tests/kernels/device.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct cached_problem {
    struct problem *problem;
    struct attention_args args;
    struct tensor q, k, v, out, workspace;
    int64_t past, context;
    struct step_scalars scalars;
};

static void run_cached(const struct compute *compute, void *context) {
    struct cached_problem *cached = context;
    attention_cached(compute, &cached->args, cached->past, cached->q.data, cached->k.data,
                     cached->v.data, cached->out.data, cached->workspace.data);
}

#if SKEP_CUDA
static void run_cached_cuda(const struct cuda_compute *compute, struct device_run *device,
                            void *context) {
    struct cached_problem *cached = context;
    const struct attention_args *args = &cached->args;
    struct step_scalars *scalars = device_workspace(device, sizeof *scalars);
    cuda_record_result(compute,
                       compute->driver->cuMemcpyAsync((CUdeviceptr)scalars,
                                                      (CUdeviceptr)&cached->scalars,
                                                      sizeof *scalars, compute->stream),
                       "copy the scalars");
    uint64_t bytes = cuda_attention_cached_workspace_bytes(args, cached->context, NULL);
    cuda_attention_cached(compute, args, cached->context, scalars, device_of(device, &cached->q),
                          device_of(device, &cached->k), device_of(device, &cached->v),
                          device_of(device, &cached->out), device_workspace(device, bytes));
}
#endif

static void copy_elements(struct tensor *to, int64_t to_index, const struct tensor *from,
                          int64_t from_index, int64_t count) {
    memcpy(problem_element(to, to_index), problem_element(from, from_index),
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
    *cached = (struct cached_problem){
        .problem = problem,
        .args = *args,
        .past = past,
        .context = context,
        .scalars = {.cache_length = (int32_t)past, .token_count = (int32_t)time},
    };
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
        .name = problem_operation_name(),
        .run = run_cached,
        .run_cuda = ON_CUDA(run_cached_cuda),
        .context = &cached,
        .output_count = 1,
        .outputs = {{"out", &cached.out, problem.expected_out + past * problem.args.out_stride}},
    };
    problem_describe(&operation, shape, dtype);
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
        if (problem_is_left_out(i + i / 3)) {
            continue;
        }
        const int64_t *head = heads[i % ARRAY_COUNT(heads)];
        struct shape shape = {
            1, 150, head[0], head[1], 24, i % 2 == 0 ? 0 : 40, DOCUMENTS_ONE, PATTERN_NORMAL, 1, 2};
        check_cached(&shape, pasts[i / ARRAY_COUNT(heads)], i % 4 < 2 ? DTYPE_F32 : DTYPE_BF16);
    }
}

/* Few queries of a long cache: on CUDA its keys are cut into parts, some of them empty. */
static void few_queries_of_a_long_cache_are_right(void **state) {
    (void)state;
    const struct shape shapes[] = {
        {.rows = 1, .time = 300, .heads = 8, .kv_heads = 1, .head_dim = 64},
        {.rows = 1, .time = 260, .heads = 4, .kv_heads = 2, .head_dim = 128, .window = 70},
        {.rows = 1, .time = 200, .heads = 3, .kv_heads = 3, .head_dim = 256},
        {.rows = 1, .time = 200, .heads = 4, .kv_heads = 1, .head_dim = 100, .gap = 1},
    };
    const int64_t news[] = {1, 5, 2, 20};
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        check_cached(&shapes[i], shapes[i].time - news[i], DTYPE_BF16);
    }
}

/* One new token: each key and value is read once. */
static void bench(void) {
    const struct shape shape = {
        .rows = 1, .time = 4096, .heads = 16, .kv_heads = 8, .head_dim = 128};
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        struct problem problem;
        struct cached_problem cached;
        problem_init(&problem, &shape, dtype);
        cached_init(&cached, &problem, shape.time - 1, 1);
        struct operation operation = {.name = "cached",
                                      .run = run_cached,
                                      .run_cuda = ON_CUDA(run_cached_cuda),
                                      .context = &cached};
        problem_describe(&operation, &shape, dtype);
        operation_bench(&operation,
                        2.0 * (double)(shape.time * shape.kv_heads * shape.head_dim) *
                            (double)dtype_bytes(dtype),
                        0);
        tensor_free(&cached.q);
        tensor_free(&cached.k);
        tensor_free(&cached.v);
        tensor_free(&cached.out);
        tensor_free(&cached.workspace);
        problem_finish(&problem);
    }
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_attention_equals_full_attention),
        cmocka_unit_test(few_queries_of_a_long_cache_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
