/* RMSNorm and LayerNorm, both ways, against their formulas in fp64. */
#include "tests/kernels/harness.h"

#include "base/check.h"
#include "kernels/norm.h"

#if SKEP_CUDA
#include "kernels/cuda/launch/norm.h"
#include "kernels/cuda/launch/workspace.h"
#include "tests/kernels/device.h"
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double EPSILON = (double)1e-5f;

struct shape {
    int64_t rows, dim;
};

/* Head-sized rows, model-sized rows, tails of vectors and of chunks of rows. */
static const struct shape SHAPES[] = {
    {1, 1},    {3, 2},    {5, 7},     {64, 15},  {65, 16},   {129, 17},
    {200, 31}, {300, 32}, {1025, 63}, {513, 64}, {130, 80},  {257, 96},
    {64, 128}, {63, 129}, {33, 768},  {7, 1000}, {35, 1500}, {20, 6000},
};

/* Rows of one or two have a gradient near zero, all of it cancellation. */
enum { FIRST_BACKWARD = 2 };

struct norm_context {
    struct norm_args args;
    bool centred;                                 /* layernorm */
    bool add;                                     /* dadd is given */
    bool dx_absent, dweight_absent, dbias_absent; /* backward is given NULL for them */
    struct tensor x, weight, bias, dout, dadd;
    struct tensor out, mean, inverse;
    struct tensor dx, dweight, dbias;
};

/* ---- fp64 ---- */

struct row_statistics {
    double mean, inverse;
};

static struct row_statistics statistics_of(const double *x, int64_t dim, bool centred) {
    double sum = 0;
    for (int64_t i = 0; centred && i < dim; i++) {
        sum += x[i];
    }
    double mean = sum / (double)dim;
    double squares = 0;
    for (int64_t i = 0; i < dim; i++) {
        squares += (x[i] - mean) * (x[i] - mean);
    }
    return (struct row_statistics){mean, 1 / sqrt(squares / (double)dim + EPSILON)};
}

static void reference_forward(struct norm_context *norm) {
    int64_t dim = norm->args.dim;
    for (int64_t row = 0; row < norm->args.rows; row++) {
        const double *x = norm->x.exact + row * dim;
        struct row_statistics s = statistics_of(x, dim, norm->centred);
        for (int64_t i = 0; i < dim; i++) {
            double bias = norm->centred ? norm->bias.exact[i] : 0;
            norm->out.exact[row * dim + i] =
                (x[i] - s.mean) * s.inverse * norm->weight.exact[i] + bias;
        }
        norm->inverse.exact[row] = s.inverse;
        norm->mean.exact[row] = s.mean;
    }
}

/* dx[dim], and what the row adds to dweight and dbias. */
static void backward_row(const struct norm_context *norm, const double *x, const double *dout,
                         double *dx, double *dweight, double *dbias) {
    int64_t dim = norm->args.dim;
    struct row_statistics s = statistics_of(x, dim, norm->centred);
    double sum = 0;
    double dot = 0;
    for (int64_t i = 0; i < dim; i++) {
        double scaled = (x[i] - s.mean) * s.inverse;
        sum += dout[i] * norm->weight.exact[i] / (double)dim;
        dot += dout[i] * norm->weight.exact[i] * scaled / (double)dim;
        dweight[i] += dout[i] * scaled;
        dbias[i] += dout[i];
    }
    sum = norm->centred ? sum : 0;
    for (int64_t i = 0; i < dim; i++) {
        double scaled = (x[i] - s.mean) * s.inverse;
        dx[i] = (dout[i] * norm->weight.exact[i] - sum - scaled * dot) * s.inverse;
    }
}

static void reference_backward(struct norm_context *norm) {
    int64_t dim = norm->args.dim;
    for (int64_t row = 0; row < norm->args.rows; row++) {
        int64_t at = row * dim;
        backward_row(norm, norm->x.exact + at, norm->dout.exact + at, norm->dx.exact + at,
                     norm->dweight.exact, norm->dbias.exact);
        for (int64_t i = 0; norm->add && i < dim; i++) {
            norm->dx.exact[at + i] += norm->dadd.exact[at + i];
        }
    }
}

/* ---- the kernels ---- */

static void run_forward(const struct compute *compute, void *context) {
    struct norm_context *norm = context;
    if (norm->centred) {
        layernorm_forward(compute, &norm->args, norm->x.data, norm->weight.data, norm->bias.data,
                          norm->out.data, norm->mean.data, norm->inverse.data);
    } else {
        rmsnorm_forward(compute, &norm->args, norm->x.data, norm->weight.data, norm->out.data,
                        norm->inverse.data);
    }
}

static void run_backward(const struct compute *compute, void *context) {
    struct norm_context *norm = context;
    struct tensor workspace =
        workspace_of(norm_backward_workspace_bytes(&norm->args, compute->pool->thread_count));
    /* dx holds dadd already: the common use is in place. */
    const void *dadd = norm->add ? norm->dx.data : NULL;
    void *dx = norm->dx_absent ? NULL : norm->dx.data;
    float *dweight = norm->dweight_absent ? NULL : norm->dweight.data;
    float *dbias = norm->dbias_absent ? NULL : norm->dbias.data;
    if (norm->centred) {
        layernorm_backward(compute, &norm->args, norm->dout.data, norm->x.data, norm->weight.data,
                           norm->mean.data, norm->inverse.data, dadd, dx, dweight, dbias,
                           workspace.data);
    } else {
        rmsnorm_backward(compute, &norm->args, norm->dout.data, norm->x.data, norm->weight.data,
                         norm->inverse.data, dadd, dx, dweight, workspace.data);
    }
    tensor_free(&workspace);
}

#if SKEP_CUDA
static void run_forward_cuda(const struct cuda_compute *compute, struct device_run *device,
                             void *context) {
    struct norm_context *norm = context;
    const void *x = device_of(device, &norm->x);
    const void *weight = device_of(device, &norm->weight);
    void *out = device_of(device, &norm->out);
    float *inverse = device_of(device, &norm->inverse);
    if (norm->centred) {
        cuda_layernorm_forward(compute, &norm->args, x, weight, device_of(device, &norm->bias), out,
                               device_of(device, &norm->mean), inverse);
    } else {
        cuda_rmsnorm_forward(compute, &norm->args, x, weight, out, inverse);
    }
}

static void run_backward_cuda(const struct cuda_compute *compute, struct device_run *device,
                              void *context) {
    struct norm_context *norm = context;
    const void *dout = device_of(device, &norm->dout);
    const void *x = device_of(device, &norm->x);
    const void *weight = device_of(device, &norm->weight);
    const float *inverse = device_of(device, &norm->inverse);
    const void *dadd = norm->add ? device_of(device, &norm->dx) : NULL;
    void *dx = norm->dx_absent ? NULL : device_of(device, &norm->dx);
    float *dweight = norm->dweight_absent ? NULL : device_of(device, &norm->dweight);
    float *dbias = norm->dbias_absent ? NULL : device_of(device, &norm->dbias);
    void *workspace =
        device_workspace(device, cuda_norm_backward_workspace_bytes(&norm->args, NULL));
    if (norm->centred) {
        cuda_layernorm_backward(compute, &norm->args, dout, x, weight,
                                device_of(device, &norm->mean), inverse, dadd, dx, dweight, dbias,
                                workspace);
    } else {
        cuda_rmsnorm_backward(compute, &norm->args, dout, x, weight, inverse, dadd, dx, dweight,
                              workspace);
    }
}
#endif

static struct norm_context context_of(struct shape shape, enum dtype dtype, bool centred,
                                      enum pattern pattern) {
    uint64_t seed = harness_seed();
    int64_t count = shape.rows * shape.dim;
    return (struct norm_context){
        .args = {shape.rows, shape.dim, (float)EPSILON, dtype},
        .centred = centred,
        .x = tensor_random(dtype, count, pattern, seed),
        .weight = tensor_random(dtype, shape.dim, PATTERN_NORMAL, seed + 1),
        .bias = tensor_random(dtype, shape.dim, PATTERN_NORMAL, seed + 2),
        .dout = tensor_random(dtype, count, PATTERN_NORMAL, seed + 3),
        .dadd = tensor_random(dtype, count, PATTERN_NORMAL, seed + 4),
        .out = tensor_unset(dtype, count),
        .mean = tensor_zeros(DTYPE_F32, shape.rows),
        .inverse = tensor_unset(DTYPE_F32, shape.rows),
        .dx = tensor_random(dtype, count, PATTERN_NORMAL, seed + 4),
        .dweight = tensor_random(DTYPE_F32, shape.dim, PATTERN_NORMAL, seed + 5),
        .dbias = tensor_random(DTYPE_F32, shape.dim, PATTERN_NORMAL, seed + 6),
    };
}

static void context_finish(struct norm_context *norm) {
    struct tensor *tensors[] = {&norm->x,    &norm->weight,  &norm->bias, &norm->dout,
                                &norm->dadd, &norm->out,     &norm->mean, &norm->inverse,
                                &norm->dx,   &norm->dweight, &norm->dbias};
    for (size_t i = 0; i < ARRAY_COUNT(tensors); i++) {
        tensor_free(tensors[i]);
    }
}

static struct operation operation_of(struct norm_context *norm, bool backward) {
    struct operation forward_operation = {
        .name = "norm_forward",
        .run = run_forward,
        .run_cuda = ON_CUDA(run_forward_cuda),
        .context = norm,
        .output_count = 3,
        .outputs = {{"out", &norm->out, norm->out.exact},
                    {"inverse", &norm->inverse, norm->inverse.exact},
                    {"mean", &norm->mean, norm->mean.exact}},
    };
    struct operation backward_operation = {
        .name = "norm_backward",
        .run = run_backward,
        .run_cuda = ON_CUDA(run_backward_cuda),
        .context = norm,
        .output_count = norm->centred ? 3 : 2,
        .outputs = {{"dx", &norm->dx, norm->dx.exact},
                    {"dweight", &norm->dweight, norm->dweight.exact},
                    {"dbias", &norm->dbias, norm->dbias.exact}},
    };
    struct operation operation = backward ? backward_operation : forward_operation;
    operation_describe(&operation, "%s %s %lld x %lld%s seed %llu", norm->centred ? "layer" : "rms",
                       dtype_name(norm->args.dtype), (long long)norm->args.rows,
                       (long long)norm->args.dim, norm->add ? " add" : "",
                       (unsigned long long)harness_seed());
    return operation;
}

static void check_forward(struct shape shape, enum dtype dtype, bool centred,
                          enum pattern pattern) {
    struct norm_context norm = context_of(shape, dtype, centred, pattern);
    reference_forward(&norm);
    struct operation operation = operation_of(&norm, false);
    operation_check(&operation);
    context_finish(&norm);
}

static void set_statistics(struct norm_context *norm) {
    int64_t dim = norm->args.dim;
    for (int64_t row = 0; row < norm->args.rows; row++) {
        struct row_statistics s = statistics_of(norm->x.exact + row * dim, dim, norm->centred);
        ((float *)norm->mean.data)[row] = (float)s.mean;
        ((float *)norm->inverse.data)[row] = (float)s.inverse;
    }
}

static void check_backward(struct shape shape, enum dtype dtype, bool centred, bool add) {
    struct norm_context norm = context_of(shape, dtype, centred, PATTERN_NORMAL);
    norm.add = add;
    reference_backward(&norm);
    set_statistics(&norm);
    struct operation operation = operation_of(&norm, true);
    operation_check(&operation);
    context_finish(&norm);
}

/* `made` has a bit for each of dx, dweight and dbias. */
static void check_backward_parts(enum dtype dtype, bool centred, unsigned made) {
    struct norm_context norm = context_of((struct shape){130, 80}, dtype, centred, PATTERN_NORMAL);
    norm.dx_absent = (made & 1u) == 0;
    norm.dweight_absent = (made & 2u) == 0;
    norm.dbias_absent = (made & 4u) == 0;
    reference_backward(&norm);
    set_statistics(&norm);
    struct operation operation = operation_of(&norm, true);
    int kept = 0;
    for (int i = 0; i < 3; i++) {
        if (made & 1u << i) {
            operation.outputs[kept] = operation.outputs[i];
            kept++;
        }
    }
    operation.output_count = kept;
    operation_check(&operation);
    context_finish(&norm);
}

static void norm_backward_makes_what_is_asked_when_the_rest_is_frozen(void **state) {
    (void)state;
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        for (unsigned made = 1; made < 8; made++) {
            check_backward_parts((enum dtype)dtype, true, made);
            if (made < 4) {
                check_backward_parts((enum dtype)dtype, false, made);
            }
        }
    }
}

static void check_all_forward(bool centred) {
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        for (size_t i = 0; i < ARRAY_COUNT(SHAPES); i++) {
            check_forward(SHAPES[i], (enum dtype)dtype, centred, PATTERN_NORMAL);
        }
        for (int pattern = 0; pattern < PATTERN_COUNT; pattern++) {
            check_forward((struct shape){70, 96}, (enum dtype)dtype, centred,
                          (enum pattern)pattern);
        }
    }
}

static void check_all_backward(bool centred) {
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        for (size_t i = FIRST_BACKWARD; i < ARRAY_COUNT(SHAPES); i++) {
            check_backward(SHAPES[i], (enum dtype)dtype, centred, i % 2 == 0);
        }
        /* More columns than a GPU's shared memory holds sums for. */
        check_backward((struct shape){3, 9500}, (enum dtype)dtype, centred, true);
    }
}

static void rmsnorm_forward_equals_its_formula(void **state) {
    (void)state;
    check_all_forward(false);
}

static void layernorm_forward_equals_its_formula(void **state) {
    (void)state;
    check_all_forward(true);
}

static void rmsnorm_backward_equals_its_formula(void **state) {
    (void)state;
    check_all_backward(false);
}

static void layernorm_backward_equals_its_formula(void **state) {
    (void)state;
    check_all_backward(true);
}

/* Rows of 1, 5, 1, 3 have mean square 9, so the scaled values are 1/3, 5/3 and 1; rounded to bf16,
 * 0.333984375 and 1.6640625. Times 7 and rounded again: 2.34375 and 11.625, where one rounding
 * alone would give 2.328125 and 11.6875. */
static void rmsnorm_rounds_before_the_weight_when_bf16(void **state) {
    (void)state;
    const float x[4] = {1, 5, 1, 3};
    const double expected[4] = {2.34375, 11.625, 2.34375, 7};
    const int64_t dims[] = {4, 64, 100};
    for (size_t d = 0; d < ARRAY_COUNT(dims); d++) {
        struct norm_context norm =
            context_of((struct shape){1, dims[d]}, DTYPE_BF16, false, PATTERN_NORMAL);
        norm.args.epsilon = 0;
        for (int64_t i = 0; i < dims[d]; i++) {
            ((uint16_t *)norm.x.data)[i] = bf16_from_f32(x[i % 4]);
            ((uint16_t *)norm.weight.data)[i] = bf16_from_f32(7);
            norm.out.exact[i] = expected[i % 4];
        }
        norm.inverse.exact[0] = (double)(1.0f / 3.0f);
        struct operation operation = operation_of(&norm, false);
        operation.name = "fill";
        operation_check(&operation);
        context_finish(&norm);
    }
}

struct slope_context {
    const struct norm_context *norm;
    const double *dout;
};

static double weighted_output(const double *x, void *context) {
    const struct slope_context *slope = context;
    const struct norm_context *norm = slope->norm;
    struct row_statistics s = statistics_of(x, norm->args.dim, norm->centred);
    double total = 0;
    for (int64_t i = 0; i < norm->args.dim; i++) {
        total += slope->dout[i] * (x[i] - s.mean) * s.inverse * norm->weight.exact[i];
    }
    return total;
}

static void reference_backward_equals_differences(void **state) {
    (void)state;
    for (int centred = 0; centred < 2; centred++) {
        struct norm_context norm =
            context_of((struct shape){1, 24}, DTYPE_F32, centred == 1, PATTERN_NORMAL);
        reference_backward(&norm);
        struct slope_context slope = {&norm, norm.dout.exact};
        gradient_check("norm dx", weighted_output, &slope, norm.x.exact, norm.dx.exact, 24);
        context_finish(&norm);
    }
}

static void bench(struct shape shape, enum dtype dtype, bool centred) {
    struct norm_context norm = context_of(shape, dtype, centred, PATTERN_NORMAL);
    norm.add = true;
    double bytes = (double)(shape.rows * shape.dim * dtype_bytes(dtype));
    struct operation forward = operation_of(&norm, false);
    operation_bench(&forward, 2 * bytes, 0);
    struct operation backward = operation_of(&norm, true);
    operation_bench(&backward, 4 * bytes, 0);
    context_finish(&norm);
}

int main(int argument_count, char **arguments) {
    if (harness_benches(argument_count, arguments)) {
        for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
            bench((struct shape){2048, 768}, (enum dtype)dtype, false);
            bench((struct shape){2048, 768}, (enum dtype)dtype, true);
            bench((struct shape){24576, 64}, (enum dtype)dtype, false);
        }
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rmsnorm_forward_equals_its_formula),
        cmocka_unit_test(layernorm_forward_equals_its_formula),
        cmocka_unit_test(rmsnorm_backward_equals_its_formula),
        cmocka_unit_test(layernorm_backward_equals_its_formula),
        cmocka_unit_test(norm_backward_makes_what_is_asked_when_the_rest_is_frozen),
        cmocka_unit_test(rmsnorm_rounds_before_the_weight_when_bf16),
        cmocka_unit_test(reference_backward_equals_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
