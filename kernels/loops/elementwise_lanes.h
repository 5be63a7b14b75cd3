/* elementwise lanes: the elementwise kernels over vectors; included once for each instruction set,
 * after its lanes header. */
#ifndef SKEP_KERNELS_LOOPS_ELEMENTWISE_LANES_H
#define SKEP_KERNELS_LOOPS_ELEMENTWISE_LANES_H

#include "kernels/loops/element.h"
#include "kernels/loops/elementwise.h"

#include <string.h>

/* Processes `count` elements from `index` on; count is at most one vector. */
typedef void element_step(const struct elementwise_buffers *buffers, enum dtype dtype,
                          int64_t index, int64_t count);

ALWAYS_INLINE void run_steps(element_step *step, const struct elementwise_buffers *buffers,
                             enum dtype dtype, int64_t first, int64_t end) {
    int64_t i = first;
    for (; i + LANES <= end; i += LANES) {
        step(buffers, dtype, i, LANES);
    }
    if (i < end) {
        step(buffers, dtype, i, end - i);
    }
}

/* This function is inlined with a constant `step`, so that the loop for each dtype has no
 * branches. */
ALWAYS_INLINE void run_for_dtype(element_step *step, const struct elementwise_buffers *buffers,
                                 int64_t first, int64_t count) {
    if (buffers->dtype == DTYPE_BF16) {
        run_steps(step, buffers, DTYPE_BF16, first, first + count);
    } else {
        run_steps(step, buffers, DTYPE_F32, first, first + count);
    }
}

ALWAYS_INLINE void add_step(const struct elementwise_buffers *buffers, enum dtype dtype,
                            int64_t index, int64_t count) {
    lanes a = lanes_load(dtype, buffers->in[0], index, count);
    lanes b = lanes_load(dtype, buffers->in[1], index, count);
    lanes_store(dtype, buffers->out[0], index, count, a + b);
}

static void add_lanes(const struct elementwise_buffers *buffers, int64_t first, int64_t count) {
    run_for_dtype(add_step, buffers, first, count);
}

/* The logistic function and its complement, computed from exp(-|x|) as in
 * kernels/loops/elementwise.c. */
struct logistic {
    lanes value, complement; /* 1 / (1 + exp(-x)), and 1 minus it */
};

ALWAYS_INLINE struct logistic compute_logistic(lanes x) {
    lanes power = lanes_exp(-lanes_abs(x));
    lanes larger = 1.0f / (1.0f + power);
    lanes smaller = power * larger;
    return (struct logistic){lanes_select_by_sign(x, smaller, larger),
                             lanes_select_by_sign(x, larger, smaller)};
}

ALWAYS_INLINE void swiglu_forward_step(const struct elementwise_buffers *buffers, enum dtype dtype,
                                       int64_t index, int64_t count) {
    lanes gate = lanes_load(dtype, buffers->in[0], index, count);
    lanes up = lanes_load(dtype, buffers->in[1], index, count);
    lanes_store(dtype, buffers->out[0], index, count, gate * compute_logistic(gate).value * up);
}

static void swiglu_forward_lanes(const struct elementwise_buffers *buffers, int64_t first,
                                 int64_t count) {
    run_for_dtype(swiglu_forward_step, buffers, first, count);
}

ALWAYS_INLINE void swiglu_backward_step(const struct elementwise_buffers *buffers, enum dtype dtype,
                                        int64_t index, int64_t count) {
    lanes dout = lanes_load(dtype, buffers->in[0], index, count);
    lanes gate = lanes_load(dtype, buffers->in[1], index, count);
    lanes up = lanes_load(dtype, buffers->in[2], index, count);
    struct logistic s = compute_logistic(gate);
    lanes silu = gate * s.value;
    lanes slope = lanes_fma(silu, s.complement, s.value);
    lanes_store(dtype, buffers->out[0], index, count, dout * up * slope);
    lanes_store(dtype, buffers->out[1], index, count, dout * silu);
}

static void swiglu_backward_lanes(const struct elementwise_buffers *buffers, int64_t first,
                                  int64_t count) {
    run_for_dtype(swiglu_backward_step, buffers, first, count);
}

ALWAYS_INLINE void gelu_forward_step(const struct elementwise_buffers *buffers, enum dtype dtype,
                                     int64_t index, int64_t count) {
    lanes x = lanes_load(dtype, buffers->in[0], index, count);
    lanes bent = lanes_fma(x * x, lanes_broadcast(GELU_B), lanes_broadcast(GELU_A));
    lanes_store(dtype, buffers->out[0], index, count, x * compute_logistic(x * bent).value);
}

static void gelu_forward_lanes(const struct elementwise_buffers *buffers, int64_t first,
                               int64_t count) {
    run_for_dtype(gelu_forward_step, buffers, first, count);
}

ALWAYS_INLINE void gelu_backward_step(const struct elementwise_buffers *buffers, enum dtype dtype,
                                      int64_t index, int64_t count) {
    lanes dout = lanes_load(dtype, buffers->in[0], index, count);
    lanes x = lanes_load(dtype, buffers->in[1], index, count);
    lanes square = x * x;
    lanes bent = lanes_fma(square, lanes_broadcast(GELU_B), lanes_broadcast(GELU_A));
    lanes rise = x * lanes_fma(square, lanes_broadcast(3.0f * GELU_B), lanes_broadcast(GELU_A));
    struct logistic s = compute_logistic(x * bent);
    lanes slope = lanes_fma(s.value * s.complement, rise, s.value);
    lanes_store(dtype, buffers->out[0], index, count, dout * slope);
}

static void gelu_backward_lanes(const struct elementwise_buffers *buffers, int64_t first,
                                int64_t count) {
    run_for_dtype(gelu_backward_step, buffers, first, count);
}

static void narrow_lanes(const float *in, uint16_t *out, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) {
        lanes_store(DTYPE_BF16, out, i, count - i, lanes_load(DTYPE_F32, in, i, count - i));
    }
}

static void widen_lanes(const uint16_t *in, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) {
        lanes_store(DTYPE_F32, out, i, count - i, lanes_load(DTYPE_BF16, in, i, count - i));
    }
}

/* The sums of up to four vectors of columns stay in registers. */
ALWAYS_INLINE void sum_column_block(const struct column_sum_args *args, enum dtype dtype,
                                    const void *x, int64_t rows, int64_t column, float *sums) {
    struct wide_lanes totals[4] = {wide_zero(), wide_zero(), wide_zero(), wide_zero()};
    int64_t left = args->columns - column;
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = row * args->stride + column;
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) {
            lanes value = lanes_load(dtype, x, at + v * LANES, left - v * LANES);
            totals[v] = wide_add(totals[v], value);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        if (left > v * LANES) {
            lanes_store(DTYPE_F32, sums, column + v * LANES, left - v * LANES,
                        wide_round(totals[v]));
        }
    }
}

static void column_sum_lanes(const struct column_sum_args *args, const void *x, int64_t rows,
                             float *sums) {
    for (int64_t column = 0; column < args->columns; column += 4 * LANES) {
        if (args->dtype == DTYPE_BF16) {
            sum_column_block(args, DTYPE_BF16, x, rows, column, sums);
        } else {
            sum_column_block(args, DTYPE_F32, x, rows, column, sums);
        }
    }
}

ALWAYS_INLINE void rotate_head(const struct rope_args *args, enum dtype dtype, const float *cosines,
                               const void *in, void *out) {
    int64_t half = args->rotary_dim / 2;
    lanes sign = lanes_broadcast(args->inverse ? -1.0f : 1.0f);
    for (int64_t i = 0; i < half; i += LANES) {
        int64_t left = half - i;
        lanes cosine = lanes_load(DTYPE_F32, cosines, i, left);
        lanes sine = lanes_load(DTYPE_F32, cosines, half + i, left) * sign;
        lanes first = lanes_load(dtype, in, i, left);
        lanes second = lanes_load(dtype, in, half + i, left);
        lanes_store(dtype, out, i, left, first * cosine - second * sine);
        lanes_store(dtype, out, half + i, left, second * cosine + first * sine);
    }
    for (int64_t i = args->rotary_dim; in != out && i < args->head_dim; i += LANES) {
        int64_t left = args->head_dim - i;
        lanes_store(dtype, out, i, left, lanes_load(dtype, in, i, left));
    }
}

ALWAYS_INLINE void rotate_token(const struct rope_buffers *buffers, enum dtype dtype,
                                int64_t token) {
    const struct rope_args *args = buffers->args;
    const float *cosines = buffers->table + buffers->positions[token] * args->rotary_dim;
    for (int64_t head = 0; head < args->heads; head++) {
        int64_t inside = head * args->head_dim;
        rotate_head(
            args, dtype, cosines,
            element_address(buffers->in, dtype, token * args->in_stride + inside),
            element_address_mutable(buffers->out, dtype, token * args->out_stride + inside));
    }
}

static void rope_lanes(const struct rope_buffers *buffers, int64_t first, int64_t count) {
    bool narrow = buffers->args->dtype == DTYPE_BF16;
    for (int64_t token = first; narrow && token < first + count; token++) {
        rotate_token(buffers, DTYPE_BF16, token);
    }
    for (int64_t token = first; !narrow && token < first + count; token++) {
        rotate_token(buffers, DTYPE_F32, token);
    }
}

ALWAYS_INLINE void elementwise_lanes_init(struct elementwise_kernels *kernels) {
    kernels->add = add_lanes;
    kernels->swiglu_forward = swiglu_forward_lanes;
    kernels->swiglu_backward = swiglu_backward_lanes;
    kernels->gelu_forward = gelu_forward_lanes;
    kernels->gelu_backward = gelu_backward_lanes;
    kernels->narrow = narrow_lanes;
    kernels->widen = widen_lanes;
    kernels->column_sum = column_sum_lanes;
    kernels->rope = rope_lanes;
}

#endif
