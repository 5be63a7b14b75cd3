#include "tests/kernels/attention_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool sees(const struct attention_args *args, const double *positions, int64_t t, int64_t s) {
    return s <= t && (args->window == 0 || t - s < args->window) && (double)(t - s) <= positions[t];
}

int64_t attention_k_offset(const struct attention_args *args) {
    return args->heads * args->head_dim;
}

int64_t attention_v_offset(const struct attention_args *args) {
    return (args->heads + args->kv_heads) * args->head_dim;
}

/* One query: probabilities [time], out, lse. */
static double query_forward(const struct attention_args *args, const double *row,
                            const double *positions, int64_t head, int64_t t,
                            double *probabilities) {
    int64_t kv_head = head / (args->heads / args->kv_heads);
    double maximum = -INFINITY;
    double sum = 0;
    for (int64_t s = 0; s <= t; s++) {
        const double *q = row + t * args->q_stride + head * args->head_dim;
        const double *k =
            row + s * args->kv_stride + attention_k_offset(args) + kv_head * args->head_dim;
        double dot = 0;
        for (int64_t d = 0; d < args->head_dim; d++) {
            dot += q[d] * k[d];
        }
        probabilities[s] = sees(args, positions, t, s) ? dot * (double)args->scale : -INFINITY;
        maximum = fmax(maximum, probabilities[s]);
    }
    for (int64_t s = 0; s <= t; s++) {
        probabilities[s] = exp(probabilities[s] - maximum);
        sum += probabilities[s];
    }
    for (int64_t s = 0; s <= t; s++) {
        probabilities[s] /= sum;
    }
    return maximum + log(sum);
}

void attention_reference_forward(const struct attention_args *args, const double *qkv,
                                 const double *positions, double *out, double *lse) {
    double *probabilities = calloc((size_t)args->time, sizeof(double));
    for (int64_t i = 0; i < args->rows * args->heads * args->time; i++) {
        int64_t t = i % args->time;
        int64_t head = i / args->time % args->heads;
        int64_t row = i / args->time / args->heads;
        const double *base = qkv + row * args->time * args->q_stride;
        lse[i] = query_forward(args, base, positions + row * args->time, head, t, probabilities);
        int64_t kv_head = head / (args->heads / args->kv_heads);
        double *o = out + (row * args->time + t) * args->out_stride + head * args->head_dim;
        memset(o, 0, (size_t)args->head_dim * sizeof(double));
        for (int64_t s = 0; s <= t; s++) {
            const double *v =
                base + s * args->kv_stride + attention_v_offset(args) + kv_head * args->head_dim;
            for (int64_t d = 0; d < args->head_dim; d++) {
                o[d] += probabilities[s] * v[d];
            }
        }
    }
    free(probabilities);
}

static void query_backward(const struct attention_args *args, const double *row,
                           const double *probabilities, const double *dout, int64_t head, int64_t t,
                           double *drow) {
    int64_t dim = args->head_dim;
    int64_t kv = head / (args->heads / args->kv_heads) * dim;
    double mean = 0;
    double *slopes = calloc((size_t)args->time, sizeof(double));
    for (int64_t s = 0; s <= t; s++) {
        const double *v = row + s * args->kv_stride + attention_v_offset(args) + kv;
        for (int64_t d = 0; d < dim; d++) {
            slopes[s] += dout[d] * v[d];
        }
        mean += probabilities[s] * slopes[s];
    }
    for (int64_t s = 0; s <= t; s++) {
        double slope = probabilities[s] * (slopes[s] - mean) * (double)args->scale;
        int64_t q = t * args->q_stride + head * dim;
        int64_t k = s * args->kv_stride + attention_k_offset(args) + kv;
        for (int64_t d = 0; d < dim; d++) {
            drow[q + d] += slope * row[k + d];
            drow[k + d] += slope * row[q + d];
            drow[s * args->kv_stride + attention_v_offset(args) + kv + d] +=
                probabilities[s] * dout[d];
        }
    }
    free(slopes);
}

void attention_reference_backward(const struct attention_args *args, const double *qkv,
                                  const double *positions, const double *dout, double *dqkv) {
    double *probabilities = calloc((size_t)args->time, sizeof(double));
    int64_t width = attention_v_offset(args) + args->kv_heads * args->head_dim;
    for (int64_t i = 0; i < args->rows * args->time; i++) {
        memset(dqkv + i * args->q_stride, 0, (size_t)width * sizeof(double));
    }
    for (int64_t i = 0; i < args->rows * args->heads * args->time; i++) {
        int64_t t = i % args->time;
        int64_t head = i / args->time % args->heads;
        int64_t row = i / args->time / args->heads;
        const double *base = qkv + row * args->time * args->q_stride;
        query_forward(args, base, positions + row * args->time, head, t, probabilities);
        const double *slope = dout + (row * args->time + t) * args->out_stride;
        query_backward(args, base, probabilities, slope + head * args->head_dim, head, t,
                       dqkv + row * args->time * args->q_stride);
    }
    free(probabilities);
}
