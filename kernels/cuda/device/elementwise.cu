/* Every thread processes 16 bytes of each tensor: in one access if all tensors are aligned to 16
 * bytes, else element by element. */

#include "kernels/cuda/device/element_spans.h"
#include "kernels/cuda/device/elementwise_params.h"
#include "kernels/cuda/device/partials.h"

/* ---- one element ---- */

enum kind { ADD, SWIGLU_FORWARD, SWIGLU_BACKWARD, GELU_FORWARD, GELU_BACKWARD };

constexpr int inputs_of(kind kind) {
    return kind == SWIGLU_BACKWARD ? 3 : kind == GELU_FORWARD ? 1 : 2;
}
constexpr int outputs_of(kind kind) {
    return kind == SWIGLU_BACKWARD ? 2 : 1;
}

/* The logistic function and its complement, each to full relative accuracy: it takes the
 * exponential of -|x|, which cannot overflow, and subtracts nothing. */
struct logistic {
    float value, complement;
};

DEVICE logistic logistic_of(float x) {
    float power = exp_full(x < 0 ? x : -x);
    float larger = div_exact(1, 1 + power);
    float smaller = power * larger;
    return x < 0 ? logistic{smaller, larger} : logistic{larger, smaller};
}

/* The tanh form of GELU is x logistic(x (A + B x^2)): A = 2 sqrt(2 / pi), B = 0.044715 A. */
constexpr float GELU_A = 1.595769122f;
constexpr float GELU_B = 0.07135481627f;

template <kind op> DEVICE void apply(const float in[3], float out[2]) {
    if (op == ADD) {
        out[0] = in[0] + in[1];
    } else if (op == SWIGLU_FORWARD) {
        out[0] = in[0] * logistic_of(in[0]).value * in[1];
    } else if (op == SWIGLU_BACKWARD) {
        logistic s = logistic_of(in[1]);
        float silu = in[1] * s.value;
        out[0] = in[0] * in[2] * (s.value + silu * s.complement);
        out[1] = in[0] * silu;
    } else if (op == GELU_FORWARD) {
        out[0] = in[0] * logistic_of(in[0] * (GELU_A + GELU_B * (in[0] * in[0]))).value;
    } else {
        float square = in[1] * in[1];
        logistic s = logistic_of(in[1] * (GELU_A + GELU_B * square));
        float rise = in[1] * (GELU_A + 3 * GELU_B * square);
        out[0] = in[0] * (s.value + s.value * s.complement * rise);
    }
}

template <kind op, typename T> DEVICE void map_elements(const cuda_element_params &p) {
    constexpr int width = 16 / sizeof(T);
    int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * width;
    if (first >= p.count) {
        return;
    }
    int64_t count = p.count - first;
    bool whole = p.aligned && count >= width;
    float in[3][width];
    float out[2][width];
    for (int i = 0; i < inputs_of(op); i++) {
        load_span<T, width>(static_cast<const T *>(p.in[i]) + first, whole, count, in[i]);
    }
    for (int i = 0; i < width; i++) {
        const float element[3] = {in[0][i], inputs_of(op) > 1 ? in[1][i] : 0,
                                  inputs_of(op) > 2 ? in[2][i] : 0};
        float result[2];
        apply<op>(element, result);
        out[0][i] = result[0];
        out[1][i] = outputs_of(op) > 1 ? result[1] : 0;
    }
    for (int i = 0; i < outputs_of(op); i++) {
        store_span<T, width>(static_cast<T *>(p.out[i]) + first, whole, count, out[i]);
    }
}

#define ELEMENT_KERNELS(name, op)                                                                  \
    BOUNDED_KERNEL(name##_f32, cuda_element_params, CUDA_ELEMENT_THREADS, 4) {                     \
        map_elements<op, float>(p);                                                                \
    }                                                                                              \
    BOUNDED_KERNEL(name##_bf16, cuda_element_params, CUDA_ELEMENT_THREADS, 4) {                    \
        map_elements<op, bf16>(p);                                                                 \
    }
ELEMENT_KERNELS(add, ADD)
ELEMENT_KERNELS(swiglu_forward, SWIGLU_FORWARD)
ELEMENT_KERNELS(swiglu_backward, SWIGLU_BACKWARD)
ELEMENT_KERNELS(gelu_forward, GELU_FORWARD)
ELEMENT_KERNELS(gelu_backward, GELU_BACKWARD)

/* ---- casts ---- */

template <typename From, typename To> DEVICE void cast_elements(const cuda_cast_params &p) {
    constexpr int width = CUDA_CAST_ELEMENTS_PER_THREAD;
    int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * width;
    if (first >= p.count) {
        return;
    }
    int64_t count = p.count - first;
    bool whole = p.aligned && count >= width;
    float values[width];
    load_span<From, width>(static_cast<const From *>(p.in) + first, whole, count, values);
    store_span<To, width>(static_cast<To *>(p.out) + first, whole, count, values);
}

#define CAST_KERNEL(name, From, To)                                                                \
    BOUNDED_KERNEL(name, cuda_cast_params, CUDA_ELEMENT_THREADS, 4) {                              \
        cast_elements<From, To>(p);                                                                \
    }
CAST_KERNEL(cast_f32_bf16, float, bf16)
CAST_KERNEL(cast_f32_f16, float, f16)
CAST_KERNEL(cast_bf16_f32, bf16, float)
CAST_KERNEL(cast_bf16_f16, bf16, f16)
CAST_KERNEL(cast_f16_f32, f16, float)
CAST_KERNEL(cast_f16_bf16, f16, bf16)

/* ---- column sums ---- */

/* Kahan summation: a sum and what its roundings lost. As accurate as fp64, which is slow on many
 * devices. */
struct careful_sum {
    float sum, lost;
};

DEVICE void add_carefully(careful_sum &total, float value) {
    float corrected = sub_exact(value, total.lost);
    float sum = add_exact(total.sum, corrected);
    total.lost = sub_exact(sub_exact(sum, total.sum), corrected);
    total.sum = sum;
}

/* A block sums one chunk of rows of WARP x width columns: each warp sums every eighth row, then the
 * sums of the warps are added in order. */
template <typename T, int width> DEVICE void sum_chunk(const cuda_column_sum_params &p) {
    SHARED(float, sums, CUDA_COLUMN_SUM_WARPS *WARP * 8);
    int warp = (int)threadIdx.x / WARP;
    int lane = (int)threadIdx.x % WARP;
    int64_t block_column = (int64_t)blockIdx.x * WARP * width;
    int64_t column = block_column + lane * width;
    int64_t first_row = (int64_t)blockIdx.y * CUDA_COLUMN_SUM_ROWS;
    int64_t end_row = first_row + CUDA_COLUMN_SUM_ROWS;
    end_row = end_row < p.rows ? end_row : p.rows;
    int64_t count = p.columns - column;
    bool whole = p.aligned && count >= width;
    careful_sum totals[width] = {};
    for (int64_t row = first_row + warp; row < end_row && count > 0; row += CUDA_COLUMN_SUM_WARPS) {
        float values[width];
        load_span<T, width>(static_cast<const T *>(p.x) + row * p.stride + column, whole, count,
                            values);
        for (int i = 0; i < width; i++) {
            add_carefully(totals[i], values[i]);
        }
    }
    for (int i = 0; i < width; i++) {
        sums[(warp * WARP + lane) * width + i] = totals[i].sum;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < WARP * width; i += (int)blockDim.x) {
        double total = 0;
        for (int w = 0; w < CUDA_COLUMN_SUM_WARPS; w++) {
            total += (double)sums[w * WARP * width + i];
        }
        if (block_column + i < p.columns) {
            p.partials[blockIdx.y * p.columns + block_column + i] = (float)total;
        }
    }
}

#define COLUMN_SUM_KERNEL(name, T, width)                                                          \
    BOUNDED_KERNEL(name, cuda_column_sum_params, CUDA_COLUMN_SUM_WARPS *WARP, 4) {                 \
        sum_chunk<T, width>(p);                                                                    \
    }
COLUMN_SUM_KERNEL(column_sum_f32, float, 1)
COLUMN_SUM_KERNEL(column_sum_bf16, bf16, 1)
COLUMN_SUM_KERNEL(column_sum_wide_f32, float, 4)
COLUMN_SUM_KERNEL(column_sum_wide_bf16, bf16, 8)

BOUNDED_KERNEL(column_sum_add, cuda_partials_params, CUDA_PARTIALS_THREADS, 4) {
    add_partial_sums(p);
}

/* ---- rotary positions ---- */

template <typename T, int width> DEVICE void rotate(const cuda_rope_params &p) {
    int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= p.units) {
        return;
    }
    int64_t token = index / p.token_units;
    int inside = (int)(index % p.token_units);
    int unit = inside % p.head_units;
    int head = inside / p.head_units * p.head_dim;
    const T *in = static_cast<const T *>(p.in) + token * p.in_stride + head;
    T *out = static_cast<T *>(p.out) + token * p.out_stride + head;
    constexpr bool whole = width > 1;
    float first[width];
    if (unit >= p.pair_units) {
        int at = p.rotary_dim + (unit - p.pair_units) * width;
        load_span<T, width>(in + at, whole, width, first);
        store_span<T, width>(out + at, whole, width, first);
        return;
    }
    int half = p.rotary_dim / 2;
    int at = unit * width;
    const float *cosines = p.table + (int64_t)p.positions[token] * p.rotary_dim + at;
    float second[width];
    float turned[2][width];
    load_span<T, width>(in + at, whole, width, first);
    load_span<T, width>(in + half + at, whole, width, second);
    for (int i = 0; i < width; i++) {
        float sine = p.inverse ? -cosines[half + i] : cosines[half + i];
        turned[0][i] = first[i] * cosines[i] - second[i] * sine;
        turned[1][i] = second[i] * cosines[i] + first[i] * sine;
    }
    store_span<T, width>(out + at, whole, width, turned[0]);
    store_span<T, width>(out + half + at, whole, width, turned[1]);
}

#define ROPE_KERNEL(name, T, width)                                                                \
    BOUNDED_KERNEL(name, cuda_rope_params, CUDA_ELEMENT_THREADS, 4) {                              \
        rotate<T, width>(p);                                                                       \
    }
ROPE_KERNEL(rope_f32, float, 1)
ROPE_KERNEL(rope_bf16, bf16, 1)
ROPE_KERNEL(rope_wide_f32, float, 4)
ROPE_KERNEL(rope_wide_bf16, bf16, 8)
