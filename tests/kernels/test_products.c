/* Products by cuBLASLt: what it is asked, which of its proposals are taken, and that its columns
 * are our rows, through a fake that follows its documents. */
#include "tests/kernels/fake_cublas_lt.h"

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/cuda/launch/matmul.h"
#include "kernels/cuda/launch/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VALUES_MAX = 2048, FORM_COUNT = 48, ALIGN = 256 };

static const struct target HOPPER = {.kind = TARGET_CUDA, .compute_major = 9};
static const struct fake_proposal GOOD = {.id = 66,
                                          .split_k = 1,
                                          .ways = CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F,
                                          .workspace_bytes = 1024};

struct fixture {
    struct region region;
    struct cuda_products products;
    struct cuda_failure failure;
    struct cuda_compute compute;
};

static void fixture_init(struct fixture *fixture) {
    struct cublas_lt library = fake_cublas_lt_table();
    struct fault fault;
    fake_cublas_lt = (struct fake_cublas_lt){.proposals = {GOOD}, .proposal_count = 1};
    memset(fixture, 0, sizeof *fixture);
    assert_int_equal(
        cuda_products_init(&library, &HOPPER, &fixture->region, &fixture->products, &fault), OK);
    fixture->compute = (struct cuda_compute){
        .products = &fixture->products, .failure = &fixture->failure, .multiprocessors = 4};
}

static void fixture_finish(struct fixture *fixture) {
    cuda_products_finish(&fixture->products);
    region_finish(&fixture->region);
    assert_int_equal(fake_cublas_lt.objects, 0);
}

/* ---- against plain row-major sums ---- */

struct buffers {
    _Alignas(ALIGN) unsigned char a[4 * VALUES_MAX];
    _Alignas(ALIGN) unsigned char b[4 * VALUES_MAX];
    _Alignas(ALIGN) unsigned char bias[4 * VALUES_MAX];
    _Alignas(ALIGN) unsigned char c[4 * VALUES_MAX];
    _Alignas(ALIGN) unsigned char before[4 * VALUES_MAX];
    _Alignas(ALIGN) unsigned char workspace[1024];
};
static struct buffers buffers;

static double value_at(const void *values, enum dtype dtype, int64_t at) {
    return dtype == DTYPE_BF16 ? (double)bf16_to_f32(((const uint16_t *)values)[at])
                               : (double)((const float *)values)[at];
}

static void fill(void *values, enum dtype dtype, int step) {
    for (int i = 0; i < VALUES_MAX; i++) {
        float value = (float)(i * step % 7 - 3); /* whole: every sum is exact */
        if (dtype == DTYPE_BF16) {
            ((uint16_t *)values)[i] = bf16_from_f32(value);
        } else {
            ((float *)values)[i] = value;
        }
    }
}

static struct cuda_product_operands operands_of(const struct matmul_args *args) {
    fill(buffers.a, args->dtype_in, 5);
    fill(buffers.b, args->dtype_in, 3);
    fill(buffers.bias, args->dtype_in, 2);
    fill(buffers.c, args->dtype_out, 11);
    memcpy(buffers.before, buffers.c, sizeof buffers.c);
    return (struct cuda_product_operands){
        .a = buffers.a, .b = buffers.b, .bias = args->bias ? buffers.bias : NULL, .c = buffers.c};
}

static double expected_at(const struct matmul_args *args, int64_t row, int64_t column) {
    double sum = args->bias ? value_at(buffers.bias, args->dtype_in, column) : 0;
    if (args->accumulate) {
        sum += value_at(buffers.before, args->dtype_out, row * args->ldc + column);
    }
    for (int64_t k = 0; k < args->k; k++) {
        int64_t a = args->transpose_a ? k * args->lda + row : row * args->lda + k;
        int64_t b = args->transpose_b ? column * args->ldb + k : k * args->ldb + column;
        sum += value_at(buffers.a, args->dtype_in, a) * value_at(buffers.b, args->dtype_in, b);
    }
    return sum;
}

/* Everything of C: what lies between its rows too. */
static void check_result(const struct matmul_args *args) {
    for (int64_t at = 0; at < VALUES_MAX; at++) {
        int64_t row = at / args->ldc;
        int64_t column = at % args->ldc;
        bool within = row < args->m && column < args->n;
        double got = value_at(buffers.c, args->dtype_out, at);
        double want =
            within ? expected_at(args, row, column) : value_at(buffers.before, args->dtype_out, at);
        if (args->dtype_out == DTYPE_BF16) {
            want = (double)bf16_to_f32(bf16_from_f32((float)want));
        }
        if (got != want) {
            fail_msg("c[%ld, %ld] is %g, not %g", (long)row, (long)column, got, want);
        }
    }
}

static struct matmul_args form_of(int form, int64_t m, int64_t n, int64_t k, int64_t padding) {
    struct matmul_args args = {.m = m, .n = n, .k = k};
    args.transpose_a = form & 1;
    args.transpose_b = form & 2;
    args.dtype_in = form & 4 ? DTYPE_BF16 : DTYPE_F32;
    args.accumulate = form / 16 == 2;
    args.dtype_out = form & 8 && !args.accumulate ? DTYPE_BF16 : DTYPE_F32;
    args.bias = form / 16 == 1;
    args.lda = (args.transpose_a ? m : k) + padding;
    args.ldb = (args.transpose_b ? k : n) + padding;
    args.ldc = n + padding;
    return args;
}

static bool is_known(const struct matmul_args *args) {
    bool mixed = args->dtype_in != args->dtype_out;
    return !mixed || (args->dtype_in == DTYPE_BF16 && !args->bias);
}

static void check_form(struct fixture *fixture, const struct matmul_args *args) {
    struct cuda_product_operands operands = operands_of(args);
    int calls = fake_cublas_lt.heuristic_calls;
    int runs = fake_cublas_lt.runs;
    cuda_products_choose(&fixture->products, args, &operands);
    if (!is_known(args)) {
        assert_int_equal(fake_cublas_lt.heuristic_calls, calls);
        assert_null(cuda_products_find(&fixture->products, args, &operands));
        return;
    }
    cuda_matmul_run(&fixture->compute, args, operands.a, operands.b, operands.bias, operands.c,
                    buffers.workspace);
    assert_int_equal(fixture->failure.result, CUDA_SUCCESS);
    assert_int_equal(fake_cublas_lt.runs, runs + 1);
    check_result(args);
}

static void rows_are_its_columns_in_every_form(void **state) {
    (void)state;
    static const int64_t SIZES[][4] = {{5, 7, 3, 0}, {1, 6, 11, 2}, {8, 8, 8, 0}, {13, 1, 2, 3}};
    struct fixture fixture;
    fixture_init(&fixture);
    for (size_t i = 0; i < ARRAY_COUNT(SIZES); i++) {
        for (int form = 0; form < FORM_COUNT; form++) {
            struct matmul_args args =
                form_of(form, SIZES[i][0], SIZES[i][1], SIZES[i][2], SIZES[i][3]);
            check_form(&fixture, &args);
        }
    }
    fixture_finish(&fixture);
}

/* ---- what is asked ---- */

static void question_names_workspace_order_and_alignment(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct matmul_args args = form_of(4, 4, 6, 8, 0); /* bf16 in, f32 out */
    struct cuda_product_operands operands = operands_of(&args);
    operands.a = buffers.a + 2;
    operands.b = buffers.b + 16;
    operands.c = buffers.c + 64;
    cuda_products_choose(&fixture.products, &args, &operands);
    assert_int_equal(fake_cublas_lt.workspace_limit, 32 << 20);
    assert_int_equal(fake_cublas_lt.reductions_allowed, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    assert_int_equal(fake_cublas_lt.ways_allowed & CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F,
                     0);
    const uint32_t alignment[4] = {16, 2, 64, 64}; /* of its A, B, C and D: our b, a and c */
    assert_memory_equal(fake_cublas_lt.alignment, alignment, sizeof alignment);
    args = form_of(0, 4, 6, 8, 0);
    operands = operands_of(&args);
    cuda_products_choose(&fixture.products, &args, &operands);
    assert_int_equal(fake_cublas_lt.ways_allowed & CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32, 0);
    fixture_finish(&fixture);
}

static void product_is_chosen_once_for_each_alignment(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct matmul_args args = form_of(0, 4, 6, 8, 0);
    struct cuda_product_operands operands = operands_of(&args);
    for (int i = 0; i < 3; i++) {
        cuda_products_choose(&fixture.products, &args, &operands);
        assert_int_equal(fake_cublas_lt.heuristic_calls, 1);
    }
    operands.a = buffers.a + 32;
    cuda_products_choose(&fixture.products, &args, &operands);
    assert_int_equal(fake_cublas_lt.heuristic_calls, 2);
    fixture_finish(&fixture);
}

/* ---- proposals ---- */

static const struct cuda_product *choose_among(struct fixture *fixture,
                                               const struct fake_proposal *proposals, int count,
                                               enum dtype dtype) {
    struct matmul_args args = form_of(dtype == DTYPE_BF16 ? 12 : 0, 4, 6, 8, 0);
    struct cuda_product_operands operands = operands_of(&args);
    memcpy(fake_cublas_lt.proposals, proposals, (size_t)count * sizeof *proposals);
    fake_cublas_lt.proposal_count = count;
    cuda_products_choose(&fixture->products, &args, &operands);
    return cuda_products_find(&fixture->products, &args, &operands);
}

static void first_proposal_that_will_do_is_taken_and_written_down(void **state) {
    (void)state;
    struct fake_proposal racing = GOOD;
    racing.split_k = 4;
    racing.reduction = CUBLASLT_REDUCTION_SCHEME_INPLACE;
    struct fake_proposal coarse = GOOD;
    coarse.ways = CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32;
    struct fake_proposal split = GOOD;
    split.id = 21;
    split.split_k = 3;
    split.reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct fake_proposal proposals[] = {racing, coarse, split, GOOD};
    struct fixture fixture;
    fixture_init(&fixture);
    const struct cuda_product *product = choose_among(&fixture, proposals, 4, DTYPE_F32);
    char text[CUDA_PRODUCT_TEXT_BYTES];
    assert_non_null(product);
    cuda_product_text(product, text);
    assert_string_equal(text, "m 4 n 6 k 8 f32 to f32: cuBLASLt algorithm 21, tile 20, stages 0, "
                              "split-k 3, workspace 1024 B");
    fixture_finish(&fixture);
}

static void own_kernel_takes_what_has_no_proposal_that_will_do(void **state) {
    (void)state;
    struct fake_proposal large = GOOD;
    large.workspace_bytes = (32 << 20) + 1;
    struct fake_proposal failed = GOOD;
    failed.state = CUBLAS_STATUS_NOT_SUPPORTED;
    struct fake_proposal half = GOOD;
    half.ways = CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F;
    const struct fake_proposal proposals[] = {large, failed, half};
    struct fixture fixture;
    fixture_init(&fixture);
    assert_null(choose_among(&fixture, proposals, 3, DTYPE_BF16));
    assert_null(choose_among(&fixture, proposals, 0, DTYPE_F32));
    char text[CUDA_PRODUCT_TEXT_BYTES];
    cuda_product_text(fixture.products.newest, text);
    assert_string_equal(text, "m 4 n 6 k 8 f32 to f32: built-in kernel");
    fixture_finish(&fixture);
    fixture_init(&fixture);
    fake_cublas_lt.heuristic = CUBLAS_STATUS_NOT_SUPPORTED;
    assert_null(choose_among(&fixture, &GOOD, 1, DTYPE_BF16));
    fixture_finish(&fixture);
}

/* ---- failures ---- */

static int launches;

static CUresult launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CUstream stream, void **arguments, void **extra) {
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
    (void)block_z, (void)shared_bytes, (void)stream, (void)arguments, (void)extra;
    launches++;
    return CUDA_SUCCESS;
}

static void what_the_library_refuses_is_made_by_our_own_kernel(void **state) {
    (void)state;
    static const struct cuda_kernel_table table;
    static const struct cuda_driver driver = {.cuLaunchKernel = launch};
    struct fixture fixture;
    fixture_init(&fixture);
    fixture.compute.table = &table;
    fixture.compute.driver = &driver;
    struct matmul_args args = form_of(0, 4, 6, 8, 0);
    struct matmul_args larger = form_of(0, 8, 6, 8, 0);
    struct cuda_product_operands operands = operands_of(&args);
    fake_cublas_lt.heuristic = CUBLAS_STATUS_INTERNAL_ERROR;
    cuda_products_choose(&fixture.products, &args, &operands);
    assert_null(cuda_products_find(&fixture.products, &args, &operands));
    fake_cublas_lt.heuristic = CUBLAS_STATUS_SUCCESS;
    cuda_products_choose(&fixture.products, &larger, &operands);
    assert_non_null(cuda_products_find(&fixture.products, &larger, &operands));
    fake_cublas_lt.run = CUBLAS_STATUS_ALLOC_FAILED;
    for (int i = 1; i <= 2; i++) { /* asked once */
        cuda_matmul_run(&fixture.compute, &larger, operands.a, operands.b, NULL, operands.c,
                        buffers.workspace);
        assert_int_equal(launches, i);
        assert_int_equal(fake_cublas_lt.runs, 1);
    }
    assert_int_equal(fixture.failure.result, CUDA_SUCCESS);
    assert_null(cuda_products_find(&fixture.products, &larger, &operands));
    fixture_finish(&fixture);
}

static void nothing_is_enqueued_behind_a_failure(void **state) {
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture);
    struct matmul_args args = form_of(0, 4, 6, 8, 0);
    struct cuda_product_operands operands = operands_of(&args);
    cuda_products_choose(&fixture.products, &args, &operands);
    fixture.failure.result = CUDA_ERROR_LAUNCH_FAILED;
    cuda_matmul_run(&fixture.compute, &args, operands.a, operands.b, NULL, operands.c,
                    buffers.workspace);
    assert_int_equal(fake_cublas_lt.runs, 0);
    fixture_finish(&fixture);
}

static void a_handle_that_is_refused_is_told(void **state) {
    (void)state;
    const struct cublas_lt library = fake_cublas_lt_table();
    struct region region = {0};
    struct cuda_products products;
    struct fault fault;
    fake_cublas_lt = (struct fake_cublas_lt){.create = CUBLAS_STATUS_INTERNAL_ERROR};
    assert_int_equal(cuda_products_init(&library, &HOPPER, &region, &products, &fault),
                     STATUS_FAILED);
    assert_string_equal(fault.reason, "cannot create a handle: CUBLAS_STATUS_INTERNAL_ERROR");
    assert_non_null(strstr(fault.remedy, "slower built-in kernels"));
    assert_int_equal(fake_cublas_lt.objects, 0);
    region_finish(&region);
}

static void an_absent_library_is_told(void **state) {
    (void)state;
    struct cublas_lt library = {.cublasLtCreate = NULL};
    struct fault fault;
    assert_int_equal(cublas_lt_load("libnone.so.13", &library, &fault), STATUS_INPUT);
    assert_string_equal(fault.subject, "libnone.so.13");
    assert_non_null(strstr(fault.reason, "cuBLASLt is not installed: "));
    assert_non_null(strstr(fault.remedy, "LD_LIBRARY_PATH"));
    assert_null(library.cublasLtCreate);
}

/* A library for a newer driver than that of the machine creates no handle. */
static void the_next_library_is_used_when_one_creates_no_handle(void **state) {
    (void)state;
    const char *newer = getenv("FAKE_CUBLAS_NEWER");
    const char *older = getenv("FAKE_CUBLAS_OLDER");
    if (newer == NULL || older == NULL) {
        skip();
    }
    const char *const all[] = {"libnone.so.13", newer, older};
    struct region region = {0};
    struct cuda_products products;
    struct fault fault;
    assert_int_equal(cuda_products_open_first(all, 3, &HOPPER, &region, &products, &fault), OK);
    assert_int_equal(products.lt.cublasLtGetVersion(), 120800);
    cuda_products_finish(&products);
    assert_int_equal(cuda_products_open_first(all, 2, &HOPPER, &region, &products, &fault),
                     STATUS_FAILED);
    assert_string_equal(fault.reason, "cannot create a handle: CUBLAS_STATUS_NOT_INITIALIZED");
    assert_int_equal(cuda_products_open_first(all, 1, &HOPPER, &region, &products, &fault),
                     STATUS_INPUT);
    assert_string_equal(fault.subject, "libnone.so.13");
    region_finish(&region);
}

static void make_file(const char *folder, const char *path) {
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname %s/%s)\" && touch %s/%s", folder, path,
             folder, path);
    assert_int_equal(system(command), 0);
}

static int index_of(const char *const *paths, int count, const char *folder, const char *end) {
    char wanted[512];
    snprintf(wanted, sizeof wanted, "%s/%s", folder, end);
    for (int i = 0; i < count; i++) {
        if (strcmp(paths[i], wanted) == 0) {
            return i;
        }
    }
    return -1;
}

static void libraries_of_python_packages_are_found(void **state) {
    (void)state;
    static const char NEW[] = "lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13";
    static const char OLD[] = "lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12";
    static const char HOME[] =
        ".local/lib/python3.9/site-packages/nvidia/cublas/lib/libcublasLt.so.12";
    char folder[] = "/tmp/skep-products-XXXXXX";
    char command[64];
    struct region region = {0};
    const char *paths[CUBLAS_LT_PATHS_MAX];
    assert_non_null(mkdtemp(folder));
    make_file(folder, NEW);
    make_file(folder, OLD);
    make_file(folder, HOME);
    make_file(folder, "lib/libcublasLt.so.12");
    int count = cublas_lt_list_libraries(&(struct cublas_lt_library_search){NULL, NULL, NULL},
                                         &region, paths);
    assert_string_equal(paths[0], "libcublasLt.so.13");
    assert_string_equal(paths[1], "libcublasLt.so.12");
    assert_int_equal(index_of(paths, count, folder, OLD), -1);
    count = cublas_lt_list_libraries(&(struct cublas_lt_library_search){folder, NULL, NULL},
                                     &region, paths);
    assert_int_equal(index_of(paths, count, folder, NEW), 2);
    assert_int_equal(index_of(paths, count, folder, OLD), 3);
    count = cublas_lt_list_libraries(&(struct cublas_lt_library_search){NULL, folder, folder},
                                     &region, paths);
    assert_int_equal(index_of(paths, count, folder, "lib/libcublasLt.so.12"), 2);
    assert_int_equal(index_of(paths, count, folder, NEW), 3);
    assert_true(index_of(paths, count, folder, HOME) > 4);
    region_finish(&region);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_its_columns_in_every_form),
        cmocka_unit_test(question_names_workspace_order_and_alignment),
        cmocka_unit_test(product_is_chosen_once_for_each_alignment),
        cmocka_unit_test(first_proposal_that_will_do_is_taken_and_written_down),
        cmocka_unit_test(own_kernel_takes_what_has_no_proposal_that_will_do),
        cmocka_unit_test(what_the_library_refuses_is_made_by_our_own_kernel),
        cmocka_unit_test(nothing_is_enqueued_behind_a_failure),
        cmocka_unit_test(a_handle_that_is_refused_is_told),
        cmocka_unit_test(an_absent_library_is_told),
        cmocka_unit_test(the_next_library_is_used_when_one_creates_no_handle),
        cmocka_unit_test(libraries_of_python_packages_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
