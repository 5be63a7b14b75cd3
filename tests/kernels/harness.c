#include "tests/kernels/harness.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "kernels/table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD_BYTES = 256, GUARD_FILL = 0xA5, THREADS_CHECKED = 3, THREADS_TIMED = 2 };
enum { REPEATS_MIN = 7, REPEATS_MAX = 200, GRADIENTS_CHECKED = 64 };
static const int64_t BENCH_NS = 300000000;

const int64_t EDGE_SIZES[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 64, 65, 127, 256, 1000};
const int EDGE_SIZE_COUNT = ARRAY_COUNT(EDGE_SIZES);

enum metric {
    METRIC_ULP,    /* largest error in units of the last place of the expected value */
    METRIC_L2,     /* norm of the error over norm of the expected values */
    METRIC_SCALED, /* largest error over largest expected value */
};

struct tolerance {
    const char *operation;
    enum metric metric;
    double f32, bf16; /* by the dtype of the output */
    const char *reason;
};

/* A bf16 rounding errs by at most half a ulp, 2^-8 relative; by about 1.7e-3 in L2. */
static const struct tolerance TOLERANCES[] = {
    {"fill", METRIC_ULP, 0, 0, "no arithmetic"},
    {"add", METRIC_ULP, 0.5, 0.51, "one rounding; in bf16 after one in f32"},
    {"cast", METRIC_ULP, 0.5, 0.5, "one rounding"},
    {"swiglu", METRIC_SCALED, 3e-7, 4e-3, "the exponential underflows: no bound in ulp far out"},
    {"gelu", METRIC_SCALED, 3e-7, 4e-3, "the exponent is rounded: no bound in ulp far out"},
    {"activation_backward", METRIC_SCALED, 6e-7, 4e-3, "differences cancel: no bound in ulp"},
    {"rope", METRIC_SCALED, 2e-7, 4e-3, "two products and a sum that may cancel"},
    {"column_sum", METRIC_SCALED, 2e-7, 0, "in fp64; each 64 rows and the result round to f32"},
    {"norm_forward", METRIC_SCALED, 5e-7, 8e-3, "a row's sum, a root, two products; two roundings"},
    {"norm_backward", METRIC_L2, 5e-7, 3e-3, "two row sums, then a difference"},
    {"embedding", METRIC_SCALED, 1e-6, 4e-3, "a row's gradients are added in f32 in token order"},
    {"head_loss", METRIC_L2, 1e-6, 0, "two products around an exponential"},
    {"head_loss_bf16", METRIC_L2, 4e-3, 4e-3, "dlogits are rounded to bf16 before both products"},
    {"attention", METRIC_L2, 1.5e-6, 3e-3, "sums of products around an exponential, in f32"},
    {"gradient_norm", METRIC_ULP, 0.51, 0,
     "granules sum in fp64, then exactly; shown rounded to f32"},
    {"adamw", METRIC_L2, 1e-6, 3e-3, "20 steps of a dozen roundings each"},
    {"codec", METRIC_ULP, 0, 0, "defined to the bit"},
    {"outer_step", METRIC_SCALED, 3e-7, 0, "three products and three sums that may cancel"},
    {"adamw_bf16", METRIC_L2, 1e-4, 8e-3, "a moment near a tie of bf16 may round either way"},
};

static const char *const PATTERN_NAMES[PATTERN_COUNT] = {"normal", "zero", "denormal", "large",
                                                         "mixed"};

const char *pattern_name(enum pattern pattern) {
    return PATTERN_NAMES[pattern];
}

uint64_t harness_seed(void) {
    const char *text = getenv("SKEP_TEST_SEED");
    return text != NULL ? strtoull(text, NULL, 0) : 20260117;
}

/* ---- tensors ---- */

static size_t padded_bytes(const struct tensor *tensor) {
    size_t bytes = (size_t)(tensor->count * dtype_bytes(tensor->dtype));
    return (bytes + 63) / 64 * 64;
}

static struct tensor tensor_new(enum dtype dtype, int64_t count) {
    struct tensor tensor = {.dtype = dtype, .count = count};
    size_t bytes = 2 * GUARD_BYTES + padded_bytes(&tensor);
    uint8_t *base =
        aligned_alloc(GUARD_BYTES, (bytes + GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES);
    assert_non_null(base);
    memset(base, GUARD_FILL, bytes);
    tensor.data = base + GUARD_BYTES;
    tensor.exact = calloc((size_t)count + 1, sizeof(double));
    assert_non_null(tensor.exact);
    return tensor;
}

double tensor_value(const struct tensor *tensor, int64_t index) {
    switch (tensor->dtype) {
    case DTYPE_F32:
        return (double)((const float *)tensor->data)[index];
    case DTYPE_BF16:
        return (double)bf16_to_f32(((const uint16_t *)tensor->data)[index]);
    case DTYPE_F16:
        return (double)f16_to_f32(((const uint16_t *)tensor->data)[index]);
    case DTYPE_I32:
        return (double)((const int32_t *)tensor->data)[index];
    case DTYPE_COUNT:
        break;
    }
    ASSERT(false && "a dtype");
    return 0;
}

static void tensor_set(struct tensor *tensor, int64_t index, float value) {
    switch (tensor->dtype) {
    case DTYPE_F32:
        ((float *)tensor->data)[index] = value;
        break;
    case DTYPE_BF16:
        ((uint16_t *)tensor->data)[index] = bf16_from_f32(value);
        break;
    case DTYPE_F16:
        ((uint16_t *)tensor->data)[index] = f16_from_f32(value);
        break;
    case DTYPE_I32:
    case DTYPE_COUNT:
        ((int32_t *)tensor->data)[index] = (int32_t)value;
        break;
    }
    tensor->exact[index] = tensor_value(tensor, index);
}

static float pattern_value(enum pattern pattern, uint64_t seed, uint64_t index) {
    float normal = random_normal(seed, index);
    uint32_t words[4];
    random_block(~seed, index, words);
    switch (pattern) {
    case PATTERN_ZERO:
        return (words[0] & 1) != 0 ? -0.0f : 0.0f;
    case PATTERN_DENORMAL:
        return ldexpf(normal, -130);
    case PATTERN_LARGE:
        return ldexpf(normal, 18);
    case PATTERN_MIXED:
        return ldexpf(normal, (int)(words[0] % 41) - 30);
    case PATTERN_NORMAL:
    case PATTERN_COUNT:
        break;
    }
    return normal;
}

struct tensor tensor_random(enum dtype dtype, int64_t count, enum pattern pattern, uint64_t seed) {
    struct tensor tensor = tensor_new(dtype, count);
    for (int64_t i = 0; i < count; i++) {
        tensor_set(&tensor, i, pattern_value(pattern, seed, (uint64_t)i));
    }
    return tensor;
}

struct tensor tensor_integers(int64_t count, int32_t below, uint64_t seed) {
    struct tensor tensor = tensor_new(DTYPE_I32, count);
    for (int64_t i = 0; i < count; i++) {
        int32_t value = (int32_t)(random_uniform(seed, (uint64_t)i) * below);
        ((int32_t *)tensor.data)[i] = value;
        tensor.exact[i] = value;
    }
    return tensor;
}

struct tensor tensor_zeros(enum dtype dtype, int64_t count) {
    struct tensor tensor = tensor_new(dtype, count);
    memset(tensor.data, 0, (size_t)(count * dtype_bytes(dtype)));
    return tensor;
}

struct tensor tensor_unset(enum dtype dtype, int64_t count) {
    struct tensor tensor = tensor_new(dtype, count);
    memset(tensor.data, 0xFF, (size_t)(count * dtype_bytes(dtype)));
    return tensor;
}

struct tensor workspace_of(uint64_t bytes) {
    return tensor_unset(DTYPE_F32, (int64_t)((bytes + 3) / 4));
}

static bool guards_stand(const struct tensor *tensor) {
    const uint8_t *data = tensor->data;
    size_t bytes = (size_t)(tensor->count * dtype_bytes(tensor->dtype));
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (data[bytes + i] != GUARD_FILL || *(data - 1 - i) != GUARD_FILL) {
            return false;
        }
    }
    return true;
}

void tensor_free(struct tensor *tensor) {
    if (tensor->data == NULL) {
        return;
    }
    bool stand = guards_stand(tensor);
    free((uint8_t *)tensor->data - GUARD_BYTES);
    free(tensor->exact);
    memset(tensor, 0, sizeof *tensor);
    if (!stand) {
        fail_msg("bytes outside a tensor were written");
    }
}

/* ---- errors ---- */

static double unit_in_last_place(double value, enum dtype dtype) {
    int digits = dtype == DTYPE_F32 ? 24 : dtype == DTYPE_BF16 ? 8 : 11;
    int smallest = dtype == DTYPE_F32 ? -149 : dtype == DTYPE_BF16 ? -133 : -24;
    if (value == 0) {
        return ldexp(1, smallest);
    }
    int exponent;
    frexp(value, &exponent);
    int last = exponent - digits;
    return ldexp(1, last > smallest ? last : smallest);
}

static const struct tolerance *tolerance_of(const char *operation) {
    for (size_t i = 0; i < ARRAY_COUNT(TOLERANCES); i++) {
        if (strcmp(TOLERANCES[i].operation, operation) == 0) {
            return &TOLERANCES[i];
        }
    }
    fail_msg("%s has no row in the tolerance table", operation);
    return NULL;
}

/* Both not finite in the same way, or out of the dtype's range where the kernel says infinity. */
static bool same_nonfinite(double actual, double expected) {
    if (isnan(expected)) {
        return isnan(actual);
    }
    double largest = (double)3.3895e38f;
    return isinf(actual) && fabs(expected) >= largest && signbit(actual) == signbit(expected);
}

struct error {
    double value;
    int64_t index; /* of the largest single error */
};

static struct error error_of(const struct checked_output *output, enum metric metric) {
    double squares = 0;
    double reference_squares = 0;
    double largest = 0;
    double largest_reference = 0;
    struct error error = {0, 0};
    for (int64_t i = 0; i < output->tensor->count; i++) {
        double actual = tensor_value(output->tensor, i);
        double expected = output->expected[i];
        if (!isfinite(actual) || !isfinite(expected)) {
            if (!same_nonfinite(actual, expected)) {
                return (struct error){INFINITY, i};
            }
            continue;
        }
        double difference = fabs(actual - expected);
        double size = metric == METRIC_ULP
                          ? difference / unit_in_last_place(expected, output->tensor->dtype)
                          : difference;
        if (size > largest) {
            largest = size;
            error.index = i;
        }
        squares += difference * difference;
        reference_squares += expected * expected;
        largest_reference = fmax(largest_reference, fabs(expected));
    }
    /* Below the normal numbers no relative bound holds; a few of the smallest steps stand in. */
    double floor = largest_reference < 1e-30 ? 1e-30 : 0;
    error.value = metric == METRIC_ULP  ? largest
                  : metric == METRIC_L2 ? sqrt(squares) / fmax(sqrt(reference_squares), floor)
                                        : largest / fmax(largest_reference, floor);
    return squares == 0 ? (struct error){0, 0} : error;
}

/* ---- checking ---- */

struct place {
    enum cpu_level level;
    int threads;
};

static void fail_output(const struct operation *operation, struct place place, int output,
                        int64_t index, const char *what) {
    const struct checked_output *checked = &operation->outputs[output];
    double expected = checked->expected != NULL ? checked->expected[index] : NAN;
    fail_msg("%s (%s), %s, %d threads: %s[%lld] = %.9g, expected %.9g: %s", operation->name,
             operation->parameters, cpu_level_name(place.level), place.threads, checked->name,
             (long long)index, tensor_value(checked->tensor, index), expected, what);
}

static void check_values(const struct operation *operation, struct place place) {
    const struct tolerance *tolerance = tolerance_of(operation->name);
    for (int i = 0; i < operation->output_count; i++) {
        const struct checked_output *output = &operation->outputs[i];
        if (output->expected == NULL) {
            continue;
        }
        double limit = output->tensor->dtype == DTYPE_F32 ? tolerance->f32 : tolerance->bf16;
        struct error error = error_of(output, tolerance->metric);
        /* Written so that a NaN fails. */
        if (!(error.value <= limit)) {
            char what[HARNESS_TEXT_BYTES];
            snprintf(what, sizeof what, "error %.3g above %.3g (%s)", error.value, limit,
                     tolerance->reason);
            fail_output(operation, place, i, error.index, what);
        }
    }
}

static void check_bits(const struct operation *operation, struct place place,
                       void *const first[HARNESS_OUTPUTS_MAX], const char *what) {
    for (int i = 0; i < operation->output_count; i++) {
        const struct tensor *tensor = operation->outputs[i].tensor;
        int64_t size = dtype_bytes(tensor->dtype);
        for (int64_t j = 0; j < tensor->count; j++) {
            if (memcmp((char *)tensor->data + j * size, (char *)first[i] + j * size,
                       (size_t)size) != 0) {
                fail_output(operation, place, i, j, what);
            }
        }
    }
}

static void copy_outputs(const struct operation *operation, void *saved[HARNESS_OUTPUTS_MAX],
                         bool restore) {
    for (int i = 0; i < operation->output_count; i++) {
        struct tensor *tensor = operation->outputs[i].tensor;
        size_t bytes = (size_t)(tensor->count * dtype_bytes(tensor->dtype));
        if (saved[i] == NULL) {
            saved[i] = malloc(bytes + 1);
            assert_non_null(saved[i]);
        }
        memcpy(restore ? tensor->data : saved[i], restore ? saved[i] : tensor->data, bytes);
    }
}

/* Pools are started once: thousands of small runs should not each start threads. */
static struct pool *pool_of(int threads) {
    static struct pool pools[THREADS_CHECKED];
    struct pool *pool = &pools[threads - 1];
    struct fault fault;
    if (pool->thread_count == 0) {
        assert_int_equal(pool_init(pool, threads, &fault), OK);
    }
    return pool;
}

static void run_at(const struct operation *operation, struct place place) {
    struct kernel_table table;
    kernel_table_init(&table, place.level);
    struct compute compute = {.table = &table, .pool = pool_of(place.threads)};
    operation->run(&compute, operation->context);
    for (int i = 0; i < operation->output_count; i++) {
        assert_true(guards_stand(operation->outputs[i].tensor));
    }
}

void operation_check(struct operation *operation) {
    ASSERT(operation->output_count <= HARNESS_OUTPUTS_MAX);
    void *before[HARNESS_OUTPUTS_MAX] = {NULL};
    void *first[HARNESS_OUTPUTS_MAX] = {NULL};
    copy_outputs(operation, before, false);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        for (int threads = 1; cpu_level_runs(level) && threads <= THREADS_CHECKED; threads++) {
            struct place place = {(enum cpu_level)level, threads};
            copy_outputs(operation, before, true);
            run_at(operation, place);
            if (level != CPU_SCALAR && operation->same_at_all_levels) {
                check_bits(operation, place, first, "other bits than the scalar kernel");
            } else if (threads == 1) {
                copy_outputs(operation, first, false);
                check_values(operation, place);
            } else {
                check_bits(operation, place, first, "other bits than one thread");
            }
        }
    }
    copy_outputs(operation, before, true);
    for (int i = 0; i < operation->output_count; i++) {
        free(before[i]);
        free(first[i]);
    }
}

void operation_describe(struct operation *operation, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(operation->parameters, sizeof operation->parameters, format, arguments);
    va_end(arguments);
}

void gradient_check(const char *name, double (*loss)(const double *x, void *context), void *context,
                    const double *x, const double *gradient, int64_t count) {
    double *moved = malloc((size_t)count * sizeof *moved);
    assert_non_null(moved);
    memcpy(moved, x, (size_t)count * sizeof *moved);
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(gradient[i]));
    }
    int64_t step = count > GRADIENTS_CHECKED ? count / GRADIENTS_CHECKED : 1;
    for (int64_t i = 0; i < count; i += step) {
        double h = 1e-5 * fmax(1, fabs(x[i]));
        moved[i] = x[i] + h;
        double above = loss(moved, context);
        moved[i] = x[i] - h;
        double below = loss(moved, context);
        moved[i] = x[i];
        double slope = (above - below) / (2 * h);
        if (!(fabs(slope - gradient[i]) <= 1e-6 * fmax(1e-3, largest))) {
            fail_msg("%s: gradient[%lld] = %.12g, differences say %.12g", name, (long long)i,
                     gradient[i], slope);
        }
    }
    free(moved);
}

/* ---- timing ---- */

static enum cpu_level lone_level = CPU_LEVEL_COUNT; /* CPU_LEVEL_COUNT: every one */

bool harness_benches(int argument_count, char **arguments) {
    if (argument_count > 2) {
        ASSERT(cpu_level_parse(arguments[2], &lone_level));
    }
    return argument_count > 1 && strcmp(arguments[1], "--bench") == 0;
}

static bool is_timed(enum cpu_level level) {
    return cpu_level_runs(level) && (lone_level == CPU_LEVEL_COUNT || lone_level == level);
}

static int compare_times(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int time_repeats(struct operation *operation, const struct compute *compute,
                        int64_t times[REPEATS_MAX]) {
    int count = 0;
    operation->run(compute, operation->context);
    int64_t start = clock_monotonic_ns();
    while (count < REPEATS_MIN ||
           (count < REPEATS_MAX && clock_monotonic_ns() - start < BENCH_NS)) {
        int64_t before = clock_monotonic_ns();
        operation->run(compute, operation->context);
        times[count++] = clock_monotonic_ns() - before;
    }
    qsort(times, (size_t)count, sizeof *times, compare_times);
    return count;
}

static void print_times(const struct operation *operation, struct place place, const int64_t *times,
                        int count, const double work[2]) {
    double least = (double)times[0];
    double median = (double)times[count / 2];
    printf("%-20s %-34s %-11s %d  min %9.1f us  median %9.1f us", operation->name,
           operation->parameters, cpu_level_name(place.level), place.threads, least / 1e3,
           median / 1e3);
    if (work[0] > 0) {
        printf("  %7.1f GB/s", work[0] / least);
    }
    if (work[1] > 0) {
        printf("  %7.1f GFLOP/s", work[1] / least);
    }
    printf("\n");
}

void operation_bench(struct operation *operation, double bytes, double flops) {
    const double work[2] = {bytes, flops};
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        for (int threads = 1; is_timed((enum cpu_level)level) && threads <= THREADS_TIMED;
             threads++) {
            struct kernel_table table;
            int64_t times[REPEATS_MAX];
            kernel_table_init(&table, (enum cpu_level)level);
            struct compute compute = {.table = &table, .pool = pool_of(threads)};
            int count = time_repeats(operation, &compute, times);
            print_times(operation, (struct place){(enum cpu_level)level, threads}, times, count,
                        work);
        }
    }
}
