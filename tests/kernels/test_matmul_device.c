/* Matrix products through the harness: the device's own kernels beside the CPU's, in every form. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/matmul.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/matmul.h"
#include "tests/kernels/device.h"
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct product {
    struct matmul_args args;
    struct tensor a, b, bias, c;
};

/* ---- fp64 ---- */

static double exact_sum(const struct product *product, int64_t row, int64_t column) {
    const struct matmul_args *args = &product->args;
    double sum = args->bias ? product->bias.exact[column] : 0;
    for (int64_t depth = 0; depth < args->k; depth++) {
        int64_t a = args->transpose_a ? depth * args->lda + row : row * args->lda + depth;
        int64_t b = args->transpose_b ? column * args->ldb + depth : depth * args->ldb + column;
        sum += product->a.exact[a] * product->b.exact[b];
    }
    return sum;
}

/* What lies between rows stays as it was. */
static void reference(struct product *product, bool whole) {
    const struct matmul_args *args = &product->args;
    for (int64_t row = 0; row < args->m; row++) {
        for (int64_t column = 0; column < args->n; column++) {
            double *exact = &product->c.exact[row * args->ldc + column];
            *exact = exact_sum(product, row, column) + (args->accumulate ? *exact : 0);
            if (whole && args->dtype_out == DTYPE_BF16) {
                *exact = (double)bf16_to_f32(bf16_from_f32((float)*exact));
            }
        }
    }
}

/* ---- the kernels ---- */

static void run_product(const struct compute *compute, void *context) {
    struct product *product = context;
    struct tensor workspace =
        workspace_of(matmul_workspace_bytes(&product->args, compute->pool->thread_count));
    matmul_run(compute, &product->args, product->a.data, product->b.data,
               product->args.bias ? product->bias.data : NULL, product->c.data, workspace.data);
    tensor_free(&workspace);
}

#if SKEP_CUDA
static void run_product_cuda(const struct cuda_compute *compute, struct device_run *device,
                             void *context) {
    struct product *product = context;
    cuda_matmul_run(compute, &product->args, device_of(device, &product->a),
                    device_of(device, &product->b),
                    product->args.bias ? device_of(device, &product->bias) : NULL,
                    device_of(device, &product->c), NULL);
}
#endif

/* Whole numbers of at most 4: every sum is exact, in whatever order it is taken. */
static void make_whole(struct tensor *tensor) {
    for (int64_t i = 0; i < tensor->count; i++) {
        float value = (float)(int)(tensor->exact[i] * 1.5);
        value = value > 4 ? 4 : value < -4 ? -4 : value;
        tensor->exact[i] = (double)value;
        if (tensor->dtype == DTYPE_BF16) {
            ((uint16_t *)tensor->data)[i] = bf16_from_f32(value);
        } else {
            ((float *)tensor->data)[i] = value;
        }
    }
}

static struct product product_of(const struct matmul_args *args, bool whole) {
    uint64_t seed = harness_seed();
    int64_t a_rows = args->transpose_a ? args->k : args->m;
    int64_t b_rows = args->transpose_b ? args->n : args->k;
    int64_t a_width = args->transpose_a ? args->m : args->k;
    int64_t b_width = args->transpose_b ? args->k : args->n;
    int64_t a_count = (a_rows - 1) * args->lda + a_width;
    int64_t b_count = (b_rows - 1) * args->ldb + b_width;
    int64_t c_count = (args->m - 1) * args->ldc + args->n;
    struct product product = {
        .args = *args,
        .a = tensor_random(args->dtype_in, a_count, PATTERN_NORMAL, seed),
        .b = tensor_random(args->dtype_in, b_count, PATTERN_NORMAL, seed + 1),
        .bias = tensor_random(args->dtype_in, args->n, PATTERN_NORMAL, seed + 2),
        .c = tensor_random(args->dtype_out, c_count, PATTERN_NORMAL, seed + 3),
    };
    struct tensor *all[] = {&product.a, &product.b, &product.bias, &product.c};
    for (size_t i = 0; whole && i < ARRAY_COUNT(all); i++) {
        make_whole(all[i]);
    }
    return product;
}

static void product_finish(struct product *product) {
    tensor_free(&product->a);
    tensor_free(&product->b);
    tensor_free(&product->bias);
    tensor_free(&product->c);
}

static void check_product(const struct matmul_args *args, bool whole) {
    struct product product = product_of(args, whole);
    reference(&product, whole);
    struct operation operation = {.name = whole ? "fill" : "matmul",
                                  .run = run_product,
                                  .run_cuda = ON_CUDA(run_product_cuda),
                                  .context = &product,
                                  .output_count = 1,
                                  .outputs = {{"c", &product.c, product.c.exact}}};
    operation_describe(
        &operation, "m %lld n %lld k %lld, %s to %s%s%s%s%s, ldc %lld", (long long)args->m,
        (long long)args->n, (long long)args->k, dtype_name(args->dtype_in),
        dtype_name(args->dtype_out), args->transpose_a ? ", a transposed" : "",
        args->transpose_b ? ", b transposed" : "", args->accumulate ? ", accumulate" : "",
        args->bias ? ", bias" : "", (long long)args->ldc);
    operation_check(&operation);
    product_finish(&product);
}

/* ---- forms ---- */

struct size {
    int64_t m, n, k, padding;
};

enum extra { PLAIN, BIAS, ACCUMULATE, EXTRA_COUNT };

/* One of the 2 x 2 transposes, inputs and outputs. */
enum { FORM_COUNT = 16 };

static struct matmul_args form_of(int form, enum extra extra, struct size size) {
    struct matmul_args args = {.m = size.m, .n = size.n, .k = size.k};
    args.transpose_a = form & 1;
    args.transpose_b = form & 2;
    args.dtype_in = form & 4 ? DTYPE_BF16 : DTYPE_F32;
    args.dtype_out = form & 8 && extra != ACCUMULATE ? DTYPE_BF16 : DTYPE_F32;
    args.bias = extra == BIAS;
    args.accumulate = extra == ACCUMULATE;
    args.lda = (args.transpose_a ? size.m : size.k) + size.padding;
    args.ldb = (args.transpose_b ? size.k : size.n) + size.padding;
    args.ldc = size.n + size.padding;
    return args;
}

static void check_forms(struct size size, bool whole) {
    for (int form = 0; form < FORM_COUNT; form++) {
        struct matmul_args args = form_of(form, (enum extra)(form / 5 % EXTRA_COUNT), size);
        check_product(&args, whole);
    }
}

static void product_is_exact_when_values_are_whole(void **state) {
    (void)state;
    static const struct size SIZES[] = {
        {1, 1, 1, 0},    {1, 8, 40, 0},    {3, 17, 5, 3},    {16, 24, 32, 0}, {65, 63, 33, 0},
        {64, 72, 96, 8}, {70, 130, 48, 0}, {31, 66, 127, 5}, {5, 9, 2100, 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(SIZES); i++) {
        check_forms(SIZES[i], true);
    }
}

/* More tiles than the emulated device has multiprocessors: the large ones; and several groups of
 * rows of tiles, the last one short. */
static void product_is_exact_when_tiles_are_large(void **state) {
    (void)state;
    for (int form = 0; form < FORM_COUNT; form++) {
        struct size size =
            form % 2 == 0 ? (struct size){1200, 40, 24, 0} : (struct size){130, 1030, 40, 2};
        struct matmul_args args = form_of(form, (enum extra)(form % EXTRA_COUNT), size);
        check_product(&args, true);
    }
}

static void product_stays_in_bounds_when_values_are_real(void **state) {
    (void)state;
    check_forms((struct size){37, 70, 133, 0}, false);
    check_forms((struct size){24, 64, 256, 8}, false);
}

/* GPT-2 124M: up, its input's and its weight's gradient. */
static void bench(enum dtype dtype) {
    static const struct matmul_args SHAPES[] = {
        {.m = 4096, .n = 3072, .k = 768, .lda = 768, .ldb = 3072, .ldc = 3072},
        {.m = 4096, .n = 768, .k = 3072, .lda = 3072, .ldb = 3072, .ldc = 768, .transpose_b = true},
        {.m = 768, .n = 3072, .k = 4096, .lda = 768, .ldb = 3072, .ldc = 3072, .transpose_a = true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(SHAPES); i++) {
        struct matmul_args args = SHAPES[i];
        args.dtype_in = dtype;
        args.dtype_out = args.transpose_a ? DTYPE_F32 : dtype;
        args.accumulate = args.transpose_a;
        struct product product = product_of(&args, false);
        struct operation operation = {.name = "matmul",
                                      .run = run_product,
                                      .run_cuda = ON_CUDA(run_product_cuda),
                                      .context = &product};
        operation_describe(&operation, "%s %lld x %lld x %lld", dtype_name(dtype),
                           (long long)args.m, (long long)args.n, (long long)args.k);
        operation_bench(&operation, 0, 2 * (double)args.m * (double)args.n * (double)args.k);
        product_finish(&product);
    }
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        bench(DTYPE_F32);
        bench(DTYPE_BF16);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_is_exact_when_values_are_whole),
        cmocka_unit_test(product_is_exact_when_tiles_are_large),
        cmocka_unit_test(product_stays_in_bounds_when_values_are_real),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
