/* harness: one way to check and to time every kernel: the same inputs through every instruction set
 * of this machine and several thread counts, against a reference in fp64 that the test computes.
 *
 * With SKEP_CUDA=emulated or SKEP_CUDA=device in the environment the operations run on CUDA
 * instead, on the emulated device or on this machine's, through the same checks; those without a
 * CUDA half pass unchecked. */
#ifndef SKEP_TESTS_KERNELS_HARNESS_H
#define SKEP_TESTS_KERNELS_HARNESS_H

#include "build_config.h"
#include "kernels/kernels.h"
#include "tests/kernels/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HARNESS_OUTPUTS_MAX = 6, HARNESS_TEXT_BYTES = 200 };

/* One buffer that the operation writes, and what it must hold afterwards. */
struct checked_output {
    const char *name;
    struct tensor *tensor;  /* what it holds before is put back before each run */
    const double *expected; /* tensor->count values; NULL: only the bits of runs are compared */
};

/* What the CUDA half of an operation is given: tests/kernels/device.h. A build without CUDA has
 * none: .run_cuda = ON_CUDA(run_norm_cuda), and that function within #if SKEP_CUDA. */
struct cuda_compute;
struct device_run;
#if SKEP_CUDA
#define ON_CUDA(function) function
#else
#define ON_CUDA(function) NULL
#endif

struct operation {
    const char *name;                    /* a row of the tolerance table in checks.c */
    char parameters[HARNESS_TEXT_BYTES]; /* shape, pattern, seed: printed when a check fails */
    void (*run)(const struct compute *compute, void *context);
    void (*run_cuda)(const struct cuda_compute *compute, struct device_run *device, void *context);
    void *context;
    bool same_at_all_levels; /* the bits of every level must equal those of the scalar one */
    int64_t cuda_align;      /* bytes that the CUDA half needs its tensors on; 0: an element's */
    int output_count;
    struct checked_output outputs[HARNESS_OUTPUTS_MAX];
};

/* operation_describe: write the parameters, printf-like. */
void operation_describe(struct operation *operation, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* operation_check: run at every level of this machine with 1, 2 and 3 threads. One thread's outputs
 * must agree with `expected` within the tolerance; the other thread counts' must be the same
 * bits. On a device: twice with tensors on 256 bytes, then twice with tensors aligned no better
 * than their elements (or cuda_align); the second of two runs must give the same bits. */
void operation_check(struct operation *operation);

/* gradient_check: compare gradient[count] with central differences of `loss`, all in fp64, at up to
 * 64 of the elements of x. The reference of a backward operation passes through here first. */
void gradient_check(const char *name, double (*loss)(const double *x, void *context), void *context,
                    const double *x, const double *gradient, int64_t count);

/* harness_benches: whether the command line says --bench; a level's name after it times that
 * one. Where SKEP_CUDA=device and there is none, the process ends as a skipped test (77). */
bool harness_benches(int argument_count, char **arguments);

/* operation_bench: time the operation at every level with 1 and 2 threads; print the least and the
 * median of the repeats, and `bytes` and `flops` per second where they are not 0. On a device
 * between events, with the share of the roofline that SKEP_BANDWIDTH, SKEP_F32_FLOPS and
 * SKEP_BF16_FLOPS tell; on the emulated one nothing is timed. */
void operation_bench(struct operation *operation, double bytes, double flops);

/* harness_seed: the seed of this run: SKEP_TEST_SEED, or a fixed one. */
uint64_t harness_seed(void);

/* The sizes at which loops over vectors, their tails and their chunks go wrong. */
extern const int64_t EDGE_SIZES[];
extern const int EDGE_SIZE_COUNT;

#endif
