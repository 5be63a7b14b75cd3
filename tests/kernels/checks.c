#include "tests/kernels/checks.h"

#include "base/check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
    {"matmul", METRIC_L2, 1e-6, 2e-3, "sums in f32; one rounding in bf16"},
    {"attention", METRIC_L2, 1.5e-6, 3e-3, "sums of products around an exponential, in f32"},
    {"attention_cuda", METRIC_L2, 1.5e-6, 4e-3, "probabilities and slopes are rounded to bf16"},
    {"gradient_norm", METRIC_ULP, 0.51, 0,
     "granules sum in fp64, then exactly; shown rounded to f32"},
    {"adamw", METRIC_L2, 1e-6, 3e-3, "20 steps of a dozen roundings each"},
    {"codec", METRIC_ULP, 0, 0, "defined to the bit"},
    {"outer_step", METRIC_SCALED, 3e-7, 0, "three products and three sums that may cancel"},
    {"adamw_bf16", METRIC_L2, 1e-4, 8e-3, "a moment near a tie of bf16 may round either way"},
};

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

static void fail_output(const struct operation *operation, const char *place, int output,
                        int64_t index, const char *what) {
    const struct checked_output *checked = &operation->outputs[output];
    double expected = checked->expected != NULL ? checked->expected[index] : NAN;
    fail_msg("%s (%s), %s: %s[%lld] = %.9g, expected %.9g: %s", operation->name,
             operation->parameters, place, checked->name, (long long)index,
             tensor_value(checked->tensor, index), expected, what);
}

void check_values(const struct operation *operation, const char *place) {
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

void check_bits(const struct operation *operation, const char *place,
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

void copy_outputs(const struct operation *operation, void *saved[HARNESS_OUTPUTS_MAX],
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
