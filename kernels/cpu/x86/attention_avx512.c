/* Attention's innermost loops for AVX-512: products with 16 sums of 16 floats in registers, the
 * softmax with one vector of row statistics for each strip. */
#include "base/check.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/x86/vector_lanes_avx512.h"
#include "kernels/cpu/x86/vector_math_avx512.h"

#include <math.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum {
    LANES = VECTOR_LANES_AVX512,
};
_Static_assert((int)LANES == (int)ATTENTION_LANES, "tiles are padded to vectors");
_Static_assert((int)LANES == (int)ATTENTION_STRIP, "a strip's statistics fill a vector");
_Static_assert(ATTENTION_KEY_TILE <= 64, "a row's mask has 64 bits");

static int64_t padded(int64_t dim) {
    return (dim + LANES - 1) / LANES * LANES;
}

static void load_rows(const struct attention_block *block, const void *from, float *tile) {
    int64_t width = padded(block->dim);
    for (int64_t r = 0; r < block->rows; r++) {
        for (int64_t d = 0; d < width; d += LANES) {
            __m512 value = vload_avx512(block->dtype, from, r * block->stride + d,
                                        vlanes_avx512(block->dim - d));
            _mm512_store_ps(tile + r * width + d, value);
        }
    }
}

static void load_columns(const struct attention_block *block, const void *from, float *tile) {
    for (int64_t r = 0; r < block->rows; r += LANES) {
        for (int64_t d = 0; d < block->dim; d += LANES) {
            __m512 square[LANES];
            __mmask16 lanes = vlanes_avx512(block->dim - d);
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) {
                square[i] = r + i < block->rows ? vload_avx512(block->dtype, from,
                                                               (r + i) * block->stride + d, lanes)
                                                : _mm512_setzero_ps();
            }
            vturn_avx512(square);
            float *to = tile + d * ATTENTION_KEY_TILE + r;
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) {
                if (d + i < block->dim) {
                    _mm512_store_ps(to + i * ATTENTION_KEY_TILE, square[i]);
                }
            }
        }
    }
}

static void store_rows(const struct attention_block *block, const float *tile, const float *factors,
                       void *to) {
    int64_t width = padded(block->dim);
    for (int64_t r = 0; r < block->rows; r++) {
        __m512 factor = _mm512_set1_ps(factors ? factors[r] : 1.0f);
        for (int64_t d = 0; d < width; d += LANES) {
            __m512 value = _mm512_mul_ps(_mm512_load_ps(tile + r * width + d), factor);
            vstore_avx512(block->dtype, to, r * block->stride + d, vlanes_avx512(block->dim - d),
                          value);
        }
    }
}

/* Unrolled for rows x vectors sums, which then stay in registers over all of k. */
ALWAYS_INLINE void product_block(const struct attention_product *args, int64_t i, int64_t j,
                                 const int rows, const int vectors) {
    __m512 sums[8][4];
    float *c = args->c + i * args->c_stride + j;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sums[r][v] = args->accumulate ? _mm512_load_ps(c + r * args->c_stride + v * LANES)
                                          : _mm512_setzero_ps();
        }
    }
    const float *a = args->a + i * args->a_row;
    const float *b = args->b + j;
    int64_t a_row = args->a_row;
    int64_t a_step = args->a_step;
    int64_t b_stride = args->b_stride;
    for (int64_t p = args->k; p != 0; p--) {
        __m512 line[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            line[v] = _mm512_load_ps(b + v * LANES);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            __m512 value = _mm512_set1_ps(a[r * a_row]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                sums[r][v] = _mm512_fmadd_ps(value, line[v], sums[r][v]);
            }
        }
        a += a_step;
        b += b_stride;
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            _mm512_store_ps(c + r * args->c_stride + v * LANES, sums[r][v]);
        }
    }
}

/* All rows of `vectors` columns: eight at a time where 8 x vectors sums fit, then four. */
ALWAYS_INLINE void product_columns(const struct attention_product *args, int64_t j,
                                   const int vectors) {
    int64_t i = 0;
    if (vectors < 4) {
        for (; i + 8 <= args->m; i += 8) {
            product_block(args, i, j, 8, vectors);
        }
    }
    for (; i < args->m; i += 4) {
        product_block(args, i, j, 4, vectors);
    }
}

/* Columns go in panels of at most four vectors, as even as can be: 80 = 48 + 32. */
static void product(const struct attention_product *args) {
    int64_t vectors = args->n / LANES;
    int64_t j = 0;
    for (int64_t panels = (vectors + 3) / 4; panels != 0; panels--) {
        int64_t width = (vectors + panels - 1) / panels;
        switch (width) {
        case 4:
            product_columns(args, j, 4);
            break;
        case 3:
            product_columns(args, j, 3);
            break;
        case 2:
            product_columns(args, j, 2);
            break;
        default:
            product_columns(args, j, 1);
        }
        vectors -= width;
        j += width * LANES;
    }
}

/* Columns [first, last) of up to 64. */
ALWAYS_INLINE uint64_t seen_columns(const struct attention_strip *strip, int64_t row) {
    uint64_t below_last = strip->last[row] == 0 ? 0 : ~(uint64_t)0 >> (64 - strip->last[row]);
    uint64_t below_first = strip->first[row] == 0 ? 0 : ~(uint64_t)0 >> (64 - strip->first[row]);
    return below_last & ~below_first;
}

ALWAYS_INLINE __m512 strip_maxima(const struct attention_strip *strip) {
    _Alignas(64) float maxima[ATTENTION_STRIP];
    __m512 scale = _mm512_set1_ps(strip->scale);
    for (int64_t r = 0; r < strip->rows; r++) {
        const float *scores = strip->scores + r * strip->stride;
        uint64_t seen = seen_columns(strip, r);
        __m512 maximum = _mm512_set1_ps(-INFINITY);
        for (int64_t c = 0; c < strip->columns; c += LANES) {
            __m512 logit = _mm512_mul_ps(_mm512_load_ps(scores + c), scale);
            maximum = _mm512_mask_max_ps(maximum, (__mmask16)(seen >> c), logit, maximum);
        }
        maxima[r] = _mm512_reduce_max_ps(maximum);
    }
    return _mm512_maskz_load_ps(vlanes_avx512(strip->rows), maxima);
}

ALWAYS_INLINE float exponentiate_row(const struct attention_strip *strip, int64_t row,
                                     float maximum) {
    float *scores = strip->scores + row * strip->stride;
    uint64_t seen = seen_columns(strip, row);
    __m512 scale = _mm512_set1_ps(strip->scale);
    __m512 shift = _mm512_set1_ps(maximum);
    __m512 sum = _mm512_setzero_ps();
    for (int64_t c = 0; c < strip->columns; c += LANES) {
        __m512 logit = _mm512_mul_ps(_mm512_load_ps(scores + c), scale);
        __m512 power =
            _mm512_maskz_mov_ps((__mmask16)(seen >> c), vexp_avx512(_mm512_sub_ps(logit, shift)));
        _mm512_store_ps(scores + c, power);
        sum = _mm512_add_ps(sum, power);
    }
    return _mm512_reduce_add_ps(sum);
}

static void softmax(const struct attention_strip *strip, float *maxima, float *sums,
                    float *accumulators, int64_t n) {
    _Alignas(64) float factors[ATTENTION_STRIP];
    __mmask16 rows = vlanes_avx512(strip->rows);
    __m512 before = _mm512_maskz_loadu_ps(rows, maxima);
    __m512 after = _mm512_max_ps(strip_maxima(strip), before);
    __mmask16 rises = _mm512_mask_cmp_ps_mask(rows, after, before, _CMP_GT_OQ);
    __m512 factor =
        _mm512_mask_mov_ps(_mm512_set1_ps(1.0f), rises, vexp_avx512(_mm512_sub_ps(before, after)));
    _mm512_store_ps(factors, factor);
    _mm512_mask_storeu_ps(maxima, rows, after);
    for (int64_t r = 0; r < strip->rows; r++) {
        if ((rises >> r & 1) != 0) {
            for (int64_t d = 0; d < n; d += LANES) {
                float *to = accumulators + r * n + d;
                _mm512_store_ps(to, _mm512_mul_ps(_mm512_load_ps(to), _mm512_set1_ps(factors[r])));
            }
        }
        sums[r] = sums[r] * factors[r] + exponentiate_row(strip, r, maxima[r]);
    }
}

static void slopes(const struct attention_strip *strip, const float *lse, const float *delta,
                   float *slopes) {
    __m512 scale = _mm512_set1_ps(strip->scale);
    for (int64_t r = 0; r < strip->rows; r++) {
        float *scores = strip->scores + r * strip->stride;
        float *slope = slopes + r * strip->stride;
        uint64_t seen = seen_columns(strip, r);
        __m512 shift = _mm512_set1_ps(lse[r]);
        __m512 mean = _mm512_set1_ps(delta[r]);
        for (int64_t c = 0; c < strip->columns; c += LANES) {
            __mmask16 lanes = (__mmask16)(seen >> c);
            __m512 logit = _mm512_mul_ps(_mm512_load_ps(scores + c), scale);
            __m512 power = _mm512_maskz_mov_ps(lanes, vexp_avx512(_mm512_sub_ps(logit, shift)));
            __m512 steep = _mm512_maskz_sub_ps(lanes, _mm512_load_ps(slope + c), mean);
            _mm512_store_ps(scores + c, power);
            _mm512_store_ps(slope + c, _mm512_mul_ps(_mm512_mul_ps(scale, power), steep));
        }
    }
}

static void row_dots(const float *a, const float *b, int64_t rows, int64_t n, float *dots) {
    for (int64_t r = 0; r < rows; r++) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t d = r * n; d < (r + 1) * n; d += LANES) {
            sum = _mm512_fmadd_ps(_mm512_load_ps(a + d), _mm512_load_ps(b + d), sum);
        }
        dots[r] = _mm512_reduce_add_ps(sum);
    }
}

void attention_kernels_init_avx512(struct attention_kernels *kernels) {
    *kernels = (struct attention_kernels){
        .load_rows = load_rows,
        .load_columns = load_columns,
        .store_rows = store_rows,
        .product = product,
        .softmax = softmax,
        .slopes = slopes,
        .row_dots = row_dots,
    };
}
