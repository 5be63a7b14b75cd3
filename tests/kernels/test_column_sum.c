/* Sums over the rows of a matrix, against sums in fp64. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/elementwise.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/elementwise.h"
#include "kernels/cuda/launch/workspace.h"
#include "tests/kernels/device.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

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

#if SKEP_CUDA
static void run_column_sum_cuda(const struct cuda_compute *compute, struct device_run *device,
                                void *context) {
    struct column_sum_context *sum = context;
    uint64_t bytes = cuda_column_sum_workspace_bytes(&sum->args, NULL);
    cuda_column_sum_run(compute, &sum->args, device_of(device, &sum->x),
                        device_of(device, &sum->sums), device_workspace(device, bytes));
}
#endif

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
                                  .run_cuda = ON_CUDA(run_column_sum_cuda),
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

static void bench_column_sum(enum dtype dtype) {
    struct column_sum_context sum = {.args = {4096, 768, 768, dtype},
                                     .x = tensor_random(dtype, 4096 * 768, PATTERN_NORMAL, 1),
                                     .sums = tensor_zeros(DTYPE_F32, 768)};
    struct operation operation = {.name = "column_sum",
                                  .run = run_column_sum,
                                  .run_cuda = ON_CUDA(run_column_sum_cuda),
                                  .context = &sum};
    operation_describe(&operation, "%s 4096 x 768", dtype_name(dtype));
    operation_bench(&operation, (double)(4096 * 768 * dtype_bytes(dtype)), 0);
    tensor_free(&sum.x);
    tensor_free(&sum.sums);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_column_sum(DTYPE_F32);
        bench_column_sum(DTYPE_BF16);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(column_sum_adds_rows_of_any_count_and_stride),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
