/* Attention for AVX-512: products keep 16 to 24 sums of 16 floats in registers. */
#include "kernels/loops/x86/lanes_avx512.h"

enum { ATTENTION_PANEL_VECTORS = 4 }; /* maximum width of a panel in vectors */

typedef __mmask16 lanes_visible;

ALWAYS_INLINE lanes_visible lanes_visible_between(int64_t first, int64_t last) {
    return (lanes_visible)(lanes_mask(last) & ~lanes_mask(first));
}

ALWAYS_INLINE lanes lanes_select_visible(lanes_visible visible, lanes value, lanes other) {
    return _mm512_mask_mov_ps(other, visible, value);
}

/* Transpose the rows: first within groups of four floats, then by exchanging the groups. */
ALWAYS_INLINE void lanes_transpose(lanes rows[LANES]) {
    lanes fours[LANES];
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 4) {
        lanes low01 = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
        lanes high01 = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
        lanes low23 = _mm512_unpacklo_ps(rows[i + 2], rows[i + 3]);
        lanes high23 = _mm512_unpackhi_ps(rows[i + 2], rows[i + 3]);
        fours[i] = _mm512_shuffle_ps(low01, low23, 0x44);
        fours[i + 1] = _mm512_shuffle_ps(low01, low23, 0xee);
        fours[i + 2] = _mm512_shuffle_ps(high01, high23, 0x44);
        fours[i + 3] = _mm512_shuffle_ps(high01, high23, 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        lanes even_low = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0x88);
        lanes odd_low = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0xdd);
        lanes even_high = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0x88);
        lanes odd_high = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0xdd);
        rows[i] = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
        rows[i + 4] = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
        rows[i + 8] = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
        rows[i + 12] = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
    }
}

#include "kernels/loops/attention_lanes.h"

/* Compute eight rows at a time if their sums fit in 24 registers, else four. */
ALWAYS_INLINE void compute_panel(const struct attention_product *args, int64_t j,
                                 const int vectors) {
    int64_t i = 0;
    for (; vectors < 4 && i + 8 <= args->m; i += 8) {
        multiply_block(args, i, j, 8, vectors);
    }
    for (; i < args->m; i += ATTENTION_ROW_GROUP) {
        multiply_block(args, i, j, ATTENTION_ROW_GROUP, vectors);
    }
}

static void attention_compute_panel(const struct attention_product *args, int64_t j,
                                    int64_t vectors) {
    switch (vectors) {
    case 1:
        compute_panel(args, j, 1);
        break;
    case 2:
        compute_panel(args, j, 2);
        break;
    case 3:
        compute_panel(args, j, 3);
        break;
    default:
        compute_panel(args, j, ATTENTION_PANEL_VECTORS);
    }
}

void attention_kernels_init_avx512(struct attention_kernels *kernels) {
    *kernels = attention_lanes;
}
