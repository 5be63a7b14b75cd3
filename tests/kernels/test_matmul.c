/* test_matmul: every level's matrix products against sums in fp64; with --bench, their rates. */
#include "base/clock.h"
#include "base/random.h"
#include "kernels/cpu/cpu.h"
#include "kernels/matmul.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

/* Of a large product every SAMPLE_STEP-th value is compared: a prime, so all columns have their
 * turn. */
enum { PADDING = 3, POISON = 0xa5, THREADS_TRIED = 3, SAMPLE_FROM = 20000, SAMPLE_STEP = 211 };
enum { GUARD_BYTES = 64 };

/* One product with its operands, freshly made. */
struct product {
    struct matmul_args args;
    void *a, *b, *bias, *c, *c_before, *workspace;
    size_t c_bytes;
};

static int64_t rows_of_a(const struct matmul_args *args) {
    return args->transpose_a ? args->k : args->m;
}

static int64_t rows_of_b(const struct matmul_args *args) {
    return args->transpose_b ? args->n : args->k;
}

static void *make_bytes(size_t bytes, int fill) {
    size_t rounded = (bytes + 63) / 64 * 64;
    void *memory = aligned_alloc(64, rounded);
    assert_non_null(memory);
    memset(memory, fill, rounded);
    return memory;
}

/* Whole numbers of at most 8: every sum is exact in f32, whatever its order, up to k = 2^18. */
static float whole_value(uint64_t key, int64_t index) {
    return (float)((int)(random_uniform(key, (uint64_t)index) * 17.0) - 8);
}

static float value_at(const void *values, enum dtype dtype, int64_t index) {
    return dtype == DTYPE_F32 ? ((const float *)values)[index]
                              : bf16_to_f32(((const uint16_t *)values)[index]);
}

static void set_value(void *values, enum dtype dtype, int64_t index, float value) {
    if (dtype == DTYPE_F32) {
        ((float *)values)[index] = value;
    } else {
        ((uint16_t *)values)[index] = bf16_from_f32(value);
    }
}

/* Exactly the bytes of the operand, so that a sanitizer sees any read past its end. */
static void *make_values(int64_t count, enum dtype dtype, bool whole, const char *name) {
    uint64_t key = random_key(7, name);
    void *values = malloc((size_t)(count * dtype_bytes(dtype)));
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        set_value(values, dtype, i, whole ? whole_value(key, i) : random_normal(key, (uint64_t)i));
    }
    return values;
}

static void product_init(struct product *product, const struct matmul_args *args, bool whole) {
    int64_t a_count = (rows_of_a(args) - 1) * args->lda + (args->transpose_a ? args->m : args->k);
    int64_t b_count = (rows_of_b(args) - 1) * args->ldb + (args->transpose_b ? args->k : args->n);
    product->args = *args;
    product->a = make_values(a_count, args->dtype_in, whole, "a");
    product->b = make_values(b_count, args->dtype_in, whole, "b");
    product->bias = args->bias ? make_values(args->n, args->dtype_in, whole, "bias") : NULL;
    int64_t c_count = (args->m - 1) * args->ldc + args->n;
    product->c_bytes = (size_t)(c_count * dtype_bytes(args->dtype_out));
    product->c_before = make_values(c_count, args->dtype_out, whole, "c");
    product->c = make_bytes(product->c_bytes + GUARD_BYTES, POISON);
    product->workspace = make_bytes((size_t)matmul_workspace_bytes(args, THREADS_TRIED), POISON);
}

static void product_finish(struct product *product) {
    free(product->a);
    free(product->b);
    free(product->bias);
    free(product->c);
    free(product->c_before);
    free(product->workspace);
}

static void product_run(const struct product *product, const struct kernel_table *table,
                        struct pool *pool) {
    struct compute compute = {.table = table, .pool = pool};
    memcpy(product->c, product->c_before, product->c_bytes);
    matmul_run(&compute, &product->args, product->a, product->b, product->bias, product->c,
               product->workspace);
}

struct expected {
    double value, magnitude; /* the sum, and the sum of absolute values */
};

static struct expected expect_at(const struct product *product, int64_t row, int64_t column) {
    const struct matmul_args *args = &product->args;
    struct expected sum = {0};
    for (int64_t depth = 0; depth < args->k; depth++) {
        int64_t a = args->transpose_a ? depth * args->lda + row : row * args->lda + depth;
        int64_t b = args->transpose_b ? column * args->ldb + depth : depth * args->ldb + column;
        double term = (double)value_at(product->a, args->dtype_in, a) *
                      (double)value_at(product->b, args->dtype_in, b);
        sum.value += term;
        sum.magnitude += fabs(term);
    }
    double more = 0.0;
    if (args->bias) {
        more = (double)value_at(product->bias, args->dtype_in, column);
    }
    if (args->accumulate) {
        more = (double)value_at(product->c_before, DTYPE_F32, row * args->ldc + column);
    }
    sum.value += more;
    sum.magnitude += fabs(more);
    return sum;
}

/* f32: one rounding of 2^-24 for each term, as the header says; bf16: one of 2^-8 more. */
static bool agrees(const struct matmul_args *args, double got, struct expected want, bool whole) {
    bool rounded = args->dtype_out == DTYPE_BF16;
    if (whole) {
        return got ==
               (rounded ? (double)bf16_to_f32(bf16_from_f32((float)want.value)) : want.value);
    }
    double sums = (double)(args->k + 2) * 0x1p-24 * want.magnitude;
    return fabs(got - want.value) <= sums + (rounded ? 0x1p-8 * fabs(want.value) : 0.0);
}

static void describe(const struct matmul_args *args, enum cpu_level level) {
    print_error("%s m %ld n %ld k %ld, lda %ld ldb %ld ldc %ld, %s to %s%s%s%s%s\n",
                cpu_level_name(level), (long)args->m, (long)args->n, (long)args->k, (long)args->lda,
                (long)args->ldb, (long)args->ldc, dtype_name(args->dtype_in),
                dtype_name(args->dtype_out), args->transpose_a ? ", a transposed" : "",
                args->transpose_b ? ", b transposed" : "", args->accumulate ? ", accumulate" : "",
                args->bias ? ", bias" : "");
}

static int64_t sample_step(const struct matmul_args *args) {
    return args->m * args->n < SAMPLE_FROM ? 1 : SAMPLE_STEP;
}

static struct expected *expect_samples(const struct product *product) {
    const struct matmul_args *args = &product->args;
    int64_t count = args->m * args->n;
    struct expected *expected = malloc((size_t)count * sizeof *expected);
    assert_non_null(expected);
    for (int64_t i = 0; i < count; i += sample_step(args)) {
        expected[i] = expect_at(product, i / args->n, i % args->n);
    }
    return expected;
}

static void check_values(const struct product *product, enum cpu_level level, bool whole,
                         const struct expected *expected) {
    const struct matmul_args *args = &product->args;
    for (int64_t i = 0; i < args->m * args->n; i += sample_step(args)) {
        int64_t row = i / args->n;
        int64_t column = i % args->n;
        double got = value_at(product->c, args->dtype_out, row * args->ldc + column);
        if (!agrees(args, got, expected[i], whole)) {
            describe(args, level);
            fail_msg("c[%ld, %ld] is %.9g, not %.9g", (long)row, (long)column, got,
                     expected[i].value);
        }
    }
}

static void check_padding(const struct product *product, enum cpu_level level) {
    const struct matmul_args *args = &product->args;
    for (int64_t row = 0; row + 1 < args->m; row++) {
        for (int64_t column = args->n; column < args->ldc; column++) {
            int64_t index = row * args->ldc + column;
            if (value_at(product->c, args->dtype_out, index) !=
                value_at(product->c_before, args->dtype_out, index)) {
                describe(args, level);
                fail_msg("c[%ld, %ld], between rows, was written", (long)row, (long)column);
            }
        }
    }
    const unsigned char *guard = (const unsigned char *)product->c + product->c_bytes;
    for (int i = 0; i < GUARD_BYTES; i++) {
        if (guard[i] != POISON) {
            describe(args, level);
            fail_msg("byte %d behind c was written", i);
        }
    }
}

static struct pool pools[THREADS_TRIED]; /* of 1, 2 and 3 threads */

/* Every level, every number of threads; the same bits within a level. */
static void check_product(const struct matmul_args *args, bool whole) {
    struct product product;
    product_init(&product, args, whole);
    struct expected *expected = expect_samples(&product);
    void *alone = malloc(product.c_bytes);
    assert_non_null(alone);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        struct kernel_table table;
        if (!cpu_supports_level(level)) {
            continue;
        }
        kernel_table_init(&table, level);
        product_run(&product, &table, &pools[0]);
        check_values(&product, level, whole, expected);
        check_padding(&product, level);
        memcpy(alone, product.c, product.c_bytes);
        for (int i = 1; i < THREADS_TRIED; i++) {
            product_run(&product, &table, &pools[i]);
            if (memcmp(alone, product.c, product.c_bytes) != 0) {
                describe(args, level);
                fail_msg("%d threads give other bits than one", i + 1);
            }
        }
    }
    free(alone);
    free(expected);
    product_finish(&product);
}

/* Form `form` of the 2 x 2 transposes, inputs, outputs, and plain / bias / accumulate. */
enum { FORM_COUNT = 48 };

static bool make_form(int form, int64_t m, int64_t n, int64_t k, int64_t padding,
                      struct matmul_args *args) {
    int extra = form / 16;
    struct matmul_args made = {.m = m, .n = n, .k = k};
    made.transpose_a = form & 1;
    made.transpose_b = form & 2;
    made.dtype_in = form & 4 ? DTYPE_BF16 : DTYPE_F32;
    made.dtype_out = form & 8 ? DTYPE_BF16 : DTYPE_F32;
    made.bias = extra == 1;
    made.accumulate = extra == 2;
    made.lda = (made.transpose_a ? m : k) + padding;
    made.ldb = (made.transpose_b ? k : n) + padding;
    made.ldc = n + padding;
    if (made.accumulate && made.dtype_out != DTYPE_F32) {
        return false;
    }
    *args = made;
    return true;
}

static void check_forms(int64_t m, int64_t n, int64_t k, int64_t padding, bool whole) {
    for (int form = 0; form < FORM_COUNT; form++) {
        struct matmul_args args;
        if (make_form(form, m, n, k, padding, &args)) {
            check_product(&args, whole);
        }
    }
}

static void product_is_exact_when_values_are_whole_and_sizes_are_odd(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 3, 17, 63, 65, 127};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        for (size_t j = i % 3; j < ARRAY_COUNT(sizes); j += 3) {
            int64_t k = sizes[(i + 2 * j) % ARRAY_COUNT(sizes)];
            check_forms(sizes[i], sizes[j], k, (int64_t)(i + j) % 2 * PADDING, true);
        }
    }
}

static void product_is_exact_when_tiles_come_out_whole_or_one_short(void **state) {
    (void)state;
    check_forms(14, 32, 64, 0, true);
    check_forms(15, 33, 32, 0, true);
    check_forms(28, 64, 16, PADDING, true);
    check_forms(13, 31, 2, 0, true);
    check_forms(1, 96, 200, 0, true);
}

static void product_stays_in_bounds_when_values_are_real(void **state) {
    (void)state;
    check_forms(37, 70, 133, 0, false);
    check_forms(5, 65, 77, PADDING, false);
}

static void product_is_exact_when_depth_takes_several_blocks(void **state) {
    (void)state;
    check_forms(3, 40, 2051, 0, true);
    check_forms(15, 9, 4100, PADDING, true);
}

static void product_is_exact_when_rows_take_several_blocks(void **state) {
    (void)state;
    struct matmul_args args = {.m = 2300, .n = 34, .k = 1101};
    args.lda = args.k;
    args.ldb = args.k;
    args.ldc = args.n;
    args.transpose_b = true;
    args.dtype_out = DTYPE_BF16;
    check_product(&args, true);
    args.dtype_in = DTYPE_BF16;
    args.k = args.lda = args.ldb = 2049;
    check_product(&args, true);
}

static void product_is_exact_when_sums_take_several_blocks(void **state) {
    (void)state;
    struct matmul_args args = {.m = 700, .n = 1600, .k = 1025};
    args.lda = args.m;
    args.ldb = args.n;
    args.ldc = args.n;
    args.transpose_a = true;
    args.dtype_in = DTYPE_BF16;
    args.dtype_out = DTYPE_BF16;
    check_product(&args, true);
}

static void workspace_stays_within_the_documented_bound(void **state) {
    (void)state;
    struct matmul_args args = {.m = 8192, .n = 50257, .k = 50257, .dtype_out = DTYPE_BF16};
    assert_true(matmul_workspace_bytes(&args, 4) <= (8u << 20) + 4 * (256u << 10));
    args = (struct matmul_args){.m = 1, .n = 1, .k = 1};
    assert_true(matmul_workspace_bytes(&args, 1) <= 16384);
}

/* ---- rates ---- */

struct layer {
    const char *name;
    int64_t tokens, in, out;
    bool stored_in_out; /* weight [in, out], as GPT-2 keeps it; otherwise [out, in] */
};

static const struct layer layers[] = {
    {"gpt2 qkv", 256, 768, 2304, true},    {"gpt2 proj", 256, 768, 768, true},
    {"gpt2 up", 256, 768, 3072, true},     {"gpt2 down", 256, 3072, 768, true},
    {"gpt2 head", 256, 768, 50257, false}, {"gpt2 qkv", 1024, 768, 2304, true},
    {"gpt2 proj", 1024, 768, 768, true},   {"gpt2 up", 1024, 768, 3072, true},
    {"gpt2 down", 1024, 3072, 768, true},  {"gpt2 head", 1024, 768, 50257, false},
    {"llama attn", 2048, 288, 288, false}, {"llama up", 2048, 288, 768, false},
    {"llama down", 2048, 768, 288, false}, {"llama head", 2048, 288, 32000, false},
    {"gpt2 up", 1, 768, 3072, true},       {"gpt2 head", 1, 768, 50257, false},
    {"gpt2 up", 16, 768, 3072, true},      {"gpt2 head", 16, 768, 50257, false},
};

enum direction { FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, DIRECTION_COUNT };
static const char *const direction_names[] = {"fwd", "dx", "dw"};

/* y[M,N] = x[M,K] W; dx[M,K] = dy[M,N] W'; dW += dy' x, or x' dy where W is [in, out]. */
static struct matmul_args layer_args(const struct layer *layer, enum direction direction,
                                     enum dtype dtype) {
    int64_t in = layer->in;
    int64_t out = layer->out;
    int64_t tokens = layer->tokens;
    struct matmul_args args = {.dtype_in = dtype, .dtype_out = dtype};
    if (direction == FORWARD) {
        args.m = tokens, args.n = out, args.k = in;
        args.transpose_b = !layer->stored_in_out;
    } else if (direction == BACKWARD_INPUT) {
        args.m = tokens, args.n = in, args.k = out;
        args.transpose_b = layer->stored_in_out;
    } else {
        args.m = layer->stored_in_out ? in : out;
        args.n = layer->stored_in_out ? out : in;
        args.k = tokens;
        args.transpose_a = true;
        args.dtype_out = DTYPE_F32;
        args.accumulate = true;
    }
    args.lda = args.transpose_a ? args.m : args.k;
    args.ldb = args.transpose_b ? args.k : args.n;
    args.ldc = args.n;
    return args;
}

static double best_seconds(const struct product *product, const struct kernel_table *table) {
    struct compute compute = {.table = table, .pool = &pools[1]};
    double best = 1e9;
    double spent = 0.0;
    for (int run = 0; run < 5 || (run < 200 && spent < 0.3); run++) {
        int64_t start = clock_monotonic_ns();
        matmul_run(&compute, &product->args, product->a, product->b, product->bias, product->c,
                   product->workspace);
        double seconds = (double)(clock_monotonic_ns() - start) * 1e-9;
        best = seconds < best ? seconds : best;
        spent += seconds;
    }
    return best;
}

/* Zeros run as fast as anything, and are quick to make. */
static void bench_product(const struct matmul_args *args, const struct kernel_table *table,
                          const char *name) {
    size_t width_in = (size_t)dtype_bytes(args->dtype_in);
    struct product product = {.args = *args};
    product.a = make_bytes((size_t)(rows_of_a(args) * args->lda) * width_in, 0);
    product.b = make_bytes((size_t)(rows_of_b(args) * args->ldb) * width_in, 0);
    product.c = make_bytes((size_t)(args->m * args->ldc * dtype_bytes(args->dtype_out)), 0);
    product.workspace = make_bytes((size_t)matmul_workspace_bytes(args, 2), 0);
    double seconds = best_seconds(&product, table);
    printf("%-24s %6ld %6ld %6ld %-5s %-12s %9.1f us %7.1f GFLOP/s\n", name, (long)args->m,
           (long)args->n, (long)args->k, dtype_name(args->dtype_in), cpu_level_name(table->level),
           seconds * 1e6, 2e-9 * (double)args->m * (double)args->n * (double)args->k / seconds);
    fflush(stdout);
    product_finish(&product);
}

static void bench_level(enum cpu_level level, enum dtype dtype) {
    struct kernel_table table;
    kernel_table_init(&table, level);
    for (size_t i = 0; i < ARRAY_COUNT(layers); i++) {
        for (int direction = 0; direction < DIRECTION_COUNT; direction++) {
            struct matmul_args args = layer_args(&layers[i], direction, dtype);
            char name[64];
            snprintf(name, sizeof name, "%s %s", layers[i].name, direction_names[direction]);
            bench_product(&args, &table, name);
        }
    }
}

static int bench(void) {
    enum cpu_level level = cpu_level_detect();
    bench_level(level, DTYPE_F32);
    bench_level(level, DTYPE_BF16);
    return 0;
}

int main(int argument_count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_is_exact_when_values_are_whole_and_sizes_are_odd),
        cmocka_unit_test(product_is_exact_when_tiles_come_out_whole_or_one_short),
        cmocka_unit_test(product_stays_in_bounds_when_values_are_real),
        cmocka_unit_test(product_is_exact_when_depth_takes_several_blocks),
        cmocka_unit_test(product_is_exact_when_rows_take_several_blocks),
        cmocka_unit_test(product_is_exact_when_sums_take_several_blocks),
        cmocka_unit_test(workspace_stays_within_the_documented_bound),
    };
    struct fault fault;
    for (int i = 0; i < THREADS_TRIED; i++) {
        if (pool_init(&pools[i], i + 1, &fault) != OK) {
            fault_print(&fault, 2);
            return 1;
        }
    }
    bool timing = argument_count > 1 && strcmp(arguments[1], "--bench") == 0;
    int result = timing ? bench() : cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < THREADS_TRIED; i++) {
        pool_finish(&pools[i]);
    }
    return result;
}
