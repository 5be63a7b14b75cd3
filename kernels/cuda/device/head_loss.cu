/* Cross-entropy of the rows of a chunk of logits; its gradient overwrites them. */
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/head_loss_params.h"

enum { EACH = 4 }; /* neighbouring elements that a thread processes at a time */

struct alignas(8) words2 {
    uint32_t word[2];
};

/* The difference is exact near 0, where accuracy matters. */
DEVICE float power(float x, float largest) {
    return exp_full(x - largest);
}

/* The natural logarithm of a normal number, to 2 ulp: x = 2^e f with f within a factor of sqrt 2 of
 * one, and log f = 2 artanh((f - 1) / (f + 1)) by its series, of which 11 terms reach 2^-60. */
DEVICE double logarithm(double x) {
    union {
        double value;
        uint64_t bits;
    } parts = {x};
    int exponent = (int)(parts.bits >> 52 & 0x7ff) - 1023;
    parts.bits = (parts.bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull;
    double fraction = parts.value;
    if (fraction > 1.4142135623730951) {
        fraction *= 0.5;
        exponent++;
    }
    double s = (fraction - 1) / (fraction + 1);
    double square = s * s;
    double series = 0;
#pragma unroll 1
    for (int term = 21; term > 0; term -= 2) {
        series = series * square + 1.0 / term;
    }
    return exponent * 0.69314718055994531 + 2 * s * series;
}

/* Four logits; -infinity, whose exponential is 0, after the end of the row. */
DEVICE void load_logits(float value[EACH], const float *row, int at, int vocab) {
    if (at + EACH <= vocab) {
        words4 words = *(const words4 *)(row + at);
        for (int i = 0; i < EACH; i++) {
            value[i] = bits_to_float(words.word[i]);
        }
        return;
    }
    for (int i = 0; i < EACH; i++) {
        value[i] = at + i < vocab ? row[at + i] : bits_to_float(0xff800000u);
    }
}

/* The maximum of a block's values, returned to every thread. */
DEVICE float block_max(float value) {
    SHARED(float, warps, HEAD_LOSS_THREADS_MAX / WARP);
    value = warp_max(value);
    if (threadIdx.x % WARP == 0) {
        warps[threadIdx.x / WARP] = value;
    }
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x / WARP; i++) {
        value = warps[i] > value ? warps[i] : value;
    }
    return value;
}

/* The sum of a block's values, returned to every thread, in an order that depends only on the
 * block's width, a power of two. */
DEVICE double block_sum(double value) {
    SHARED(double, sums, HEAD_LOSS_THREADS_MAX);
    sums[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        __syncthreads();
    }
    return sums[0];
}

struct row_sums {
    float largest; /* NaN when any logit is not finite */
    double total;  /* of e^(logit - largest) */
};

/* One pass: a thread scales its sum down whenever its maximum grows. */
DEVICE row_sums sum_row(const float *row, int vocab) {
    float largest = bits_to_float(0xff800000u);
    double sum = 0;
    bool broken = false;
    for (int at = (int)threadIdx.x * EACH; at < vocab; at += (int)blockDim.x * EACH) {
        float value[EACH];
        load_logits(value, row, at, vocab);
        float above = largest;
        for (int i = 0; i < EACH; i++) {
            broken = broken || (at + i < vocab && !(value[i] - value[i] == 0));
            above = value[i] > above ? value[i] : above;
        }
        if (above > largest) {
            sum *= (double)power(largest, above);
            largest = above;
        }
        float part = 0;
        for (int i = 0; i < EACH; i++) {
            part += power(value[i], largest);
        }
        sum += (double)part;
    }
    float infinity = bits_to_float(0x7f800000u);
    float top = block_max(broken ? infinity : largest);
    double scaled = sum == 0 ? 0 : sum * (double)power(largest, top);
    return row_sums{top == infinity ? bits_to_float(0x7fc00000u) : top, block_sum(scaled)};
}

struct slope {
    float largest, factor; /* for every exponential: scale / total */
    float at_label;
    int label;
};

/* In bf16 a row is narrowed in place: a tile is written after the whole tile was read, to addresses
 * before those that later tiles read. */
DEVICE void write_gradient(const head_loss_rows_params &p, float *row, slope own) {
    int tile = (int)blockDim.x * EACH;
    for (int first = 0; first < p.vocab; first += tile) {
        int at = first + (int)threadIdx.x * EACH;
        float value[EACH];
        if (at < p.vocab) {
            load_logits(value, row, at, p.vocab);
            for (int i = 0; i < EACH; i++) {
                value[i] =
                    at + i == own.label ? own.at_label : power(value[i], own.largest) * own.factor;
            }
        }
        if (p.bf16) {
            __syncthreads();
        }
        bool whole = at + EACH <= p.vocab;
        if (whole && p.bf16) {
            *(words2 *)((bf16 *)row + at) =
                words2{{pack_bf16(value[0], value[1]), pack_bf16(value[2], value[3])}};
        } else if (whole) {
            *(words4 *)(row + at) = words4{{float_to_bits(value[0]), float_to_bits(value[1]),
                                            float_to_bits(value[2]), float_to_bits(value[3])}};
        }
        for (int i = 0; i < EACH && !whole && at + i < p.vocab; i++) {
            if (p.bf16) {
                ((bf16 *)row)[at + i] = from_float<bf16>(value[i]);
            } else {
                row[at + i] = value[i];
            }
        }
    }
}

DEVICE void write_zeros(const head_loss_rows_params &p, float *row) {
    for (int at = (int)threadIdx.x; at < p.vocab; at += (int)blockDim.x) {
        if (p.bf16) {
            ((bf16 *)row)[at].bits = 0;
        } else {
            row[at] = 0;
        }
    }
}

BOUNDED_KERNEL(head_loss_rows, head_loss_rows_params, HEAD_LOSS_THREADS_MAX, 2) {
    float *row = p.logits + (int64_t)blockIdx.x * p.stride;
    int label = p.labels[blockIdx.x];
    if (label == HEAD_LOSS_IGNORED_LABEL) {
        if (threadIdx.x == 0) {
            p.losses[blockIdx.x] = 0;
        }
        if (p.gradient) {
            write_zeros(p, row);
        }
        return;
    }
    bool known = label >= 0 && label < p.vocab;
    float logit = known ? row[label] : bits_to_float(0x7fc00000u);
    row_sums sums = sum_row(row, p.vocab);
    if (threadIdx.x == 0) {
        p.losses[blockIdx.x] = logarithm(sums.total) - ((double)logit - (double)sums.largest);
    }
    if (!p.gradient) {
        return;
    }
    float scale = p.scalars->loss_scale;
    float probability = (float)((double)power(logit, sums.largest) / sums.total);
    slope own = {sums.largest, (float)((double)scale / sums.total), (probability - 1) * scale,
                 label};
    write_gradient(p, row, own);
}

BOUNDED_KERNEL(head_loss_total, head_loss_total_params, HEAD_LOSS_TOTAL_THREADS, 1) {
    double sum = 0;
    for (int64_t row = threadIdx.x; row < p.rows; row += HEAD_LOSS_TOTAL_THREADS) {
        sum += p.losses[row];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        p.scalars->loss_sum += sum;
    }
}
