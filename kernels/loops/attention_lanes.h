/* attention_lanes: the tile loops of attention over vectors; included once for each instruction
 * set, after its lanes header and definitions of:
 *   lanes_visible             the type of a mask of the lanes that a row sees
 *   lanes_visible_between     the mask of the lanes with first <= lane < last
 *   lanes_select_visible      value where visible, other elsewhere
 *   lanes_transpose           transposes: rows[i] lane j becomes rows[j] lane i
 *   ATTENTION_PANEL_VECTORS   the maximum width of a product's panel in vectors; a panel has one
 *                             vector only if n = LANES
 *   attention_compute_panel   computes all rows of one panel */
#ifndef SKEP_KERNELS_LOOPS_ATTENTION_LANES_H
#define SKEP_KERNELS_LOOPS_ATTENTION_LANES_H

#include "kernels/loops/attention.h"

#include <math.h>

_Static_assert((int)ATTENTION_LANES % (int)LANES == 0, "tiles must be padded to whole vectors");

/* Rows of tiles are aligned to whole vectors. */
ALWAYS_INLINE lanes tile_load(const float *from) {
    return *(const lanes *)(const void *)from;
}

ALWAYS_INLINE void tile_store(float *to, lanes value) {
    *(lanes *)(void *)to = value;
}

ALWAYS_INLINE int64_t padded_width(int64_t dim) {
    return (dim + ATTENTION_LANES - 1) / ATTENTION_LANES * ATTENTION_LANES;
}

/* ---- between tensors and tiles ---- */

static void lanes_load_rows(const struct attention_layout *block, const void *from, float *tile) {
    int64_t width = padded_width(block->dim);
    for (int64_t r = 0; r < block->rows; r++) {
        for (int64_t d = 0; d < width; d += LANES) {
            tile_store(tile + r * width + d,
                       lanes_load(block->dtype, from, r * block->stride + d, block->dim - d));
        }
    }
}

/* Load and transpose one square: rows from r on of the block become columns from r on of the
 * tile. */
ALWAYS_INLINE void load_transposed_square(const struct attention_layout *block, const void *from,
                                          int64_t r, int64_t d, float *tile) {
    lanes square[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        square[i] = r + i < block->rows ? lanes_load(block->dtype, from,
                                                     (r + i) * block->stride + d, block->dim - d)
                                        : lanes_zero();
    }
    lanes_transpose(square);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) {
        if (d + i < block->dim) {
            tile_store(tile + (d + i) * ATTENTION_KEY_TILE + r, square[i]);
        }
    }
}

static void lanes_load_columns(const struct attention_layout *block, const void *from,
                               float *tile) {
    int64_t width = padded_width(block->rows);
    for (int64_t r = 0; r < width; r += LANES) {
        for (int64_t d = 0; d < block->dim; d += LANES) {
            load_transposed_square(block, from, r, d, tile);
        }
    }
}

static void lanes_store_rows(const struct attention_layout *block, const float *tile,
                             const float *factors, void *to) {
    int64_t width = padded_width(block->dim);
    for (int64_t r = 0; r < block->rows; r++) {
        lanes factor = lanes_broadcast(factors ? factors[r] : 1.0f);
        for (int64_t d = 0; d < width; d += LANES) {
            lanes_store(block->dtype, to, r * block->stride + d, block->dim - d,
                        tile_load(tile + r * width + d) * factor);
        }
    }
}

/* ---- products ---- */

/* The loops are unrolled for rows x vectors sums, so that the sums stay in registers for all of
 * k. */
ALWAYS_INLINE void multiply_block(const struct attention_product *args, int64_t i, int64_t j,
                                  const int rows, const int vectors) {
    lanes sums[8][ATTENTION_PANEL_VECTORS];
    float *c = args->c + i * args->c_stride + j;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sums[r][v] =
                args->accumulate ? tile_load(c + r * args->c_stride + v * LANES) : lanes_zero();
        }
    }
    const float *a = args->a + i * args->a_row_stride;
    const float *b = args->b + j;
    int64_t a_row_stride = args->a_row_stride;
    int64_t a_k_stride = args->a_k_stride;
    int64_t b_stride = args->b_stride;
    for (int64_t p = args->k; p != 0; p--) {
        lanes line[ATTENTION_PANEL_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            line[v] = tile_load(b + v * LANES);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            lanes value = lanes_broadcast(a[r * a_row_stride]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                sums[r][v] = lanes_fma(value, line[v], sums[r][v]);
            }
        }
        a += a_k_stride;
        b += b_stride;
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            tile_store(c + r * args->c_stride + v * LANES, sums[r][v]);
        }
    }
}

static void attention_compute_panel(const struct attention_product *args, int64_t j,
                                    int64_t vectors);

/* The columns are divided into panels that are as equal as possible: five vectors become three and
 * two. */
static void lanes_product(const struct attention_product *args) {
    int64_t vectors = args->n / LANES;
    int64_t j = 0;
    int64_t panels = (vectors + ATTENTION_PANEL_VECTORS - 1) / ATTENTION_PANEL_VECTORS;
    for (; panels != 0; panels--) {
        int64_t width = (vectors + panels - 1) / panels;
        attention_compute_panel(args, j, width);
        vectors -= width;
        j += width * LANES;
    }
}

/* ---- rows of scores ---- */

ALWAYS_INLINE lanes_visible strip_visible(const struct attention_strip *strip, int64_t row,
                                          int64_t column) {
    return lanes_visible_between(strip->first[row] - column, strip->last[row] - column);
}

/* The maximum of a row ignores NaN logits; the exponential propagates them. */
ALWAYS_INLINE float row_maximum(const struct attention_strip *strip, int64_t row) {
    const float *scores = strip->scores + row * strip->stride;
    lanes scale = lanes_broadcast(strip->scale);
    lanes least = lanes_broadcast(-INFINITY);
    lanes maximum = least;
    for (int64_t c = 0; c < strip->columns; c += LANES) {
        lanes logit = tile_load(scores + c) * scale;
        logit = lanes_select_visible(strip_visible(strip, row, c), logit, least);
        maximum = lanes_max(logit, maximum);
    }
    return lanes_reduce_max(maximum);
}

/* Replaces the scores of a row with their exponentials, and returns the sum of the exponentials. */
ALWAYS_INLINE float exponentiate_row(const struct attention_strip *strip, int64_t row,
                                     float maximum) {
    float *scores = strip->scores + row * strip->stride;
    lanes scale = lanes_broadcast(strip->scale);
    lanes shift = lanes_broadcast(maximum);
    lanes sum = lanes_zero();
    for (int64_t c = 0; c < strip->columns; c += LANES) {
        lanes power = lanes_exp(tile_load(scores + c) * scale - shift);
        power = lanes_select_visible(strip_visible(strip, row, c), power, lanes_zero());
        tile_store(scores + c, power);
        sum += power;
    }
    return lanes_reduce_sum(sum);
}

static void lanes_softmax(const struct attention_strip *strip, float *maxima, float *sums,
                          float *accumulators, int64_t n) {
    for (int64_t r = 0; r < strip->rows; r++) {
        float maximum = row_maximum(strip, r);
        if (maximum > maxima[r]) {
            lanes factor = lanes_exp(lanes_broadcast(maxima[r] - maximum));
            maxima[r] = maximum;
            sums[r] *= factor[0];
            for (int64_t d = r * n; d < (r + 1) * n; d += LANES) {
                tile_store(accumulators + d, tile_load(accumulators + d) * factor);
            }
        }
        sums[r] += exponentiate_row(strip, r, maxima[r]);
    }
}

/* Computes the probabilities of a row, sets the gradients of columns that it does not see to 0, and
 * returns the mean gradient weighted by the probabilities. */
ALWAYS_INLINE float compute_probabilities(const struct attention_strip *strip, int64_t row,
                                          float lse, float *slope) {
    float *scores = strip->scores + row * strip->stride;
    lanes scale = lanes_broadcast(strip->scale);
    lanes shift = lanes_broadcast(lse);
    lanes sum = lanes_zero();
    lanes weighted = lanes_zero();
    for (int64_t c = 0; c < strip->columns; c += LANES) {
        lanes_visible visible = strip_visible(strip, row, c);
        lanes power = lanes_fma(tile_load(scores + c), scale, -shift);
        power = lanes_exp(
            lanes_min(lanes_zero(), power)); /* the exponential is at most 1; NaN stays NaN */
        power = lanes_select_visible(visible, power, lanes_zero());
        lanes rise = lanes_select_visible(visible, tile_load(slope + c), lanes_zero());
        tile_store(scores + c, power);
        tile_store(slope + c, rise);
        sum += power;
        weighted = lanes_fma(power, rise, weighted);
    }
    float total = lanes_reduce_sum(sum);
    return total != 0.0f ? lanes_reduce_sum(weighted) / total : 0.0f;
}

static void lanes_score_gradients(const struct attention_strip *strip, const float *lse,
                                  const float *delta, float *score_gradients) {
    for (int64_t r = 0; r < strip->rows; r++) {
        const float *scores = strip->scores + r * strip->stride;
        float *slope = score_gradients + r * strip->stride;
        float mean = compute_probabilities(strip, r, lse[r], slope);
        lanes shift = lanes_broadcast(strip->is_row_complete[r] ? mean : delta[r]);
        lanes scale = lanes_broadcast(strip->scale);
        for (int64_t c = 0; c < strip->columns; c += LANES) {
            lanes steep = scale * tile_load(scores + c) * (tile_load(slope + c) - shift);
            tile_store(slope + c, steep);
        }
    }
}

static void lanes_row_dots(const float *a, const float *b, int64_t rows, int64_t n, float *dots) {
    for (int64_t r = 0; r < rows; r++) {
        lanes sum = lanes_zero();
        for (int64_t d = r * n; d < (r + 1) * n; d += LANES) {
            sum = lanes_fma(tile_load(a + d), tile_load(b + d), sum);
        }
        dots[r] = lanes_reduce_sum(sum);
    }
}

static const struct attention_kernels attention_lanes = {
    .load_rows = lanes_load_rows,
    .load_columns = lanes_load_columns,
    .store_rows = lanes_store_rows,
    .product = lanes_product,
    .softmax = lanes_softmax,
    .score_gradients = lanes_score_gradients,
    .row_dots = lanes_row_dots,
};

#endif
