/* The kernels of the CUDA port at the sizes of real models, where the fp64 references of the other
 * tests would take hours. bf16 kernels are compared with f32 kernels of the same device over the
 * same values; some rows of attention also with fp64 on the CPU. On the emulated device the same
 * code runs at small sizes. Without a device the test is skipped. --bench times what is checked. */
#include "tests/kernels/real_sizes.h"

#include "base/check.h"
#include "kernels/cuda/launch/head_loss.h"
#include "kernels/cuda/launch/matmul.h"
#include "kernels/cuda/launch/workspace.h"
#include "tests/kernels/device.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SKIPPED = 77 };

/* Fails unless || values - expected || / || expected || <= tolerance. An unwritten element is NaN
 * and fails too. Frees both. */
static void check_error(const char *what, float *values, float *expected, int64_t count,
                        double tolerance) {
    double error = 0;
    double norm = 0;
    for (int64_t i = 0; i < count; i++) {
        double difference = (double)values[i] - (double)expected[i];
        error += difference * difference;
        norm += (double)expected[i] * (double)expected[i];
    }
    free(values);
    free(expected);
    double relative = sqrt(error / norm);
    printf("%-64s relative error %.2e, limit %.0e\n", what, relative, tolerance);
    if (!(relative <= tolerance) || !(norm > 0)) {
        fail_msg("%s: relative error %g exceeds %g", what, relative, tolerance);
    }
}

static void check_equal_bits(const char *what, const void *a, const void *b, uint64_t bytes) {
    float *first = fetch_f32(a, (int64_t)(bytes / 4));
    float *second = fetch_f32(b, (int64_t)(bytes / 4));
    bool equal = memcmp(first, second, bytes) == 0;
    free(first);
    free(second);
    if (!equal) {
        fail_msg("%s: the bits differ", what);
    }
}

/* ---- products ---- */

/* f32 sums of exact products; tensor cores truncate where they align the addends. */
static const double PRODUCT_TOLERANCE = 5e-5;
static const double BF16_TOLERANCE = 3e-3; /* one rounding to bf16 */

/* Runs the built-in kernels as if the device had so many multiprocessors: few make the tiles large,
 * many make them small. */
static void run_builtin(int multiprocessors, const struct matmul_args *args, const void *a,
                        const void *b, void *c) {
    struct cuda_compute forced = *real_sizes_compute();
    forced.multiprocessors = multiprocessors;
    cuda_matmul_builtin(&forced, args, a, b, NULL, c);
    wait_for_device("run a product");
}

/* What a program does: choose at bind, then run. */
static void check_cublas_lt(struct cuda_products *products, const struct target *target,
                            const struct matmul_args *args, const struct values *a,
                            const struct values *b, const void *expected, const char *name) {
    int64_t count = args->m * args->n;
    bool bf16 = args->dtype_out == DTYPE_BF16;
    void *c = new_buffer((uint64_t)(count * dtype_bytes(args->dtype_out)));
    void *workspace = new_buffer(cuda_matmul_workspace_bytes(args, target));
    struct cuda_compute with_library = *real_sizes_compute();
    with_library.products = products;
    struct cuda_product_operands operands = {.a = a->bf16, .b = b->bf16, .c = c};
    char text[CUDA_PRODUCT_TEXT_BYTES];
    cuda_products_choose(products, args, &operands);
    const struct cuda_product *product = cuda_products_find(products, args, &operands);
    if (product == NULL) {
        fail_msg("%s: cuBLASLt has no algorithm", name);
    }
    cuda_product_text(product, text);
    printf("%s\n", text);
    cuda_matmul_run(&with_library, args, a->bf16, b->bf16, NULL, c, workspace);
    wait_for_device("run a product of cuBLASLt");
    check_error(name, bf16 ? fetch_bf16(c, count) : fetch_f32(c, count), fetch_f32(expected, count),
                count, bf16 ? BF16_TOLERANCE : PRODUCT_TOLERANCE);
}

static void check_product(int form, const struct target *target) {
    struct matmul_args args = product_args(form);
    struct matmul_args exact = args;
    int64_t count = args.m * args.n;
    char name[80];
    struct region region = {0};
    struct cuda_products *products = open_products(target, &region);
    struct values a = new_values(args.m * args.k, 1, harness_seed(), false);
    struct values b = new_values(args.k * args.n, 1, harness_seed() + 1, false);
    void *expected = new_buffer(4 * (uint64_t)count);
    void *large = new_buffer(4 * (uint64_t)count);
    void *small = new_buffer(4 * (uint64_t)count);
    exact.dtype_in = DTYPE_F32;
    run_builtin(1, &exact, a.f32, b.f32, expected);
    run_builtin(1, &args, a.bf16, b.bf16, large);
    run_builtin(INT_MAX, &args, a.bf16, b.bf16, small);
    snprintf(name, sizeof name, "product %lld x %lld x %lld%s%s", (long long)args.m,
             (long long)args.n, (long long)args.k, args.transpose_a ? ", a transposed" : "",
             args.transpose_b ? ", b transposed" : "");
    check_equal_bits(name, large, small, 4 * (uint64_t)count);
    check_error(name, fetch_f32(large, count), fetch_f32(expected, count), count,
                PRODUCT_TOLERANCE);
    for (int i = 0; i < 2 && products != NULL; i++) {
        args.dtype_out = i == 0 ? DTYPE_F32 : DTYPE_BF16;
        check_cublas_lt(products, target, &args, &a, &b, expected, name);
    }
    release_buffers();
    if (products != NULL) {
        cuda_products_finish(products);
    }
    region_finish(&region);
}

static void products_equal_f32(void **state) {
    (void)state;
    const struct target target = real_sizes_target();
    for (int form = 0; form < PRODUCT_FORMS; form++) {
        check_product(form, &target);
    }
}

/* ---- attention ---- */

static const double ATTENTION_TOLERANCE = 6e-3; /* operands of second products rounded to bf16 */
static const double LSE_TOLERANCE = 1e-5;

/* q . k of two tokens, scaled: `query` and `key` are their first elements. */
static double score_of(const uint16_t *query, const uint16_t *key,
                       const struct attention_args *args) {
    double sum = 0;
    for (int64_t i = 0; i < args->head_dim; i++) {
        sum += (double)bf16_to_f32(query[i]) * (double)bf16_to_f32(key[i]);
    }
    return sum * (double)args->scale;
}

static int64_t first_key_of(const struct attention_case *c, int64_t token) {
    int64_t first = c->document > 0 ? token - token % c->document : 0;
    int64_t windowed = c->window > 0 ? token - c->window + 1 : 0;
    return first > windowed ? first : windowed;
}

/* The output of one query in fp64: out [head_dim]; returns the logarithm of the softmax's sum. */
static double exact_row(const struct attention_case *c, const struct attention_args *args,
                        const uint16_t *qkv, int64_t head, int64_t token, float *out) {
    int64_t kv_head = args->heads + head / (args->heads / args->kv_heads);
    const uint16_t *query = qkv + token * args->q_stride + head * args->head_dim;
    double sum = 0;
    double sums[256] = {0};
    for (int64_t s = first_key_of(c, token); s <= token; s++) {
        const uint16_t *key = qkv + s * args->kv_stride + kv_head * args->head_dim;
        const uint16_t *value = key + args->kv_heads * args->head_dim;
        double weight = exp(score_of(query, key, args)); /* scores of normal values stay below 10 */
        sum += weight;
        for (int64_t i = 0; i < args->head_dim; i++) {
            sums[i] += weight * (double)bf16_to_f32(value[i]);
        }
    }
    for (int64_t i = 0; i < args->head_dim; i++) {
        out[i] = (float)(sums[i] / sum);
    }
    return log(sum);
}

/* The f32 kernel against fp64 at some queries, the last one among them. */
static void check_exact_rows(const struct attention_case *c, const struct attention_args *args,
                             const uint16_t *qkv, const struct attention_buffers *of) {
    enum { ROWS = 24 };
    int64_t dim = args->head_dim;
    float *out = fetch_f32(of->out, args->time * args->out_stride);
    float *lse = fetch_f32(of->lse, args->time * args->heads);
    float *rows = new_array(ROWS * (dim + 1), sizeof *rows);
    float *expected = new_array(ROWS * (dim + 1), sizeof *expected);
    for (int64_t i = 0; i < ROWS; i++) {
        int64_t token = args->time - 1 - i * (args->time - 1) / (ROWS - 1);
        int64_t head = (int64_t)(mix((uint64_t)i) % (uint64_t)args->heads);
        memcpy(rows + i * (dim + 1), out + token * args->out_stride + head * dim,
               (size_t)dim * sizeof *rows);
        rows[i * (dim + 1) + dim] = lse[head * args->time + token];
        expected[i * (dim + 1) + dim] =
            (float)exact_row(c, args, qkv, head, token, expected + i * (dim + 1));
    }
    free(out);
    free(lse);
    check_error("attention in f32 against fp64, out and lse", rows, expected, ROWS * (dim + 1),
                5e-6);
}

static void check_attention(const struct attention_case *c) {
    struct attention_args narrow = attention_args_of(c, DTYPE_BF16);
    struct attention_args wide = attention_args_of(c, DTYPE_F32);
    int64_t tokens = c->time;
    struct values qkv = new_values(tokens * narrow.q_stride, 1, harness_seed(), true);
    struct values dout = new_values(tokens * narrow.out_stride, 1, harness_seed() + 1, false);
    struct attention_buffers bf16 = new_attention_buffers(c, &narrow, qkv.bf16, dout.bf16);
    struct attention_buffers f32 = new_attention_buffers(c, &wide, qkv.f32, dout.f32);
    attention_run_forward(&wide, &f32);
    attention_run_backward(&wide, &f32);
    attention_run_forward(&narrow, &bf16);
    attention_run_backward(&narrow, &bf16);
    wait_for_device("run attention");
    printf("attention: %lld tokens, heads %lld/%lld of %lld, window %lld, documents of %lld\n",
           (long long)c->time, (long long)c->heads, (long long)c->kv_heads, (long long)c->head_dim,
           (long long)c->window, (long long)c->document);
    check_exact_rows(c, &wide, qkv.host, &f32);
    int64_t out_count = tokens * narrow.out_stride;
    int64_t qkv_count = tokens * narrow.q_stride;
    check_error("attention in bf16, out", fetch_bf16(bf16.out, out_count),
                fetch_f32(f32.out, out_count), out_count, ATTENTION_TOLERANCE);
    check_error("attention in bf16, lse", fetch_f32(bf16.lse, tokens * c->heads),
                fetch_f32(f32.lse, tokens * c->heads), tokens * c->heads, LSE_TOLERANCE);
    check_error("attention in bf16, gradients", fetch_bf16(bf16.dqkv, qkv_count),
                fetch_f32(f32.dqkv, qkv_count), qkv_count, ATTENTION_TOLERANCE);
    free(qkv.host);
    release_buffers();
}

static void attention_equals_f32(void **state) {
    (void)state;
    static const struct attention_case REAL[] = {
        {4096, 32, 8, 64, 0, 0},
        {8192, 32, 8, 128, 0, 0},
        {8192, 32, 8, 128, 0, 700}, /* packed documents */
        {8192, 8, 8, 64, 1000, 0},
    };
    static const struct attention_case SMALL[] = {
        {200, 4, 2, 64, 0, 0},
        {150, 2, 1, 128, 40, 70},
    };
    bool small = device_is_emulated();
    for (size_t i = 0; i < (small ? ARRAY_COUNT(SMALL) : ARRAY_COUNT(REAL)); i++) {
        check_attention(small ? &SMALL[i] : &REAL[i]);
    }
}

/* ---- head loss ---- */

struct head_buffers {
    void *scalars, *dhidden, *dweight;
    struct step_scalars result;
};

static void run_head(const struct head_loss_args *args, const struct target *target,
                     const void *hidden, const void *weight, const int32_t *labels,
                     struct head_buffers *out) {
    struct step_scalars scalars = {.loss_scale = 1.0f / (float)args->tokens};
    out->scalars = new_buffer(sizeof scalars);
    out->dhidden = new_buffer((uint64_t)(args->tokens * args->dim * dtype_bytes(args->dtype)));
    out->dweight = new_buffer(4 * (uint64_t)(args->vocab * args->dim));
    copy(out->scalars, &scalars, sizeof scalars);
    cuda_head_loss_run(real_sizes_compute(), args, hidden, weight, labels, out->scalars,
                       out->dhidden, out->dweight,
                       new_buffer(cuda_head_loss_workspace_bytes(args, target)));
    wait_for_device("run the head");
    copy(&out->result, out->scalars, sizeof scalars);
}

static const int32_t *new_labels(int64_t tokens, int64_t vocab) {
    int32_t *labels = new_array(tokens, sizeof *labels);
    void *on_device = new_buffer(4 * (uint64_t)tokens);
    for (int64_t i = 0; i < tokens; i++) {
        labels[i] = i % 17 == 3 ? -100 : (int32_t)(mix((uint64_t)i) % (uint64_t)vocab);
    }
    copy(on_device, labels, 4 * (uint64_t)tokens);
    free(labels);
    return on_device;
}

static void head_loss_equals_f32(void **state) {
    (void)state;
    const struct target target = real_sizes_target();
    bool small = device_is_emulated();
    struct head_loss_args args = {.tokens = small ? 48 : 4096,
                                  .dim = small ? 32 : 1024,
                                  .vocab = small ? 500 : 128256,
                                  .dtype = DTYPE_BF16,
                                  .gradient = true};
    args.chunk = cuda_head_loss_chunk(args.tokens, args.vocab, &target);
    args.chunk = small ? 16 : args.chunk;
    struct head_loss_args exact = args;
    exact.dtype = DTYPE_F32;
    float deviation = 1.0f / sqrtf((float)args.dim);
    struct values hidden = new_values(args.tokens * args.dim, 1, harness_seed(), false);
    struct values weight = new_values(args.vocab * args.dim, deviation, harness_seed() + 1, false);
    const int32_t *labels = new_labels(args.tokens, args.vocab);
    struct head_buffers narrow;
    struct head_buffers wide;
    run_head(&exact, &target, hidden.f32, weight.f32, labels, &wide);
    run_head(&args, &target, hidden.bf16, weight.bf16, labels, &narrow);
    printf("head loss: %lld tokens, vocabulary %lld, chunks of %lld: %.6f, in f32 %.6f\n",
           (long long)args.tokens, (long long)args.vocab, (long long)args.chunk,
           narrow.result.loss_sum, wide.result.loss_sum);
    double loss = wide.result.loss_sum;
    assert_true(loss > 0 && fabs(narrow.result.loss_sum - loss) <= 1e-5 * loss);
    int64_t hidden_count = args.tokens * args.dim;
    int64_t weight_count = args.vocab * args.dim;
    check_error("head loss in bf16, gradient of hidden", fetch_bf16(narrow.dhidden, hidden_count),
                fetch_f32(wide.dhidden, hidden_count), hidden_count, ATTENTION_TOLERANCE);
    check_error("head loss in bf16, gradient of weight", fetch_f32(narrow.dweight, weight_count),
                fetch_f32(wide.dweight, weight_count), weight_count, ATTENTION_TOLERANCE);
    release_buffers();
}

int main(int argument_count, char **arguments) {
    if (!device_is_wanted() || !device_open()) {
        puts("skipped: needs SKEP_CUDA=emulated, or SKEP_CUDA=device and a GPU");
        return SKIPPED;
    }
    real_sizes_open();
    if (harness_benches(argument_count, arguments) && !device_is_emulated()) {
        real_sizes_bench();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_equal_f32),
        cmocka_unit_test(attention_equals_f32),
        cmocka_unit_test(head_loss_equals_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
