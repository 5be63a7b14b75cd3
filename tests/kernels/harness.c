#include "tests/kernels/harness.h"

#include "base/check.h"
#include "base/clock.h"
#include "kernels/cpu/cpu.h"
#include "tests/kernels/checks.h"
#include "tests/kernels/device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS_CHECKED = 3, THREADS_TIMED = 2, SUBJECT_BYTES = 40 };
enum { REPEATS_MIN = 7, REPEATS_MAX = 200, GRADIENTS_CHECKED = 64, SKIPPED = 77 };
static const int64_t BENCH_NS = 300000000;

const int64_t EDGE_SIZES[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 64, 65, 127, 256, 1000};
const int EDGE_SIZE_COUNT = ARRAY_COUNT(EDGE_SIZES);

uint64_t harness_seed(void) {
    const char *text = getenv("SKEP_TEST_SEED");
    return text != NULL ? strtoull(text, NULL, 0) : 20260117;
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

struct place {
    enum cpu_level level;
    int threads;
};

static void run_at(const struct operation *operation, struct place place) {
    struct kernel_table table;
    kernel_table_init(&table, place.level);
    struct compute compute = {.table = &table, .pool = pool_of(place.threads)};
    operation->run(&compute, operation->context);
    for (int i = 0; i < operation->output_count; i++) {
        assert_true(tensor_guards_stand(operation->outputs[i].tensor));
    }
}

static void check_at(const struct operation *operation, struct place place,
                     void *first[HARNESS_OUTPUTS_MAX]) {
    char name[SUBJECT_BYTES];
    snprintf(name, sizeof name, "%s, %d threads", cpu_level_name(place.level), place.threads);
    run_at(operation, place);
    if (place.level != CPU_SCALAR && operation->same_at_all_levels) {
        check_bits(operation, name, first, "other bits than the scalar kernel");
    } else if (place.threads == 1) {
        copy_outputs(operation, first, false);
        check_values(operation, name);
    } else {
        check_bits(operation, name, first, "other bits than one thread");
    }
}

void operation_check(struct operation *operation) {
    ASSERT(operation->output_count <= HARNESS_OUTPUTS_MAX);
    if (device_is_wanted()) {
        device_check(operation);
        return;
    }
    void *before[HARNESS_OUTPUTS_MAX] = {NULL};
    void *first[HARNESS_OUTPUTS_MAX] = {NULL};
    copy_outputs(operation, before, false);
    for (int level = 0; level < CPU_LEVEL_COUNT; level++) {
        for (int threads = 1; cpu_supports_level(level) && threads <= THREADS_CHECKED; threads++) {
            copy_outputs(operation, before, true);
            check_at(operation, (struct place){(enum cpu_level)level, threads}, first);
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
    if (device_is_wanted() && !device_open()) {
        exit(SKIPPED);
    }
    return argument_count > 1 && strcmp(arguments[1], "--bench") == 0;
}

static bool is_timed(enum cpu_level level) {
    return cpu_supports_level(level) && (lone_level == CPU_LEVEL_COUNT || lone_level == level);
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
    if (device_is_wanted()) {
        device_bench(operation, work);
        return;
    }
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
