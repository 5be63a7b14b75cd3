/* codec_lanes: encoders and decoders over vectors; included once for each instruction set, after
 * its lanes header and definitions of:
 *   absmax_zero, absmax_update               the largest absolute value so far of each lane, as
 *   bits
 *   absmax_reduce                          the largest of these over all lanes
 *   codes_from_lanes, codes_to_lanes     convert to integers, ties to even; and back, without -0
 *   codes_store_int8, codes_load_int8    store and load LANES bytes
 *   codes_store_int4, codes_load_int4    store and load LANES / 2 bytes, even elements in low bits
 */
#ifndef SKEP_KERNELS_LOOPS_CODEC_LANES_H
#define SKEP_KERNELS_LOOPS_CODEC_LANES_H

#include "kernels/loops/codec.h"

/* The operations and their order are the same as in kernels/loops/codec.c, and none are fused, so
 * that the bits are the same. */

ALWAYS_INLINE lanes lanes_with_feedback(const struct codec_part *part, int64_t i) {
    lanes adjusted = lanes_load(DTYPE_F32, part->source, i, LANES);
    if (part->feedback != NULL) {
        adjusted = adjusted + lanes_load(DTYPE_F32, part->feedback, i, LANES);
    }
    return adjusted;
}

/* ---- fp32 and bf16: whole vectors here; the remainder in plain C ---- */

ALWAYS_INLINE bool encode_elements(enum codec codec, enum dtype dtype,
                                   const struct codec_part *part) {
    codec_absmax absmax = absmax_zero();
    int64_t whole = part->count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        lanes adjusted = lanes_with_feedback(part, i);
        lanes decoded = lanes_round_to_dtype(dtype, adjusted);
        absmax = absmax_update(absmax, decoded);
        lanes_store(dtype, part->bytes, i, LANES, adjusted);
        if (part->residual != NULL) {
            lanes_store(DTYPE_F32, part->residual, i, LANES, adjusted - decoded);
        }
    }
    struct codec_part rest = codec_part_skip(part, whole, whole * dtype_bytes(dtype));
    return absmax_reduce(absmax) < CODEC_INFINITY_BITS && CODEC_PORTABLE[codec].encode(&rest);
}

static bool fp32_encode(const struct codec_part *part) {
    return encode_elements(CODEC_FP32, DTYPE_F32, part);
}

static bool bf16_encode(const struct codec_part *part) {
    return encode_elements(CODEC_BF16, DTYPE_BF16, part);
}

static void bf16_decode(const uint8_t *bytes, int64_t count, float *values) {
    int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        lanes_store(DTYPE_F32, values, i, LANES, lanes_load(DTYPE_BF16, bytes, i, LANES));
    }
    CODEC_PORTABLE[CODEC_BF16].decode(bytes + 2 * whole, count - whole, values + whole);
}

ALWAYS_INLINE int64_t add_decoded_elements(enum dtype dtype, const uint8_t *bytes, int64_t count,
                                           float weight, float *sums) {
    int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        lanes sum = lanes_load(DTYPE_F32, sums, i, LANES);
        lanes_store(DTYPE_F32, sums, i, LANES, sum + weight * lanes_load(dtype, bytes, i, LANES));
    }
    return whole;
}

static void fp32_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    int64_t whole = add_decoded_elements(DTYPE_F32, bytes, count, weight, sums);
    CODEC_PORTABLE[CODEC_FP32].add(bytes + 4 * whole, count - whole, weight, sums + whole);
}

static void bf16_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    int64_t whole = add_decoded_elements(DTYPE_BF16, bytes, count, weight, sums);
    CODEC_PORTABLE[CODEC_BF16].add(bytes + 2 * whole, count - whole, weight, sums + whole);
}

/* ---- int8 and int4: whole blocks here; the remainder in plain C ---- */

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
ALWAYS_INLINE bool encode_block(enum codec codec, const struct codec_part *block) {
    codec_absmax absmax = absmax_zero();
    for (int64_t i = 0; i < block_length(codec); i += LANES) {
        absmax = absmax_update(absmax, lanes_with_feedback(block, i));
    }
    float scale;
    if (!codec_compute_scale(codec, absmax_reduce(absmax), &scale)) {
        return false;
    }
    float inverse = codec_inverse_scale(scale);
    codec_store_scale(codec, block->bytes, scale);
    uint8_t *to = block->bytes + codec_scale_bytes(codec);
    for (int64_t i = 0; i < block_length(codec); i += LANES) {
        lanes adjusted = lanes_with_feedback(block, i);
        codec_codes codes = codes_from_lanes(adjusted * inverse);
        if (codec == CODEC_INT8) {
            codes_store_int8(to + i, codes);
        } else {
            codes_store_int4(to + i / 2, codes);
        }
        if (block->residual != NULL) {
            lanes_store(DTYPE_F32, block->residual, i, LANES,
                        adjusted - codes_to_lanes(codes) * scale);
        }
    }
    return true;
}

ALWAYS_INLINE bool encode_blocks(enum codec codec, const struct codec_part *part) {
    struct codec_part rest = *part;
    while (rest.count >= block_length(codec)) {
        if (!encode_block(codec, &rest)) {
            return false;
        }
        rest = codec_part_skip(&rest, block_length(codec), block_bytes(codec));
    }
    return CODEC_PORTABLE[codec].encode(&rest);
}

static bool int8_encode(const struct codec_part *part) {
    return encode_blocks(CODEC_INT8, part);
}

static bool int4_encode(const struct codec_part *part) {
    return encode_blocks(CODEC_INT4, part);
}

ALWAYS_INLINE lanes decode_lanes(enum codec codec, const uint8_t *codes, int64_t i, float scale) {
    codec_codes some =
        codec == CODEC_INT8 ? codes_load_int8(codes + i) : codes_load_int4(codes + i / 2);
    return codes_to_lanes(some) * scale;
}

ALWAYS_INLINE void decode_blocks(enum codec codec, const uint8_t *bytes, int64_t count,
                                 float *values) {
    for (; count >= block_length(codec); count -= block_length(codec)) {
        float scale = codec_load_scale(codec, bytes);
        const uint8_t *codes = bytes + codec_scale_bytes(codec);
        for (int64_t i = 0; i < block_length(codec); i += LANES) {
            lanes_store(DTYPE_F32, values, i, LANES, decode_lanes(codec, codes, i, scale));
        }
        bytes += block_bytes(codec);
        values += block_length(codec);
    }
    CODEC_PORTABLE[codec].decode(bytes, count, values);
}

static void int8_decode(const uint8_t *bytes, int64_t count, float *values) {
    decode_blocks(CODEC_INT8, bytes, count, values);
}

static void int4_decode(const uint8_t *bytes, int64_t count, float *values) {
    decode_blocks(CODEC_INT4, bytes, count, values);
}

ALWAYS_INLINE void add_blocks(enum codec codec, const uint8_t *bytes, int64_t count, float weight,
                              float *sums) {
    for (; count >= block_length(codec); count -= block_length(codec)) {
        float scale = codec_load_scale(codec, bytes);
        const uint8_t *codes = bytes + codec_scale_bytes(codec);
        for (int64_t i = 0; i < block_length(codec); i += LANES) {
            lanes sum = lanes_load(DTYPE_F32, sums, i, LANES);
            lanes decoded = decode_lanes(codec, codes, i, scale);
            lanes_store(DTYPE_F32, sums, i, LANES, sum + weight * decoded);
        }
        bytes += block_bytes(codec);
        sums += block_length(codec);
    }
    CODEC_PORTABLE[codec].add(bytes, count, weight, sums);
}

static void int8_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    add_blocks(CODEC_INT8, bytes, count, weight, sums);
}

static void int4_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    add_blocks(CODEC_INT4, bytes, count, weight, sums);
}

static void codec_lanes_init(struct codec_kernels *kernels) {
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
