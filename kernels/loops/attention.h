/* attention kernels: the innermost loops of kernels/attention.h with a variant for each instruction
 * set. They work on tiles of floats in the caller's workspace.
 *
 *               head_dim_padded                 ATTENTION_KEY_TILE
 *             +----------------+              +--------------------+
 *   rows of   |  queries, outs |    scores    | strip of 16 rows   |   columns of a product are
 *   tokens    |  keys, values  |    (or P,    +--------------------+   whole multiples of
 *             +----------------+     dS)      | next strip         |   ATTENTION_LANES
 *                                             +--------------------+
 *
 * Tiles are 64-byte aligned; so is each of their rows. */
#ifndef SKEP_KERNELS_LOOPS_ATTENTION_H
#define SKEP_KERNELS_LOOPS_ATTENTION_H

#include "base/dtype.h"
#include "kernels/cpu_level.h"

enum {
    /* the widest vector, in floats; tiles are padded to it at every level */
    ATTENTION_LANES = 16,
    ATTENTION_STRIP = 16,    /* number of rows that are masked together: one vector of maxima */
    ATTENTION_ROW_GROUP = 4, /* products compute multiples of this number of rows */
    ATTENTION_KEY_TILE = 64, /* transposed, with head dim 64, a tile fills a third of a 48 KiB L1 */
};

/* The layout of a block of tokens in a tensor, `rows` rows of `dim` elements. Its address is passed
 * separately. */
struct attention_layout {
    int64_t rows, dim; /* number of rows; elements of a row */
    int64_t stride;    /* elements from one row to the next */
    enum dtype dtype;  /* type of the stored rows */
};

/* C[m, n] = A[m, k] * B[k, n] (+ C). Each sum runs over k in ascending order, in one
 * accumulator. */
struct attention_product {
    int64_t m, n, k;                  /* sizes of the product */
    const float *a;                   /* element (i, p) is a[i * a_row_stride + p * a_k_stride] */
    int64_t a_row_stride, a_k_stride; /* in elements */
    const float *b;                   /* [k, n] */
    int64_t b_stride;                 /* elements from one row of B to the next */
    float *c;                         /* [m, n] result */
    int64_t c_stride;                 /* elements from one row of C to the next */
    bool accumulate;                  /* true: add to C; false: overwrite it */
};

/* A strip of scores and the columns [first[r], last[r]) that its row r sees. */
struct attention_strip {
    int64_t rows, columns; /* columns % ATTENTION_LANES == 0 */
    int64_t stride;        /* elements from one row of scores, or of their gradients, to the next */
    const int32_t *first, *last; /* [rows] columns [first, last) are visible to the row */
    /* [rows] whether the row sees no other columns; for score_gradients */
    const bool *is_row_complete;
    float scale; /* factor of the scores before the softmax */
    /* in: unscaled q . k, defined where visible; out: probabilities, 0 elsewhere */
    /* [rows, stride]. The softmax replaces them by exp(score - maximum), not divided by the sum;
     * score_gradients replaces them by probabilities. */
    float *scores;
};

struct attention_kernels {
    /* load_rows: tile[rows, padded dim] = block, padded with 0. */
    void (*load_rows)(const struct attention_layout *block, const void *from, float *tile);

    /* load_columns: tile[dim, ATTENTION_KEY_TILE] = transpose of block; columns from `rows` up to
     * the next multiple of ATTENTION_LANES are 0. */
    void (*load_columns)(const struct attention_layout *block, const void *from, float *tile);

    /* store_rows: to = tile * factors[row], rounded once; factors NULL: all are 1. */
    void (*store_rows)(const struct attention_layout *block, const float *tile,
                       const float *factors, void *to);

    /* product: see struct attention_product. m % ATTENTION_ROW_GROUP == 0, n % ATTENTION_LANES ==
     * 0; c overlaps neither a nor b. */
    void (*product)(const struct attention_product *product);

    /* softmax: one step of the online softmax. maxima and sums [rows] are carried from tile to tile
     * (initially -infinity and 0); the accumulators [rows, n] are scaled down when a maximum
     * rises. */
    void (*softmax)(const struct attention_strip *strip, float *maxima, float *sums,
                    float *accumulators, int64_t n);

    /* score_gradients: scores become probabilities exp(scale * score - lse[r]); gradients dout . v
     * become dS = scale * probability * (gradient - mean), and 0 where not visible. The mean is
     * delta[r], or for a complete row the mean of these gradients weighted by these probabilities:
     * dS then sums to 0 up to one rounding, whereas the error of delta would appear as noise in the
     * gradient of a key bias. */
    void (*score_gradients)(const struct attention_strip *strip, const float *lse,
                            const float *delta, float *score_gradients);

    /* row_dots: dots[r] = sum over n of a[r, n] * b[r, n]; the stride of both is n, a multiple of
     * ATTENTION_LANES. */
    void (*row_dots)(const float *a, const float *b, int64_t rows, int64_t n, float *dots);
};

/* attention_kernels_init: fill *kernels with the plain C functions, then replace them with the
 * faster variants of each level up to `level`. */
void attention_kernels_init(struct attention_kernels *kernels, enum cpu_level level);

/* Each of these functions replaces the functions for which its level has a faster variant. */
void attention_kernels_init_avx2(struct attention_kernels *kernels);
void attention_kernels_init_avx512(struct attention_kernels *kernels);

#endif
