/* codec_lanes: encoders and decoders over vectors; included once for each instruction set, after
 * its lanes header and definitions of:
 *   peak_zero, peak_raise, peak_largest   the largest absolute value so far, as bits: for each
 *                                         lane, then over all lanes
 *   codes_of, codes_values                to integers, ties to even; and back, without -0
 *   codes_put8, codes_get8                store and load LANES bytes
 *   codes_put4, codes_get4                LANES / 2 bytes, an even element in the low bits */
#ifndef SKEP_KERNELS_LOOPS_CODEC_LANES_H
#define SKEP_KERNELS_LOOPS_CODEC_LANES_H

#include "kernels/loops/codec.h"

/* Same operations in the same order as in kernels/loops/codec.c, none of them fused, for the same
 * bits. */

ALWAYS_INLINE lanes meant_lanes(const struct codec_part *part, int64_t i) {
    lanes meant = lanes_load(DTYPE_F32, part->source, i, LANES);
    if (part->feedback != NULL) {
        meant = meant + lanes_load(DTYPE_F32, part->feedback, i, LANES);
    }
    return meant;
}

/* ---- fp32 and bf16: whole vectors; the rest in plain C ---- */

ALWAYS_INLINE bool plain_encode(enum codec codec, enum dtype dtype, const struct codec_part *part) {
    codec_peak peak = peak_zero();
    int64_t whole = part->count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        lanes meant = meant_lanes(part, i);
        lanes decoded = lanes_round(dtype, meant);
        peak = peak_raise(peak, decoded);
        lanes_store(dtype, part->bytes, i, LANES, meant);
        if (part->residual != NULL) {
            lanes_store(DTYPE_F32, part->residual, i, LANES, meant - decoded);
        }
    }
    struct codec_part rest = codec_part_from(part, whole, whole * dtype_bytes(dtype));
    return peak_largest(peak) < CODEC_INFINITY_BITS && CODEC_PLAIN[codec].encode(&rest);
}

static bool fp32_encode(const struct codec_part *part) {
    return plain_encode(CODEC_FP32, DTYPE_F32, part);
}

static bool bf16_encode(const struct codec_part *part) {
    return plain_encode(CODEC_BF16, DTYPE_BF16, part);
}

static void bf16_decode(const uint8_t *bytes, int64_t count, float *values) {
    int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        lanes_store(DTYPE_F32, values, i, LANES, lanes_load(DTYPE_BF16, bytes, i, LANES));
    }
    CODEC_PLAIN[CODEC_BF16].decode(bytes + 2 * whole, count - whole, values + whole);
}

ALWAYS_INLINE int64_t plain_add(enum dtype dtype, const uint8_t *bytes, int64_t count, float weight,
                                float *sums) {
    int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        lanes sum = lanes_load(DTYPE_F32, sums, i, LANES);
        lanes_store(DTYPE_F32, sums, i, LANES, sum + weight * lanes_load(dtype, bytes, i, LANES));
    }
    return whole;
}

static void fp32_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    int64_t whole = plain_add(DTYPE_F32, bytes, count, weight, sums);
    CODEC_PLAIN[CODEC_FP32].add(bytes + 4 * whole, count - whole, weight, sums + whole);
}

static void bf16_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    int64_t whole = plain_add(DTYPE_BF16, bytes, count, weight, sums);
    CODEC_PLAIN[CODEC_BF16].add(bytes + 2 * whole, count - whole, weight, sums + whole);
}

/* ---- int8 and int4: whole blocks; the rest in plain C ---- */

ALWAYS_INLINE int64_t block_length(enum codec codec) {
    return codec == CODEC_INT8 ? CODEC_INT8_BLOCK : CODEC_INT4_BLOCK;
}

ALWAYS_INLINE int64_t code_bytes(enum codec codec, int64_t elements) {
    return codec == CODEC_INT8 ? elements : elements / 2;
}

ALWAYS_INLINE int64_t block_bytes(enum codec codec) {
    return codec_scale_bytes(codec) + code_bytes(codec, block_length(codec));
}

/* The source is read twice instead of kept in registers, because a block stays in the first-level
 * cache. */
ALWAYS_INLINE bool block_encode(enum codec codec, const struct codec_part *block) {
    codec_peak peak = peak_zero();
    for (int64_t i = 0; i < block_length(codec); i += LANES) {
        peak = peak_raise(peak, meant_lanes(block, i));
    }
    float scale;
    if (!codec_scale(codec, peak_largest(peak), &scale)) {
        return false;
    }
    float inverse = codec_inverse(scale);
    codec_scale_put(codec, block->bytes, scale);
    uint8_t *to = block->bytes + codec_scale_bytes(codec);
    for (int64_t i = 0; i < block_length(codec); i += LANES) {
        lanes meant = meant_lanes(block, i);
        codec_codes codes = codes_of(meant * inverse);
        if (codec == CODEC_INT8) {
            codes_put8(to + i, codes);
        } else {
            codes_put4(to + i / 2, codes);
        }
        if (block->residual != NULL) {
            lanes_store(DTYPE_F32, block->residual, i, LANES, meant - codes_values(codes) * scale);
        }
    }
    return true;
}

ALWAYS_INLINE bool blocks_encode(enum codec codec, const struct codec_part *part) {
    struct codec_part rest = *part;
    while (rest.count >= block_length(codec)) {
        if (!block_encode(codec, &rest)) {
            return false;
        }
        rest = codec_part_from(&rest, block_length(codec), block_bytes(codec));
    }
    return CODEC_PLAIN[codec].encode(&rest);
}

static bool int8_encode(const struct codec_part *part) {
    return blocks_encode(CODEC_INT8, part);
}

static bool int4_encode(const struct codec_part *part) {
    return blocks_encode(CODEC_INT4, part);
}

ALWAYS_INLINE lanes decoded_lanes(enum codec codec, const uint8_t *codes, int64_t i, float scale) {
    codec_codes some = codec == CODEC_INT8 ? codes_get8(codes + i) : codes_get4(codes + i / 2);
    return codes_values(some) * scale;
}

ALWAYS_INLINE void blocks_decode(enum codec codec, const uint8_t *bytes, int64_t count,
                                 float *values) {
    for (; count >= block_length(codec); count -= block_length(codec)) {
        float scale = codec_scale_get(codec, bytes);
        const uint8_t *codes = bytes + codec_scale_bytes(codec);
        for (int64_t i = 0; i < block_length(codec); i += LANES) {
            lanes_store(DTYPE_F32, values, i, LANES, decoded_lanes(codec, codes, i, scale));
        }
        bytes += block_bytes(codec);
        values += block_length(codec);
    }
    CODEC_PLAIN[codec].decode(bytes, count, values);
}

static void int8_decode(const uint8_t *bytes, int64_t count, float *values) {
    blocks_decode(CODEC_INT8, bytes, count, values);
}

static void int4_decode(const uint8_t *bytes, int64_t count, float *values) {
    blocks_decode(CODEC_INT4, bytes, count, values);
}

ALWAYS_INLINE void blocks_add(enum codec codec, const uint8_t *bytes, int64_t count, float weight,
                              float *sums) {
    for (; count >= block_length(codec); count -= block_length(codec)) {
        float scale = codec_scale_get(codec, bytes);
        const uint8_t *codes = bytes + codec_scale_bytes(codec);
        for (int64_t i = 0; i < block_length(codec); i += LANES) {
            lanes sum = lanes_load(DTYPE_F32, sums, i, LANES);
            lanes decoded = decoded_lanes(codec, codes, i, scale);
            lanes_store(DTYPE_F32, sums, i, LANES, sum + weight * decoded);
        }
        bytes += block_bytes(codec);
        sums += block_length(codec);
    }
    CODEC_PLAIN[codec].add(bytes, count, weight, sums);
}

static void int8_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    blocks_add(CODEC_INT8, bytes, count, weight, sums);
}

static void int4_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    blocks_add(CODEC_INT4, bytes, count, weight, sums);
}

static void codec_lanes_into(struct codec_kernels *kernels) {
    kernels->loops[CODEC_FP32].encode = fp32_encode;
    kernels->loops[CODEC_FP32].add = fp32_add;
    kernels->loops[CODEC_BF16] =
        (struct codec_loops){.encode = bf16_encode, .decode = bf16_decode, .add = bf16_add};
    kernels->loops[CODEC_INT8] =
        (struct codec_loops){.encode = int8_encode, .decode = int8_decode, .add = int8_add};
    kernels->loops[CODEC_INT4] =
        (struct codec_loops){.encode = int4_encode, .decode = int4_decode, .add = int4_add};
}

#endif
