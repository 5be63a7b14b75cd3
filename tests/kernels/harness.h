/* harness: one way to check and to time every kernel: the same inputs through every instruction set
 * of this machine and several thread counts, against a reference in fp64 that the test computes. */
#ifndef SKEP_TESTS_KERNELS_HARNESS_H
#define SKEP_TESTS_KERNELS_HARNESS_H

#include "base/dtype.h"
#include "kernels/compute.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HARNESS_OUTPUTS_MAX = 6, HARNESS_TEXT_BYTES = 200 };

/* What the values of an input are like. All but the first look for arithmetic that only holds near
 * one. */
enum pattern {
    PATTERN_NORMAL,   /* standard normal */
    PATTERN_ZERO,     /* zeros of both signs */
    PATTERN_DENORMAL, /* below the smallest normal number */
    PATTERN_LARGE,    /* up to 2^20 */
    PATTERN_MIXED,    /* normal, times a power of two from 2^-30 to 2^10 */
    PATTERN_COUNT
};
const char *pattern_name(enum pattern pattern);

/* A buffer that kernels see, and the exact value of each element as it was filled. Starts on 64
 * bytes; bytes before and after are guarded. */
struct tensor {
    enum dtype dtype;
    int64_t count;
    void *data;
    double *exact;
};

struct tensor tensor_random(enum dtype dtype, int64_t count, enum pattern pattern, uint64_t seed);
struct tensor tensor_integers(int64_t count, int32_t below, uint64_t seed); /* i32, [0, below) */
struct tensor tensor_zeros(enum dtype dtype, int64_t count);
/* tensor_unset: for outputs that are overwritten and for workspaces; filled with NaN. */
struct tensor tensor_unset(enum dtype dtype, int64_t count);
struct tensor workspace_of(uint64_t bytes);
double tensor_value(const struct tensor *tensor, int64_t index); /* as it stands now */
void tensor_free(struct tensor *tensor); /* fails the test when a guard was overwritten */

/* One buffer that the operation writes, and what it must hold afterwards. */
struct checked_output {
    const char *name;
    struct tensor *tensor;  /* what it holds before is put back before each run */
    const double *expected; /* tensor->count values; NULL: only the bits of runs are compared */
};

struct operation {
    const char *name;                    /* a row of the tolerance table in harness.c */
    char parameters[HARNESS_TEXT_BYTES]; /* shape, pattern, seed: printed when a check fails */
    void (*run)(const struct compute *compute, void *context);
    void *context;
    bool same_at_all_levels; /* the bits of every level must equal those of the scalar one */
    int output_count;
    struct checked_output outputs[HARNESS_OUTPUTS_MAX];
};

/* operation_describe: write the parameters, printf-like. */
void operation_describe(struct operation *operation, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* operation_check: run at every level of this machine with 1, 2 and 3 threads. One thread's outputs
 * must agree with `expected` within the tolerance; the other thread counts' must be the same
 * bits. */
void operation_check(struct operation *operation);

/* gradient_check: compare gradient[count] with central differences of `loss`, all in fp64, at up to
 * 64 of the elements of x. The reference of a backward operation passes through here first. */
void gradient_check(const char *name, double (*loss)(const double *x, void *context), void *context,
                    const double *x, const double *gradient, int64_t count);

/* harness_benches: whether the command line says --bench; a level's name after it times that
 * one. */
bool harness_benches(int argument_count, char **arguments);

/* operation_bench: time the operation at every level with 1 and 2 threads; print the least and the
 * median of the repeats, and `bytes` and `flops` per second where they are not 0. */
void operation_bench(struct operation *operation, double bytes, double flops);

/* harness_seed: the seed of this run: SKEP_TEST_SEED, or a fixed one. */
uint64_t harness_seed(void);

/* The sizes at which loops over vectors, their tails and their chunks go wrong. */
extern const int64_t EDGE_SIZES[];
extern const int EDGE_SIZE_COUNT;

#endif
