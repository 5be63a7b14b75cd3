#include "tests/kernels/sparse_reference.h"

#include "base/dtype.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BITS_MAX = 8 * 320 };

struct element {
    double magnitude;
    int index, code;
    bool is_negative;
};

static int by_magnitude(const void *a, const void *b) {
    const struct element *x = a, *y = b;
    return x->magnitude != y->magnitude ? (x->magnitude < y->magnitude ? 1 : -1)
                                        : x->index - y->index;
}

static int by_index(const void *a, const void *b) {
    const struct element *x = a, *y = b;
    return x->index - y->index;
}

static double rounded(double value) {
    return (double)bf16_to_f32(bf16_from_f32((float)value));
}

/* The two means that Lloyd's algorithm finds after four steps. */
static void split_by_means(const struct element *sent, int count, double *low, double *high,
                           double *boundary) {
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += sent[i].magnitude;
    }
    *boundary = sum / count;
    for (int step = 0; step <= 4; step++) {
        double sums[2] = {0};
        int counts[2] = {0};
        for (int i = 0; i < count; i++) {
            sums[sent[i].magnitude >= *boundary] += sent[i].magnitude;
            counts[sent[i].magnitude >= *boundary]++;
        }
        *low = counts[0] == 0 ? 0 : sums[0] / counts[0];
        *high = sums[1] / counts[1];
        if (step < 4 && counts[0] > 0) {
            *boundary = (*low + *high) / 2;
        }
    }
}

/* Sets the codes and returns the levels in levels[2]. */
static void quantise(int bits, struct element *sent, int count, double levels[2]) {
    double low = INFINITY, high = 0, boundary = 0, sum = 0;
    for (int i = 0; i < count; i++) {
        low = fmin(low, sent[i].magnitude);
        high = fmax(high, sent[i].magnitude);
        sum += sent[i].magnitude;
    }
    const double least = low, most = high;
    if (bits == 2) {
        split_by_means(sent, count, &low, &high, &boundary);
    }
    levels[0] = bits == 1 ? 0 : rounded(low);
    levels[1] = rounded(bits == 1 ? sum / count : high);
    if (levels[0] == levels[1]) {
        levels[0] = 0;
    }
    const int last = (1 << (bits - 1)) - 1;
    for (int i = 0; i < count; i++) {
        double size = sent[i].magnitude;
        double place = floor((size - levels[0]) * 7 / (levels[1] - levels[0]) + 0.5);
        int code = bits == 2 ? size >= boundary : (int)fmin(fmax(place, 0), 7);
        code = bits == 4 && size == least ? 0 : bits == 4 && size == most ? 7 : code;
        sent[i].code = bits == 1 ? 0 : levels[0] == 0 ? last : code;
    }
}

/* A string of single bits that becomes bytes. */
static int put_bits(uint8_t *bits, int at, int count, unsigned value) {
    for (int i = 0; i < count; i++) {
        bits[at + i] = value >> i & 1;
    }
    return at + count;
}

static int whole_bytes(int bits) {
    return (bits + 7) / 8 * 8;
}

static double code_value(int bits, const struct element *sent, const double levels[2]) {
    const int last = (1 << (bits - 1)) - 1;
    double size = sent->code == last
                      ? levels[1]
                      : (double)(float)(levels[0] + (levels[1] - levels[0]) * sent->code / last);
    return sent->is_negative ? -size : size;
}

/* Encodes a block and returns its size in bytes; `decoded` holds its values. */
static int reference_block(struct sparse_shape shape, int count, const float *values,
                           uint8_t *bytes, double *decoded) {
    static struct element all[SPARSE_BLOCK];
    uint8_t bits[BITS_MAX] = {0};
    int sent = 0;
    for (int i = 0; i < count; i++) {
        double size = fabs((double)values[i]);
        decoded[i] = 0;
        if (size >= (double)FLT_MIN) {
            all[sent++] = (struct element){size, i, 0, values[i] < 0};
        }
    }
    qsort(all, (size_t)sent, sizeof all[0], by_magnitude);
    sent = sent < shape.keep ? sent : shape.keep;
    qsort(all, (size_t)sent, sizeof all[0], by_index);
    double levels[2] = {0};
    if (sent > 0) {
        quantise(shape.value_bits, all, sent, levels);
    }
    const int b = shape.keep == 32 ? 6 : shape.keep == 64 ? 5 : shape.keep == 128 ? 4 : 3;
    int at = 0;
    if (shape.value_bits > 1) {
        at = put_bits(bits, at, 16, bf16_from_f32((float)levels[0]));
    }
    at = put_bits(bits, at, 16, bf16_from_f32((float)levels[1]));
    int remainders = at + whole_bytes(shape.keep * shape.value_bits);
    int quotients = remainders + whole_bytes(shape.keep * b);
    const int end = quotients + whole_bytes(shape.keep + ((SPARSE_BLOCK - shape.keep) >> b));
    for (int i = 0, next = 0; i < sent; i++) {
        int gap = all[i].index - next;
        int code = all[i].code + (all[i].is_negative ? 1 << (shape.value_bits - 1) : 0);
        next = all[i].index + 1;
        at = put_bits(bits, at, shape.value_bits, (unsigned)code);
        remainders = put_bits(bits, remainders, b, (unsigned)(gap % (1 << b)));
        quotients += gap / (1 << b);
        quotients = put_bits(bits, quotients, 1, 1);
        decoded[all[i].index] = code_value(shape.value_bits, &all[i], levels);
    }
    assert_true(quotients <= end);
    for (int i = 0; i < end / 8; i++) {
        bytes[i] = 0;
        for (int bit = 0; bit < 8; bit++) {
            bytes[i] |= (uint8_t)(bits[8 * i + bit] << bit);
        }
    }
    return end / 8;
}

uint64_t sparse_reference_encode(struct sparse_shape shape, int64_t count, const float *values,
                                 uint8_t *bytes, double *decoded) {
    uint64_t size = 0;
    for (int64_t i = 0; i < count; i += SPARSE_BLOCK) {
        int length = (int)(count - i < SPARSE_BLOCK ? count - i : SPARSE_BLOCK);
        size += (uint64_t)reference_block(shape, length, values + i, bytes + size, decoded + i);
    }
    return size;
}
