#include "kernels/loops/norm.h"

#include "kernels/loops/element.h"

#include <math.h>

/* The sums over a row are computed in fp64 in a fixed order; their rounding error is negligible. */

static void rmsnorm_forward_row(const struct norm_forward_buffers *buffers, int64_t row) {
    const struct norm_args *args = buffers->args;
    enum dtype dtype = args->dtype;
    const void *x = element_address(buffers->x, dtype, row * args->dim);
    void *out = element_address_mutable(buffers->out, dtype, row * args->dim);
    double squares = 0;
    for (int64_t i = 0; i < args->dim; i++) {
        double value = (double)element_load(x, dtype, i);
        squares += value * value;
    }
    float inverse = 1.0f / sqrtf((float)(squares / (double)args->dim) + args->epsilon);
    for (int64_t i = 0; i < args->dim; i++) {
        float scaled = element_round(element_load(x, dtype, i) * inverse, dtype);
        element_store(out, dtype, i, scaled * element_load(buffers->weight, dtype, i));
    }
    buffers->inverse[row] = inverse;
}

static void rmsnorm_forward_rows(const struct norm_forward_buffers *buffers, int64_t first,
                                 int64_t count) {
    for (int64_t row = first; row < first + count; row++) {
        rmsnorm_forward_row(buffers, row);
    }
}

static void clear_sums(const struct norm_backward_buffers *buffers, float *sums) {
    if (sums != NULL) {
        memset(sums, 0, (size_t)buffers->args->dim * sizeof *sums);
    }
}

static void add_to_sum(float *sums, int64_t index, float value) {
    if (sums != NULL) {
        sums[index] += value;
    }
}

static void store_dx(const struct norm_backward_buffers *buffers, int64_t at, float value) {
    enum dtype dtype = buffers->args->dtype;
    float add = buffers->dadd != NULL ? element_load(buffers->dadd, dtype, at) : 0.0f;
    if (buffers->dx != NULL) {
        element_store(buffers->dx, dtype, at, add + value);
    }
}

static void rmsnorm_backward_row(const struct norm_backward_buffers *buffers, int64_t row,
                                 float *dweight) {
    const struct norm_args *args = buffers->args;
    enum dtype dtype = args->dtype;
    const void *x = element_address(buffers->x, dtype, row * args->dim);
    const void *dout = element_address(buffers->dout, dtype, row * args->dim);
    float inverse = buffers->inverse[row];
    double dot = 0;
    for (int64_t i = 0; i < args->dim; i++) {
        float gradient = element_load(dout, dtype, i) * element_load(buffers->weight, dtype, i);
        dot += (double)gradient * (double)(element_load(x, dtype, i) * inverse);
    }
    float mean_dot = (float)(dot / (double)args->dim);
    for (int64_t i = 0; i < args->dim; i++) {
        int64_t at = row * args->dim + i;
        float scaled = element_load(x, dtype, i) * inverse;
        float gradient = element_load(dout, dtype, i);
        add_to_sum(dweight, i, gradient * scaled);
        gradient = gradient * element_load(buffers->weight, dtype, i) - scaled * mean_dot;
        store_dx(buffers, at, gradient * inverse);
    }
}

static void rmsnorm_backward_rows(const struct norm_backward_buffers *buffers, int64_t first,
                                  int64_t count, float *dweight) {
    clear_sums(buffers, dweight);
    for (int64_t row = first; row < first + count; row++) {
        rmsnorm_backward_row(buffers, row, dweight);
    }
}

static void layernorm_forward_row(const struct norm_forward_buffers *buffers, int64_t row) {
    const struct norm_args *args = buffers->args;
    enum dtype dtype = args->dtype;
    const void *x = element_address(buffers->x, dtype, row * args->dim);
    void *out = element_address_mutable(buffers->out, dtype, row * args->dim);
    double sum = 0;
    for (int64_t i = 0; i < args->dim; i++) {
        sum += (double)element_load(x, dtype, i);
    }
    double mean = sum / (double)args->dim;
    double squares = 0;
    for (int64_t i = 0; i < args->dim; i++) {
        double centred = (double)element_load(x, dtype, i) - mean;
        squares += centred * centred;
    }
    buffers->mean[row] = (float)mean;
    float inverse = 1.0f / sqrtf((float)(squares / (double)args->dim) + args->epsilon);
    for (int64_t i = 0; i < args->dim; i++) {
        float scaled = (element_load(x, dtype, i) - buffers->mean[row]) * inverse;
        float weighted = scaled * element_load(buffers->weight, dtype, i);
        element_store(out, dtype, i, weighted + element_load(buffers->bias, dtype, i));
    }
    buffers->inverse[row] = inverse;
}

static void layernorm_forward_rows(const struct norm_forward_buffers *buffers, int64_t first,
                                   int64_t count) {
    for (int64_t row = first; row < first + count; row++) {
        layernorm_forward_row(buffers, row);
    }
}

static void layernorm_backward_row(const struct norm_backward_buffers *buffers, int64_t row,
                                   float *dweight, float *dbias) {
    const struct norm_args *args = buffers->args;
    enum dtype dtype = args->dtype;
    const void *x = element_address(buffers->x, dtype, row * args->dim);
    const void *dout = element_address(buffers->dout, dtype, row * args->dim);
    float mean = buffers->mean[row];
    float inverse = buffers->inverse[row];
    double sum = 0;
    double dot = 0;
    for (int64_t i = 0; i < args->dim; i++) {
        float gradient = element_load(dout, dtype, i) * element_load(buffers->weight, dtype, i);
        sum += (double)gradient;
        dot += (double)gradient * (double)((element_load(x, dtype, i) - mean) * inverse);
    }
    float mean_sum = (float)(sum / (double)args->dim);
    float mean_dot = (float)(dot / (double)args->dim);
    for (int64_t i = 0; i < args->dim; i++) {
        int64_t at = row * args->dim + i;
        float scaled = (element_load(x, dtype, i) - mean) * inverse;
        float gradient = element_load(dout, dtype, i);
        add_to_sum(dweight, i, gradient * scaled);
        add_to_sum(dbias, i, gradient);
        gradient =
            gradient * element_load(buffers->weight, dtype, i) - mean_sum - scaled * mean_dot;
        store_dx(buffers, at, gradient * inverse);
    }
}

static void layernorm_backward_rows(const struct norm_backward_buffers *buffers, int64_t first,
                                    int64_t count, float *dweight, float *dbias) {
    clear_sums(buffers, dweight);
    clear_sums(buffers, dbias);
    for (int64_t row = first; row < first + count; row++) {
        layernorm_backward_row(buffers, row, dweight, dbias);
    }
}

void norm_kernels_init(struct norm_kernels *kernels, enum cpu_level level) {
    *kernels = (struct norm_kernels){
        .rmsnorm_forward = rmsnorm_forward_rows,
        .rmsnorm_backward = rmsnorm_backward_rows,
        .layernorm_forward = layernorm_forward_rows,
        .layernorm_backward = layernorm_backward_rows,
    };
    OVERLAY_X86(norm, kernels, level);
}
