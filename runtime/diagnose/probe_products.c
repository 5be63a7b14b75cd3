#include "runtime/diagnose/probe_products.h"

#include "base/check.h"
#include "base/dtype.h"
#include "base/random.h"
#include "kernels/cuda/launch/matmul.h"
#include "kernels/cuda/launch/products.h"
#include "kernels/cuda/launch/table.h"
#include "kernels/cuda/launch/workspace.h"
#include "targets/ports/cuda_device.h"
#include "targets/ports/ports.h"

#include <stdio.h>
#include <string.h>

enum {
    MATRIX_COUNT = 3,         /* number of matrices of a product: two factors and the result */
    SIDE_MIN = 32,            /* number of rows of the smallest square matrix */
    SIDE_MAX = 8192,          /* number of rows of the largest square matrix */
    TRIAL_COUNT = 6,          /* Number of timings of each product. */
    FREE_MEMORY_DIVISOR = 16, /* The matrices use at most 1/16 of free memory. */
    PATTERN_BYTES =
        1 << 20, /* Size of a block of random numbers, whose copies fill the matrices. */
};

/* time of a product in milliseconds from which larger products are not timed */
static const float LONG_MS = 20;
/* time of a product in milliseconds from which the product is timed only once */
static const float LONGEST_MS = 200;

struct product_bench {
    struct cuda_compute compute;
    struct cuda_failure failure;
    struct target target; /* Device properties that determine workspace sizes. */
    struct port port;
    CUevent begin, end; /* events that are recorded before and after the timed products */
    char *matrices, *workspace, *pattern;
    int64_t side_max; /* number of rows of the largest matrix that fits in memory */
};

/* ---- one product ---- */

static struct matmul_args square_product_args(int64_t side, enum dtype dtype) {
    return (struct matmul_args){.m = side,
                                .n = side,
                                .k = side,
                                .lda = side,
                                .ldb = side,
                                .ldc = side,
                                .dtype_in = dtype,
                                .dtype_out = dtype,
                                .transpose_b = true};
}

static uint64_t matrix_bytes(int64_t side, enum dtype dtype) {
    return (uint64_t)(side * side * dtype_bytes(dtype));
}

static struct cuda_product_operands make_operands(const struct product_bench *bench, int64_t side,
                                                  enum dtype dtype) {
    uint64_t bytes = matrix_bytes(side, dtype);
    return (struct cuda_product_operands){
        .a = bench->matrices, .b = bench->matrices + bytes, .c = bench->matrices + 2 * bytes};
}

/* Runs the product once, and returns its time in milliseconds. */
static float time_product(const struct product_bench *bench, int64_t side, enum dtype dtype) {
    const struct cuda_compute *compute = &bench->compute;
    const struct cuda_driver *driver = compute->driver;
    const struct matmul_args args = square_product_args(side, dtype);
    const struct cuda_product_operands of = make_operands(bench, side, dtype);
    float ms = 0;
    cuda_record_result(compute, driver->cuEventRecord(bench->begin, compute->stream),
                       "time products");
    cuda_matmul_run(compute, &args, of.a, of.b, NULL, of.c, bench->workspace);
    cuda_record_result(compute, driver->cuEventRecord(bench->end, compute->stream),
                       "time products");
    cuda_record_result(compute, driver->cuStreamSynchronize(compute->stream), "time products");
    if (compute->failure->result == CUDA_SUCCESS) {
        cuda_record_result(compute, driver->cuEventElapsedTime(&ms, bench->begin, bench->end),
                           "time products");
    }
    return ms;
}

/* Times products of increasing size until one takes LONG_MS. Returns the rate, or 0 when the device
 * fails. */
static double measure_rate(const struct product_bench *bench, enum dtype dtype) {
    double best = 0;
    float ms = 0;
    for (int64_t side = SIDE_MIN; side <= bench->side_max && ms < LONG_MS; side *= 2) {
        const struct matmul_args args = square_product_args(side, dtype);
        const struct cuda_product_operands of = make_operands(bench, side, dtype);
        if (bench->compute.products != NULL) {
            cuda_products_choose(bench->compute.products, &args, &of);
        }
        for (int i = 0; i < TRIAL_COUNT; i++) {
            ms = time_product(bench, side, dtype);
            double rate =
                ms > 0 ? 2e3 * (double)side * (double)side * (double)side / (double)ms : 0;
            best = rate > best ? rate : best;
            if (ms >= LONGEST_MS || (ms >= LONG_MS && i > 0)) {
                break;
            }
        }
    }
    return bench->failure.result == CUDA_SUCCESS ? best : 0;
}

/* ---- matrices ---- */

/* Fills the matrices with random values between -1 and 1, because products of zeros use less power
 * and are unusually fast. */
static void fill_matrices(const struct product_bench *bench, enum dtype dtype) {
    const struct cuda_compute *compute = &bench->compute;
    const struct cuda_driver *driver = compute->driver;
    uint64_t bytes = 2 * matrix_bytes(bench->side_max, dtype);
    uint64_t key = random_key(1, "probe");
    for (uint64_t i = 0; i < PATTERN_BYTES / (uint64_t)dtype_bytes(dtype); i++) {
        float value = (float)(2 * random_uniform(key, i) - 1);
        if (dtype == DTYPE_F32) {
            memcpy(bench->pattern + i * sizeof value, &value, sizeof value);
        } else {
            uint16_t rounded = bf16_from_f32(value);
            memcpy(bench->pattern + i * sizeof rounded, &rounded, sizeof rounded);
        }
    }
    for (uint64_t at = 0; at < bytes; at += PATTERN_BYTES) {
        uint64_t some = bytes - at < PATTERN_BYTES ? bytes - at : PATTERN_BYTES;
        cuda_record_result(compute,
                           driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)(bench->matrices + at),
                                                 (CUdeviceptr)(uintptr_t)bench->pattern, some,
                                                 compute->stream),
                           "fill matrices");
    }
    cuda_record_result(compute, driver->cuStreamSynchronize(compute->stream), "fill matrices");
}

/* Times our own kernels and the library on the same numbers. */
static void time_kernel_and_library(struct product_bench *bench, struct cuda_products *library,
                                    enum dtype dtype, double *best, double *own) {
    fill_matrices(bench, dtype);
    *own = measure_rate(bench, dtype);
    bench->compute.products = library;
    *best = library != NULL ? measure_rate(bench, dtype) : *own;
    bench->compute.products = NULL;
}

/* ---- the library ---- */

static enum status measure_dtype_rates(struct product_bench *bench, struct cuda_products *library,
                                       struct probe_gpu *result, struct fault *fault) {
    time_kernel_and_library(bench, library, DTYPE_F32, &result->f32_flops, &result->own_f32_flops);
    time_kernel_and_library(bench, library, DTYPE_BF16, &result->bf16_flops,
                            &result->own_bf16_flops);
    return bench->failure.result == CUDA_SUCCESS
               ? OK
               : cuda_device_fault(bench->port.cuda, bench->failure.result, STATUS_FAILED,
                                   bench->failure.action, fault);
}

static enum status measure_with_library(struct product_bench *bench, struct region *region,
                                        struct probe_gpu *result, struct fault *fault) {
    struct cuda_products products;
    struct fault absent;
    uint64_t before;
    uint64_t behind;
    TRY(cuda_device_free_bytes(bench->port.cuda, &before, fault));
    if (cuda_products_open(&bench->target, region, &products, &absent) != OK) {
        snprintf(result->products, sizeof result->products, "no cuBLASLt: %.150s", absent.reason);
        return measure_dtype_rates(bench, NULL, result, fault);
    }
    size_t version = products.lt.cublasLtGetVersion();
    snprintf(result->products, sizeof result->products, "cuBLASLt %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    enum status status = measure_dtype_rates(bench, &products, result, fault);
    if (status == OK) {
        status = cuda_device_free_bytes(bench->port.cuda, &behind, fault);
    }
    if (status == OK) {
        result->products_bytes = before > behind ? before - behind : 0;
    }
    cuda_products_finish(&products);
    return status;
}

/* ---- init and finish ---- */

static enum status reserve_memory(struct product_bench *bench, const struct probe_gpu *result,
                                  struct fault *fault) {
    const struct matmul_args args = square_product_args(SIDE_MIN, DTYPE_F32);
    uint64_t workspace = cuda_matmul_workspace_bytes(&args, &bench->target);
    void *far;
    void *near;
    bench->side_max = SIDE_MAX;
    while (bench->side_max > SIDE_MIN && MATRIX_COUNT * matrix_bytes(bench->side_max, DTYPE_F32) >
                                             result->memory_free_bytes / FREE_MEMORY_DIVISOR) {
        bench->side_max /= 2;
    }
    uint64_t bytes = MATRIX_COUNT * matrix_bytes(bench->side_max, DTYPE_F32);
    TRY(port_reserve(&bench->port, SPACE_DEVICE, bytes + workspace, &far, fault));
    TRY(port_reserve(&bench->port, SPACE_PINNED, PATTERN_BYTES, &near, fault));
    bench->matrices = far;
    bench->workspace = bench->matrices + bytes;
    bench->pattern = near;
    return OK;
}

static enum status open_bench(struct product_bench *bench, const struct probe_gpu *result,
                              struct fault *fault) {
    const struct cuda_device *device = bench->port.cuda;
    TRY(reserve_memory(bench, result, fault));
    TRY(cuda_device_create_stream(device, false, &bench->compute.stream, fault));
    TRY(cuda_device_create_event(device, true, &bench->begin, fault));
    return cuda_device_create_event(device, true, &bench->end, fault);
}

static void close_bench(struct product_bench *bench) {
    const struct cuda_driver *driver = bench->compute.driver;
    if (bench->end != NULL) {
        (void)driver->cuEventDestroy(bench->end);
    }
    if (bench->begin != NULL) {
        (void)driver->cuEventDestroy(bench->begin);
    }
    if (bench->compute.stream != NULL) {
        (void)driver->cuStreamDestroy(bench->compute.stream);
    }
    port_finish(&bench->port);
}

enum status probe_products(const struct cuda_device *device, const struct cuda_kernel_table *table,
                           struct probe_gpu *result, struct fault *fault) {
    struct region region = {0};
    struct product_bench bench = {.target = {.name = "this machine",
                                             .kind = TARGET_CUDA,
                                             .compute_major = device->compute_major,
                                             .compute_minor = device->compute_minor,
                                             .multiprocessor_count = device->multiprocessor_count}};
    bench.compute = (struct cuda_compute){.driver = &device->driver,
                                          .table = table,
                                          .failure = &bench.failure,
                                          .multiprocessors = device->multiprocessor_count};
    TRY(port_init(&bench.port, &bench.target, fault));
    enum status status = open_bench(&bench, result, fault);
    if (status == OK) {
        status = measure_with_library(&bench, &region, result, fault);
    }
    close_bench(&bench);
    region_finish(&region);
    return status;
}
