/* norm lanes: RMSNorm and LayerNorm over vectors; included once for each instruction set, after its
 * lanes header. */
#ifndef SKEP_KERNELS_LOOPS_NORM_LANES_H
#define SKEP_KERNELS_LOOPS_NORM_LANES_H

#include "kernels/loops/element.h"
#include "kernels/loops/norm.h"

#include <math.h>
#include <string.h>

enum { BATCH_ELEMENTS = 2048 }; /* elements of the short rows that are processed together */

/* The sum alternates between two vectors, so that an addition need not wait for the previous
 * one. */

ALWAYS_INLINE float sum_row_squares(enum dtype dtype, const void *x, int64_t dim, lanes centre) {
    lanes even = lanes_zero();
    lanes odd = lanes_zero();
    int64_t i = 0;
    for (; i + 2 * LANES <= dim; i += 2 * LANES) {
        lanes a = lanes_load(dtype, x, i, LANES) - centre;
        lanes b = lanes_load(dtype, x, i + LANES, LANES) - centre;
        even = lanes_fma(a, a, even);
        odd = lanes_fma(b, b, odd);
    }
    for (; i + LANES <= dim; i += LANES) {
        lanes a = lanes_load(dtype, x, i, LANES) - centre;
        even = lanes_fma(a, a, even);
    }
    float sum = lanes_reduce_sum(even + odd);
    for (; i < dim; i++) {
        float a = element_load(x, dtype, i) - centre[0];
        sum += a * a;
    }
    return sum;
}

ALWAYS_INLINE float sum_row(enum dtype dtype, const void *x, int64_t dim) {
    lanes even = lanes_zero();
    lanes odd = lanes_zero();
    for (int64_t i = 0; i < dim; i += 2 * LANES) {
        even += lanes_load(dtype, x, i, dim - i);
        odd += lanes_load(dtype, x, i + LANES, dim - i - LANES);
    }
    return lanes_reduce_sum(even + odd);
}

ALWAYS_INLINE float inverse_rms(float squares, const struct norm_args *args) {
    return 1.0f / sqrtf(squares / (float)args->dim + args->epsilon);
}

/* ---- rmsnorm ---- */

ALWAYS_INLINE void normalize_row(const struct norm_forward_buffers *buffers, enum dtype dtype,
                                 int64_t row) {
    int64_t dim = buffers->args->dim;
    const void *x = element_address(buffers->x, dtype, row * dim);
    void *out = element_address_mutable(buffers->out, dtype, row * dim);
    lanes factor = lanes_broadcast(buffers->inverse[row]);
    for (int64_t i = 0; i < dim; i += LANES) {
        lanes scaled = lanes_round_to_dtype(dtype, lanes_load(dtype, x, i, dim - i) * factor);
        lanes weight = lanes_load(dtype, buffers->weight, i, dim - i);
        lanes_store(dtype, out, i, dim - i, scaled * weight);
    }
}

/* Short rows are processed in batches that fit the first-level cache, so that their slow roots and
 * divisions overlap. */
ALWAYS_INLINE void rmsnorm_forward_typed(const struct norm_forward_buffers *buffers,
                                         enum dtype dtype, int64_t first, int64_t end) {
    int64_t dim = buffers->args->dim;
    int64_t batch = dim < BATCH_ELEMENTS ? BATCH_ELEMENTS / dim : 1;
    for (int64_t begin = first; begin < end; begin += batch) {
        int64_t stop = begin + batch < end ? begin + batch : end;
        for (int64_t row = begin; row < stop; row++) {
            const void *x = element_address(buffers->x, dtype, row * dim);
            float squares = sum_row_squares(dtype, x, dim, lanes_zero());
            buffers->inverse[row] = inverse_rms(squares, buffers->args);
        }
        for (int64_t row = begin; row < stop; row++) {
            normalize_row(buffers, dtype, row);
        }
    }
}

static void rmsnorm_forward_lanes(const struct norm_forward_buffers *buffers, int64_t first,
                                  int64_t count) {
    if (buffers->args->dtype == DTYPE_BF16) {
        rmsnorm_forward_typed(buffers, DTYPE_BF16, first, first + count);
    } else {
        rmsnorm_forward_typed(buffers, DTYPE_F32, first, first + count);
    }
}

static void clear_sums(const struct norm_backward_buffers *buffers, float *sums) {
    if (sums != NULL) {
        memset(sums, 0, (size_t)buffers->args->dim * sizeof *sums);
    }
}

/* Add a * b to sums[i .. i + count), unless sums is NULL. */
ALWAYS_INLINE void add_product(float *sums, int64_t i, int64_t count, lanes a, lanes b) {
    if (sums != NULL) {
        lanes sum = lanes_load(DTYPE_F32, sums, i, count);
        lanes_store(DTYPE_F32, sums, i, count, lanes_fma(a, b, sum));
    }
}

/* Store dx = dadd + gradient * inverse, unless dx is NULL. */
ALWAYS_INLINE void store_dx(const struct norm_backward_buffers *buffers, enum dtype dtype,
                            int64_t index, int64_t count, lanes gradient, lanes inverse) {
    if (buffers->dx != NULL) {
        lanes add =
            buffers->dadd != NULL ? lanes_load(dtype, buffers->dadd, index, count) : lanes_zero();
        lanes_store(dtype, buffers->dx, index, count, lanes_fma(gradient, inverse, add));
    }
}

ALWAYS_INLINE void rmsnorm_backward_row(const struct norm_backward_buffers *buffers,
                                        enum dtype dtype, int64_t row, float *dweight) {
    int64_t dim = buffers->args->dim;
    const void *x = element_address(buffers->x, dtype, row * dim);
    const void *dout = element_address(buffers->dout, dtype, row * dim);
    lanes inverse = lanes_broadcast(buffers->inverse[row]);
    lanes dot = lanes_zero();
    for (int64_t i = 0; i < dim; i += LANES) {
        lanes gradient = lanes_load(dtype, dout, i, dim - i);
        gradient = gradient * lanes_load(dtype, buffers->weight, i, dim - i);
        dot = lanes_fma(gradient, lanes_load(dtype, x, i, dim - i) * inverse, dot);
    }
    lanes mean_dot = lanes_broadcast(lanes_reduce_sum(dot) / (float)dim);
    for (int64_t i = 0; i < dim; i += LANES) {
        int64_t left = dim - i;
        lanes scaled = lanes_load(dtype, x, i, left) * inverse;
        lanes gradient = lanes_load(dtype, dout, i, left);
        add_product(dweight, i, left, gradient, scaled);
        gradient = gradient * lanes_load(dtype, buffers->weight, i, left) - scaled * mean_dot;
        store_dx(buffers, dtype, row * dim + i, left, gradient, inverse);
    }
}

static void rmsnorm_backward_lanes(const struct norm_backward_buffers *buffers, int64_t first,
                                   int64_t count, float *dweight) {
    bool narrow = buffers->args->dtype == DTYPE_BF16;
    clear_sums(buffers, dweight);
    for (int64_t row = first; narrow && row < first + count; row++) {
        rmsnorm_backward_row(buffers, DTYPE_BF16, row, dweight);
    }
    for (int64_t row = first; !narrow && row < first + count; row++) {
        rmsnorm_backward_row(buffers, DTYPE_F32, row, dweight);
    }
}

/* ---- layernorm ---- */

ALWAYS_INLINE void layernorm_forward_row(const struct norm_forward_buffers *buffers,
                                         enum dtype dtype, int64_t row) {
    int64_t dim = buffers->args->dim;
    const void *x = element_address(buffers->x, dtype, row * dim);
    void *out = element_address_mutable(buffers->out, dtype, row * dim);
    float mean = sum_row(dtype, x, dim) / (float)dim;
    lanes centre = lanes_broadcast(mean);
    float inverse = inverse_rms(sum_row_squares(dtype, x, dim, centre), buffers->args);
    lanes factor = lanes_broadcast(inverse);
    for (int64_t i = 0; i < dim; i += LANES) {
        int64_t left = dim - i;
        lanes scaled = (lanes_load(dtype, x, i, left) - centre) * factor;
        lanes weight = lanes_load(dtype, buffers->weight, i, left);
        lanes bias = lanes_load(dtype, buffers->bias, i, left);
        lanes_store(dtype, out, i, left, lanes_fma(scaled, weight, bias));
    }
    buffers->mean[row] = mean;
    buffers->inverse[row] = inverse;
}

static void layernorm_forward_lanes(const struct norm_forward_buffers *buffers, int64_t first,
                                    int64_t count) {
    bool narrow = buffers->args->dtype == DTYPE_BF16;
    for (int64_t row = first; narrow && row < first + count; row++) {
        layernorm_forward_row(buffers, DTYPE_BF16, row);
    }
    for (int64_t row = first; !narrow && row < first + count; row++) {
        layernorm_forward_row(buffers, DTYPE_F32, row);
    }
}

ALWAYS_INLINE void layernorm_backward_row(const struct norm_backward_buffers *buffers,
                                          enum dtype dtype, int64_t row, float *dweight,
                                          float *dbias) {
    int64_t dim = buffers->args->dim;
    const void *x = element_address(buffers->x, dtype, row * dim);
    const void *dout = element_address(buffers->dout, dtype, row * dim);
    lanes mean = lanes_broadcast(buffers->mean[row]);
    lanes inverse = lanes_broadcast(buffers->inverse[row]);
    lanes dot = lanes_zero();
    lanes sum = lanes_zero();
    for (int64_t i = 0; i < dim; i += LANES) {
        int64_t left = dim - i;
        lanes gradient = lanes_load(dtype, dout, i, left);
        gradient = gradient * lanes_load(dtype, buffers->weight, i, left);
        dot = lanes_fma(gradient, (lanes_load(dtype, x, i, left) - mean) * inverse, dot);
        sum += gradient;
    }
    lanes mean_dot = lanes_broadcast(lanes_reduce_sum(dot) / (float)dim);
    lanes mean_sum = lanes_broadcast(lanes_reduce_sum(sum) / (float)dim);
    for (int64_t i = 0; i < dim; i += LANES) {
        int64_t left = dim - i;
        lanes scaled = (lanes_load(dtype, x, i, left) - mean) * inverse;
        lanes gradient = lanes_load(dtype, dout, i, left);
        add_product(dweight, i, left, gradient, scaled);
        add_product(dbias, i, left, gradient, lanes_broadcast(1.0f));
        gradient = gradient * lanes_load(dtype, buffers->weight, i, left) - mean_sum;
        gradient = gradient - scaled * mean_dot;
        store_dx(buffers, dtype, row * dim + i, left, gradient, inverse);
    }
}

static void layernorm_backward_lanes(const struct norm_backward_buffers *buffers, int64_t first,
                                     int64_t count, float *dweight, float *dbias) {
    bool narrow = buffers->args->dtype == DTYPE_BF16;
    clear_sums(buffers, dweight);
    clear_sums(buffers, dbias);
    for (int64_t row = first; narrow && row < first + count; row++) {
        layernorm_backward_row(buffers, DTYPE_BF16, row, dweight, dbias);
    }
    for (int64_t row = first; !narrow && row < first + count; row++) {
        layernorm_backward_row(buffers, DTYPE_F32, row, dweight, dbias);
    }
}

static const struct norm_kernels norm_lanes = {
    .rmsnorm_forward = rmsnorm_forward_lanes,
    .rmsnorm_backward = rmsnorm_backward_lanes,
    .layernorm_forward = layernorm_forward_lanes,
    .layernorm_backward = layernorm_backward_lanes,
};

#endif
