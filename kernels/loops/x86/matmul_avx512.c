/* matmul kernels for AVX-512 without bf16 products: bf16 becomes fp32 while it is packed. */
#define MATMUL_STEP(sum, a, b) _mm512_fmadd_ps(a, b, sum)
#include "kernels/loops/x86/matmul_avx512.h"

ALWAYS_INLINE __m512i load_words(const void *source, int64_t index, __mmask16 lanes, bool bf16) {
    if (bf16) {
        const uint16_t *from = (const uint16_t *)source + index;
        __m512i is_f32 = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from));
        return _mm512_slli_epi32(is_f32, 16);
    }
    return _mm512_maskz_loadu_epi32(lanes, (const uint32_t *)source + index);
}

/* The address may be past the end of the source, because a prefetch never faults. */
ALWAYS_INLINE void prefetch_lane(const void *source, int64_t index, bool bf16) {
    uintptr_t address = (uintptr_t)source + (uintptr_t)index * (bf16 ? 2 : 4);
    _mm_prefetch((const char *)address, _MM_HINT_T0);
}

/* Pack 16 lanes of a source [depth, lanes], from lane `first` on. */
ALWAYS_INLINE void pack_contiguous(const struct matmul_pack *pack, int64_t first, bool bf16) {
    __mmask16 read = lane_mask(pack->lanes - first);
    __mmask16 write = lane_mask(pack->width - first);
    const void *source = pack->source;
    uint32_t *out = (uint32_t *)pack->out + first;
    int64_t index = first;
    int64_t stride = pack->stride;
    int64_t width = pack->width;
    for (int64_t left = pack->depth; left != 0; left--) {
        prefetch_lane(source, index + PREFETCH_ROWS * stride, bf16);
        __m512i words = load_words(source, index, read, bf16);
        store_step(out, words, width, write, left);
        index += stride;
        out += width;
    }
}

/* Pack all 32 lanes of a source [depth, lanes]. */
ALWAYS_INLINE void pack_contiguous_pair(const struct matmul_pack *pack, bool bf16) {
    const void *source = pack->source;
    uint32_t *out = pack->out;
    int64_t index = 0;
    int64_t stride = pack->stride;
    for (int64_t left = pack->depth; left != 0; left--) {
        prefetch_lane(source, index + PREFETCH_ROWS * stride, bf16);
        prefetch_lane(source, index + PREFETCH_ROWS * stride + TILE_COLUMNS - 1, bf16);
        _mm512_storeu_si512(out, load_words(source, index, 0xffff, bf16));
        _mm512_storeu_si512(out + LANES, load_words(source, index + LANES, 0xffff, bf16));
        index += stride;
        out += TILE_COLUMNS;
    }
}

/* Pack 16 lanes of a source [lanes, depth], from lane `first` on. */
ALWAYS_INLINE void pack_transposed(const struct matmul_pack *pack, int64_t first, bool bf16) {
    const void *source = pack->source;
    int64_t stride = pack->stride;
    int64_t width = pack->width;
    int64_t lanes = pack->lanes - first;
    __mmask16 write = lane_mask(width - first);
    uint32_t *out = (uint32_t *)pack->out + first;
    int64_t index = first * stride;
    for (int64_t left = pack->depth; left > 0; left -= LANES) {
        __mmask16 read = lane_mask(left);
        __m512i words[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            words[i] =
                load_words(source, i < lanes ? index + i * stride : 0, i < lanes ? read : 0, bf16);
            prefetch_lane(source, index + (LANES + i) * stride, bf16);
        }
        transpose_words(words);
        store_steps(words, out, width, write, left);
        index += LANES;
        out += LANES * width;
    }
}

ALWAYS_INLINE void pack_panel(const struct matmul_pack *pack, bool bf16) {
    if (pack->lanes_contiguous && pack->lanes == TILE_COLUMNS) {
        pack_contiguous_pair(pack, bf16);
        return;
    }
    for (int64_t first = 0; first < pack->width; first += LANES) {
        if (pack->lanes_contiguous) {
            pack_contiguous(pack, first, bf16);
        } else {
            pack_transposed(pack, first, bf16);
        }
    }
}

static void pack_f32(const struct matmul_pack *pack) {
    pack_panel(pack, false);
}

static void pack_bf16(const struct matmul_pack *pack) {
    pack_panel(pack, true);
}

void matmul_kernels_init_avx512(struct matmul_kernels *kernels) {
    matmul_tiles_init(&kernels->f32);
    matmul_tiles_init(&kernels->bf16);
    kernels->f32.pack = pack_f32;
    kernels->bf16.pack = pack_bf16;
}
