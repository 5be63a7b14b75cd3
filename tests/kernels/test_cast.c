/* Casts between the float types, exact to the bit, and zeros. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/elementwise.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/elementwise.h"
#include "tests/kernels/device.h"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LONG_COUNT = 40007, BENCH_COUNT = 6 << 20 };

struct cast_context {
    struct tensor in, out;
};

static void run_cast(const struct compute *compute, void *context) {
    struct cast_context *cast = context;
    cast_run(compute, cast->in.count, cast->in.dtype, cast->in.data, cast->out.dtype,
             cast->out.data);
}

#if SKEP_CUDA
static void run_cast_cuda(const struct cuda_compute *compute, struct device_run *device,
                          void *context) {
    struct cast_context *cast = context;
    cuda_cast_run(compute, cast->in.count, cast->in.dtype, device_of(device, &cast->in),
                  cast->out.dtype, device_of(device, &cast->out));
}
#endif

static void check_cast(struct tensor in, enum dtype to) {
    struct cast_context cast = {.in = in, .out = tensor_unset(to, in.count)};
    struct operation operation = {
        .name = "cast",
        .run = run_cast,
        .run_cuda = ON_CUDA(run_cast_cuda),
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
                                  .run_cuda = ON_CUDA(run_cast_cuda),
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

#if SKEP_CUDA
static void run_zero_cuda(const struct cuda_compute *compute, struct device_run *device,
                          void *context) {
    struct tensor *tensor = context;
    cuda_zero_run(compute, device_of(device, tensor), (uint64_t)tensor->count * sizeof(float));
}
#endif

static void zero_clears_exactly_its_bytes(void **state) {
    (void)state;
    const int64_t counts[] = {0, 1, 63, 1000, 200001};
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        struct tensor tensor = tensor_unset(DTYPE_F32, counts[i]);
        struct operation operation = {.name = "fill",
                                      .run = run_zero,
                                      .run_cuda = ON_CUDA(run_zero_cuda),
                                      .context = &tensor,
                                      .output_count = 1,
                                      .outputs = {{"bytes", &tensor, tensor.exact}}};
        operation_describe(&operation, "count %lld", (long long)counts[i]);
        operation_check(&operation);
        tensor_free(&tensor);
    }
}

static void bench_cast(enum dtype from, enum dtype to) {
    struct cast_context cast = {.in = tensor_random(from, BENCH_COUNT, PATTERN_NORMAL, 1),
                                .out = tensor_unset(to, BENCH_COUNT)};
    struct operation operation = {
        .name = "cast", .run = run_cast, .run_cuda = ON_CUDA(run_cast_cuda), .context = &cast};
    operation_describe(&operation, "%s to %s count %d", dtype_name(from), dtype_name(to),
                       BENCH_COUNT);
    operation_bench(&operation, (double)(BENCH_COUNT * (dtype_bytes(from) + dtype_bytes(to))), 0);
    tensor_free(&cast.in);
    tensor_free(&cast.out);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_cast(DTYPE_F32, DTYPE_BF16);
        bench_cast(DTYPE_BF16, DTYPE_F32);
        bench_cast(DTYPE_F16, DTYPE_F32);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cast_rounds_to_nearest_between_all_float_types),
        cmocka_unit_test(cast_from_half_is_exact_for_every_value),
        cmocka_unit_test(zero_clears_exactly_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
