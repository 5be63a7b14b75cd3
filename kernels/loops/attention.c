#include "kernels/loops/attention.h"

#include <math.h>

static int64_t padded_width(int64_t dim) {
    return (dim + ATTENTION_LANES - 1) / ATTENTION_LANES * ATTENTION_LANES;
}

static float load_element(enum dtype dtype, const void *from, int64_t index) {
    return dtype == DTYPE_F32 ? ((const float *)from)[index]
                              : bf16_to_f32(((const uint16_t *)from)[index]);
}

static void load_rows(const struct attention_layout *block, const void *from, float *tile) {
    int64_t width = padded_width(block->dim);
    for (int64_t r = 0; r < block->rows; r++) {
        for (int64_t d = 0; d < block->dim; d++) {
            tile[r * width + d] = load_element(block->dtype, from, r * block->stride + d);
        }
        for (int64_t d = block->dim; d < width; d++) {
            tile[r * width + d] = 0.0f;
        }
    }
}

static void load_columns(const struct attention_layout *block, const void *from, float *tile) {
    int64_t width = padded_width(block->rows);
    for (int64_t d = 0; d < block->dim; d++) {
        float *row = tile + d * ATTENTION_KEY_TILE;
        for (int64_t r = 0; r < block->rows; r++) {
            row[r] = load_element(block->dtype, from, r * block->stride + d);
        }
        for (int64_t r = block->rows; r < width; r++) {
            row[r] = 0.0f;
        }
    }
}

static void store_rows(const struct attention_layout *block, const float *tile,
                       const float *factors, void *to) {
    int64_t width = padded_width(block->dim);
    for (int64_t r = 0; r < block->rows; r++) {
        float factor = factors ? factors[r] : 1.0f;
        for (int64_t d = 0; d < block->dim; d++) {
            float value = tile[r * width + d] * factor;
            if (block->dtype == DTYPE_F32) {
                ((float *)to)[r * block->stride + d] = value;
            } else {
                ((uint16_t *)to)[r * block->stride + d] = bf16_from_f32(value);
            }
        }
    }
}

static void multiply(const struct attention_product *args) {
    for (int64_t i = 0; i < args->m; i++) {
        float *c = args->c + i * args->c_stride;
        for (int64_t j = 0; j < args->n && !args->accumulate; j++) {
            c[j] = 0.0f;
        }
        for (int64_t p = 0; p < args->k; p++) {
            float a = args->a[i * args->a_row_stride + p * args->a_k_stride];
            const float *b = args->b + p * args->b_stride;
            for (int64_t j = 0; j < args->n; j++) {
                c[j] += a * b[j];
            }
        }
    }
}

static void exponentiate_row(float *scores, int64_t columns, int64_t first, int64_t last,
                             float scale, float maximum, float *sum) {
    for (int64_t c = 0; c < columns; c++) {
        bool visible = c >= first && c < last;
        scores[c] = visible ? expf(scores[c] * scale - maximum) : 0.0f;
        *sum += scores[c];
    }
}

static void softmax(const struct attention_strip *strip, float *maxima, float *sums,
                    float *accumulators, int64_t n) {
    for (int64_t r = 0; r < strip->rows; r++) {
        float *scores = strip->scores + r * strip->stride;
        float maximum = maxima[r];
        for (int64_t c = strip->first[r]; c < strip->last[r]; c++) {
            float logit = scores[c] * strip->scale;
            maximum = logit > maximum ? logit : maximum;
        }
        if (maximum > maxima[r]) {
            float factor = expf(maxima[r] - maximum);
            maxima[r] = maximum;
            sums[r] *= factor;
            for (int64_t d = 0; d < n; d++) {
                accumulators[r * n + d] *= factor;
            }
        }
        exponentiate_row(scores, strip->columns, strip->first[r], strip->last[r], strip->scale,
                         maximum, &sums[r]);
    }
}

static void score_gradients(const struct attention_strip *strip, const float *lse,
                            const float *delta, float *score_gradients) {
    for (int64_t r = 0; r < strip->rows; r++) {
        float *scores = strip->scores + r * strip->stride;
        float *slope = score_gradients + r * strip->stride;
        float sum = 0.0f;
        float weighted = 0.0f;
        for (int64_t c = 0; c < strip->columns; c++) {
            bool visible = c >= strip->first[r] && c < strip->last[r];
            double power = (double)scores[c] * strip->scale - lse[r];
            scores[c] = visible ? expf(power > 0 ? 0.0f : (float)power) : 0.0f;
            slope[c] = visible ? slope[c] : 0.0f;
            sum += scores[c];
            weighted += scores[c] * slope[c];
        }
        float mean = strip->is_row_complete[r] ? weighted / (sum != 0.0f ? sum : 1.0f) : delta[r];
        for (int64_t c = 0; c < strip->columns; c++) {
            slope[c] = strip->scale * scores[c] * (slope[c] - mean);
        }
    }
}

static void row_dots(const float *a, const float *b, int64_t rows, int64_t n, float *dots) {
    for (int64_t r = 0; r < rows; r++) {
        float sum = 0.0f;
        for (int64_t d = 0; d < n; d++) {
            sum += a[r * n + d] * b[r * n + d];
        }
        dots[r] = sum;
    }
}

void attention_kernels_init(struct attention_kernels *kernels, enum cpu_level level) {
    *kernels = (struct attention_kernels){
        .load_rows = load_rows,
        .load_columns = load_columns,
        .store_rows = store_rows,
        .product = multiply,
        .softmax = softmax,
        .score_gradients = score_gradients,
        .row_dots = row_dots,
    };
    OVERLAY_X86(attention, kernels, level);
}
