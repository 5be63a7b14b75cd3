/* Rotary positions against their formula in fp64. */
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

enum { ROPE_POSITIONS = 37 };

struct rope_context {
    struct rope_args args;
    struct tensor in, out, table, positions;
    bool in_place;
};

static void run_rope(const struct compute *compute, void *context) {
    struct rope_context *rope = context;
    rope_run(compute, &rope->args, rope->table.data, rope->positions.data,
             rope->in_place ? rope->out.data : rope->in.data, rope->out.data);
}

#if SKEP_CUDA
static void run_rope_cuda(const struct cuda_compute *compute, struct device_run *device,
                          void *context) {
    struct rope_context *rope = context;
    void *out = device_of(device, &rope->out);
    cuda_rope_run(compute, &rope->args, device_of(device, &rope->table),
                  device_of(device, &rope->positions),
                  rope->in_place ? out : device_of(device, &rope->in), out);
}
#endif

static void rope_reference(struct rope_context *rope) {
    const struct rope_args *args = &rope->args;
    int64_t half = args->rotary_dim / 2;
    for (int64_t t = 0; t < args->tokens; t++) {
        const double *cosines =
            rope->table.exact + (int64_t)rope->positions.exact[t] * args->rotary_dim;
        for (int64_t h = 0; h < args->heads; h++) {
            const double *in = rope->in.exact + t * args->in_stride + h * args->head_dim;
            double *out = rope->out.exact + t * args->out_stride + h * args->head_dim;
            for (int64_t i = 0; i < args->head_dim; i++) {
                int64_t pair = i % (half > 0 ? half : 1);
                double sine = args->inverse ? -cosines[pair + half] : cosines[pair + half];
                out[i] = i < half               ? in[i] * cosines[pair] - in[i + half] * sine
                         : i < args->rotary_dim ? in[i] * cosines[pair] + in[i - half] * sine
                                                : in[i];
            }
        }
    }
}

static void check_rope(struct rope_args args, bool in_place) {
    uint64_t seed = harness_seed();
    struct rope_context rope = {
        .args = args,
        .in = tensor_random(args.dtype, args.tokens * args.in_stride, PATTERN_NORMAL, seed),
        .out = tensor_random(args.dtype, args.tokens * args.out_stride, PATTERN_NORMAL,
                             in_place ? seed : seed + 1),
        .table = tensor_random(DTYPE_F32, ROPE_POSITIONS * args.rotary_dim, PATTERN_NORMAL, seed),
        .positions = tensor_integers(args.tokens, ROPE_POSITIONS, seed),
        .in_place = in_place,
    };
    rope_reference(&rope);
    struct operation operation = {.name = "rope",
                                  .run = run_rope,
                                  .run_cuda = ON_CUDA(run_rope_cuda),
                                  .context = &rope,
                                  .output_count = 1,
                                  .outputs = {{"out", &rope.out, rope.out.exact}}};
    operation_describe(&operation, "%s tokens %lld heads %lld dim %lld rotary %lld inverse %d",
                       dtype_name(args.dtype), (long long)args.tokens, (long long)args.heads,
                       (long long)args.head_dim, (long long)args.rotary_dim, args.inverse);
    operation_check(&operation);
    tensor_free(&rope.in);
    tensor_free(&rope.out);
    tensor_free(&rope.table);
    tensor_free(&rope.positions);
}

static void rope_turns_pairs_of_halves_and_back(void **state) {
    (void)state;
    const int64_t dims[][2] = {{2, 2}, {6, 4}, {16, 16}, {64, 64}, {64, 32}, {80, 80}, {128, 64}};
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        for (size_t i = 0; i < ARRAY_COUNT(dims); i++) {
            int64_t heads = 1 + (int64_t)i % 3;
            int64_t width = heads * dims[i][0];
            struct rope_args args = {.tokens = 1 + 97 * (int64_t)i,
                                     .heads = heads,
                                     .head_dim = dims[i][0],
                                     .rotary_dim = dims[i][1],
                                     .in_stride = width,
                                     .out_stride = width,
                                     .inverse = i % 2 == 1,
                                     .dtype = (enum dtype)dtype};
            check_rope(args, true);
            args.in_stride = width + 5;
            args.out_stride = width + 3;
            check_rope(args, false);
        }
    }
}

static void bench_rope(enum dtype dtype) {
    const int64_t width = 12 * 64;
    struct rope_context rope = {
        .args = {4096, 12, 64, 64, width, width, false, dtype},
        .in = tensor_random(dtype, 4096 * width, PATTERN_NORMAL, 1),
        .out = tensor_unset(dtype, 4096 * width),
        .table = tensor_random(DTYPE_F32, 64 * 64, PATTERN_NORMAL, 1),
        .positions = tensor_integers(4096, 64, 1),
    };
    struct operation operation = {
        .name = "rope", .run = run_rope, .run_cuda = ON_CUDA(run_rope_cuda), .context = &rope};
    operation_describe(&operation, "%s 4096 x 12 x 64", dtype_name(dtype));
    operation_bench(&operation, (double)(2 * 4096 * width * dtype_bytes(dtype)), 0);
    tensor_free(&rope.in);
    tensor_free(&rope.out);
    tensor_free(&rope.table);
    tensor_free(&rope.positions);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench_rope(DTYPE_F32);
        bench_rope(DTYPE_BF16);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rope_turns_pairs_of_halves_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
