/* Attention for AVX2: products keep 8 or 12 sums of 8 floats in registers. */
#include "kernels/loops/x86/lanes_avx2.h"

enum { ATTENTION_PANEL_VECTORS = 3 }; /* maximum width of a panel in vectors */

typedef __m256 lanes_visible;

ALWAYS_INLINE lanes_visible lanes_visible_between(int64_t first, int64_t last) {
    return _mm256_castsi256_ps(_mm256_andnot_si256(lanes_mask(first), lanes_mask(last)));
}

ALWAYS_INLINE lanes lanes_select_visible(lanes_visible visible, lanes value, lanes other) {
    return _mm256_blendv_ps(other, value, visible);
}

/* Transpose the rows: first within groups of four floats, then by exchanging the groups. */
ALWAYS_INLINE void lanes_transpose(lanes rows[LANES]) {
    lanes fours[LANES];
#pragma GCC unroll 2
    for (int i = 0; i < LANES; i += 4) {
        lanes low01 = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
        lanes high01 = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
        lanes low23 = _mm256_unpacklo_ps(rows[i + 2], rows[i + 3]);
        lanes high23 = _mm256_unpackhi_ps(rows[i + 2], rows[i + 3]);
        fours[i] = _mm256_shuffle_ps(low01, low23, 0x44);
        fours[i + 1] = _mm256_shuffle_ps(low01, low23, 0xee);
        fours[i + 2] = _mm256_shuffle_ps(high01, high23, 0x44);
        fours[i + 3] = _mm256_shuffle_ps(high01, high23, 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        rows[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
        rows[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
}

#include "kernels/loops/attention_lanes.h"

/* The width of a panel is two or three vectors, because n is an even number of vectors. */
static void attention_compute_panel(const struct attention_product *args, int64_t j,
                                    int64_t vectors) {
    for (int64_t i = 0; i < args->m; i += ATTENTION_ROW_GROUP) {
        if (vectors == ATTENTION_PANEL_VECTORS) {
            multiply_block(args, i, j, ATTENTION_ROW_GROUP, ATTENTION_PANEL_VECTORS);
        } else {
            multiply_block(args, i, j, ATTENTION_ROW_GROUP, 2);
        }
    }
}

void attention_kernels_init_avx2(struct attention_kernels *kernels) {
    *kernels = attention_lanes;
}
