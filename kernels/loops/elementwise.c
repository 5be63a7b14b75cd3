#include "kernels/loops/elementwise.h"

#include "kernels/loops/element.h"

#include <math.h>

enum { COLUMN_BLOCK = 64 }; /* columns that are summed at a time */

static void add_elements(const struct elementwise_buffers *buffers, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        float a = element_load(buffers->in[0], buffers->dtype, i);
        float b = element_load(buffers->in[1], buffers->dtype, i);
        element_store(buffers->out[0], buffers->dtype, i, a + b);
    }
}

/* The logistic function of x and its complement, 1 - value, both to full relative accuracy: they
 * are computed without subtraction from exp(-|x|), which cannot overflow. */
struct logistic {
    float value, complement; /* 1 / (1 + exp(-x)), and 1 minus it */
};

static struct logistic compute_logistic(float x) {
    float power = expf(-fabsf(x));
    float larger = 1.0f / (1.0f + power);
    float smaller = power * larger;
    return x < 0 ? (struct logistic){smaller, larger} : (struct logistic){larger, smaller};
}

static void swiglu_forward_elements(const struct elementwise_buffers *buffers, int64_t first,
                                    int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        float gate = element_load(buffers->in[0], buffers->dtype, i);
        float up = element_load(buffers->in[1], buffers->dtype, i);
        element_store(buffers->out[0], buffers->dtype, i, gate * compute_logistic(gate).value * up);
    }
}

static void swiglu_backward_elements(const struct elementwise_buffers *buffers, int64_t first,
                                     int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        float dout = element_load(buffers->in[0], buffers->dtype, i);
        float gate = element_load(buffers->in[1], buffers->dtype, i);
        float up = element_load(buffers->in[2], buffers->dtype, i);
        struct logistic s = compute_logistic(gate);
        float silu = gate * s.value;
        float slope = s.value + silu * s.complement;
        element_store(buffers->out[0], buffers->dtype, i, dout * up * slope);
        element_store(buffers->out[1], buffers->dtype, i, dout * silu);
    }
}

static void gelu_forward_elements(const struct elementwise_buffers *buffers, int64_t first,
                                  int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        float x = element_load(buffers->in[0], buffers->dtype, i);
        struct logistic s = compute_logistic(x * (GELU_A + GELU_B * (x * x)));
        element_store(buffers->out[0], buffers->dtype, i, x * s.value);
    }
}

static void gelu_backward_elements(const struct elementwise_buffers *buffers, int64_t first,
                                   int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        float dout = element_load(buffers->in[0], buffers->dtype, i);
        float x = element_load(buffers->in[1], buffers->dtype, i);
        float square = x * x;
        struct logistic s = compute_logistic(x * (GELU_A + GELU_B * square));
        float rise = x * (GELU_A + 3.0f * GELU_B * square);
        element_store(buffers->out[0], buffers->dtype, i,
                      dout * (s.value + s.value * s.complement * rise));
    }
}

static void narrow_elements(const float *in, uint16_t *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        out[i] = bf16_from_f32(in[i]);
    }
}

static void widen_elements(const uint16_t *in, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        out[i] = bf16_to_f32(in[i]);
    }
}

static float load_as_float(const void *in, enum dtype dtype, int64_t index) {
    return dtype == DTYPE_F16 ? f16_to_f32(((const uint16_t *)in)[index])
                              : element_load(in, dtype, index);
}

static void cast_elements(enum dtype from, const void *in, enum dtype to, void *out,
                          int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float value = load_as_float(in, from, i);
        if (to == DTYPE_F16) {
            ((uint16_t *)out)[i] = f16_from_f32(value);
        } else {
            element_store(out, to, i, value);
        }
    }
}

/* Sum a block of columns in fp64, because the terms of the gradient of a key bias cancel almost
 * completely. */
static void sum_column_block(const struct column_sum_args *args, const void *x, int64_t rows,
                             int64_t columns, float *sums) {
    double totals[COLUMN_BLOCK] = {0};
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < columns; i++) {
            totals[i] += (double)element_load(x, args->dtype, row * args->stride + i);
        }
    }
    for (int64_t i = 0; i < columns; i++) {
        sums[i] = (float)totals[i];
    }
}

static void column_sum_rows(const struct column_sum_args *args, const void *x, int64_t rows,
                            float *sums) {
    for (int64_t first = 0; first < args->columns; first += COLUMN_BLOCK) {
        int64_t left = args->columns - first;
        sum_column_block(args, element_address(x, args->dtype, first), rows,
                         left < COLUMN_BLOCK ? left : COLUMN_BLOCK, sums + first);
    }
}

static void rotate_head(const struct rope_args *args, const float *cosines, const void *in,
                        void *out) {
    int64_t half = args->rotary_dim / 2;
    const float *sines = cosines + half;
    for (int64_t i = 0; i < half; i++) {
        float sine = args->inverse ? -sines[i] : sines[i];
        float first = element_load(in, args->dtype, i);
        float second = element_load(in, args->dtype, i + half);
        element_store(out, args->dtype, i, first * cosines[i] - second * sine);
        element_store(out, args->dtype, i + half, second * cosines[i] + first * sine);
    }
    int64_t bytes = (args->head_dim - args->rotary_dim) * dtype_bytes(args->dtype);
    if (in != out && bytes > 0) {
        memcpy(element_address_mutable(out, args->dtype, args->rotary_dim),
               element_address(in, args->dtype, args->rotary_dim), (size_t)bytes);
    }
}

static void rope_tokens(const struct rope_buffers *buffers, int64_t first, int64_t count) {
    const struct rope_args *args = buffers->args;
    for (int64_t token = first; token < first + count; token++) {
        const float *cosines = buffers->table + buffers->positions[token] * args->rotary_dim;
        for (int64_t head = 0; head < args->heads; head++) {
            int64_t inside = head * args->head_dim;
            rotate_head(args, cosines,
                        element_address(buffers->in, args->dtype, token * args->in_stride + inside),
                        element_address_mutable(buffers->out, args->dtype,
                                                token * args->out_stride + inside));
        }
    }
}

void elementwise_kernels_init(struct elementwise_kernels *kernels, enum cpu_level level) {
    *kernels = (struct elementwise_kernels){
        .add = add_elements,
        .swiglu_forward = swiglu_forward_elements,
        .swiglu_backward = swiglu_backward_elements,
        .gelu_forward = gelu_forward_elements,
        .gelu_backward = gelu_backward_elements,
        .narrow = narrow_elements,
        .widen = widen_elements,
        .cast = cast_elements,
        .column_sum = column_sum_rows,
        .rope = rope_tokens,
    };
    OVERLAY_X86(elementwise, kernels, level);
}
