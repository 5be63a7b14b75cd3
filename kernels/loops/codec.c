#include "kernels/loops/codec.h"

#include "kernels/loops/element.h"

static uint32_t magnitude_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & CODEC_MAGNITUDE_MASK;
}

static float element_with_feedback(const struct codec_part *part, int64_t i) {
    return part->feedback == NULL ? part->source[i] : part->source[i] + part->feedback[i];
}

/* ---- fp32 and bf16 ---- */

static bool encode_elements(const struct codec_part *part, enum dtype dtype) {
    uint32_t peak = 0;
    for (int64_t i = 0; i < part->count; i++) {
        float adjusted = element_with_feedback(part, i);
        float decoded = element_round(adjusted, dtype);
        uint32_t size = magnitude_bits(decoded);
        peak = size > peak ? size : peak;
        element_store(part->bytes, dtype, i, adjusted);
        if (part->residual != NULL) {
            part->residual[i] = adjusted - decoded;
        }
    }
    return peak < CODEC_INFINITY_BITS;
}

static bool fp32_encode(const struct codec_part *part) {
    return encode_elements(part, DTYPE_F32);
}

static bool bf16_encode(const struct codec_part *part) {
    return encode_elements(part, DTYPE_BF16);
}

static void fp32_decode(const uint8_t *bytes, int64_t count, float *values) {
    memcpy(values, bytes, (size_t)count * sizeof *values);
}

static void bf16_decode(const uint8_t *bytes, int64_t count, float *values) {
    for (int64_t i = 0; i < count; i++) {
        values[i] = element_load(bytes, DTYPE_BF16, i);
    }
}

static void fp32_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    for (int64_t i = 0; i < count; i++) {
        sums[i] = sums[i] + weight * element_load(bytes, DTYPE_F32, i);
    }
}

static void bf16_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    for (int64_t i = 0; i < count; i++) {
        sums[i] = sums[i] + weight * element_load(bytes, DTYPE_BF16, i);
    }
}

/* ---- int8 and int4 ---- */

/* Adding NEAREST rounds a number of magnitude below 2^22 to an integer, ties to even, because the
 * sum has no bits for fractions. */
static const float NEAREST = 0x1.8p23f;

static void store_code(enum codec codec, uint8_t *codes, int64_t i, int code) {
    if (codec == CODEC_INT8) {
        codes[i] = (uint8_t)code;
    } else if (i % 2 == 0) {
        codes[i / 2] = (uint8_t)(code & 0xf);
    } else {
        codes[i / 2] = (uint8_t)(codes[i / 2] | (unsigned)(code & 0xf) << 4);
    }
}

static int load_code(enum codec codec, const uint8_t *codes, int64_t i) {
    if (codec == CODEC_INT8) {
        return (int8_t)codes[i];
    }
    int nibble = i % 2 == 0 ? codes[i / 2] & 0xf : codes[i / 2] >> 4;
    return (nibble ^ 8) - 8;
}

static bool encode_block(enum codec codec, const struct codec_part *block) {
    uint32_t peak = 0;
    for (int64_t i = 0; i < block->count; i++) {
        uint32_t size = magnitude_bits(element_with_feedback(block, i));
        peak = size > peak ? size : peak;
    }
    float scale;
    if (!codec_compute_scale(codec, peak, &scale)) {
        return false;
    }
    float inverse = codec_inverse_scale(scale);
    codec_store_scale(codec, block->bytes, scale);
    uint8_t *codes = block->bytes + codec_scale_bytes(codec);
    for (int64_t i = 0; i < block->count; i++) {
        float adjusted = element_with_feedback(block, i);
        float code = (adjusted * inverse + NEAREST) - NEAREST;
        store_code(codec, codes, i, (int)code);
        if (block->residual != NULL) {
            block->residual[i] = adjusted - code * scale;
        }
    }
    return true;
}

static bool encode_blocks(enum codec codec, const struct codec_part *part) {
    int64_t length = codec_block_elements(codec);
    int64_t bytes = (int64_t)codec_bytes(codec, length);
    for (int64_t first = 0; first < part->count; first += length) {
        struct codec_part block = codec_part_skip(part, first, first / length * bytes);
        block.count = block.count < length ? block.count : length;
        if (!encode_block(codec, &block)) {
            return false;
        }
    }
    return true;
}

static bool int8_encode(const struct codec_part *part) {
    return encode_blocks(CODEC_INT8, part);
}

static bool int4_encode(const struct codec_part *part) {
    return encode_blocks(CODEC_INT4, part);
}

static void decode_blocks(enum codec codec, const uint8_t *bytes, int64_t count, float *values) {
    int64_t length = codec_block_elements(codec);
    for (int64_t first = 0; first < count; first += length) {
        float scale = codec_load_scale(codec, bytes);
        int64_t end = count - first < length ? count : first + length;
        for (int64_t i = first; i < end; i++) {
            values[i] =
                (float)load_code(codec, bytes + codec_scale_bytes(codec), i - first) * scale;
        }
        bytes += codec_bytes(codec, length);
    }
}

static void int8_decode(const uint8_t *bytes, int64_t count, float *values) {
    decode_blocks(CODEC_INT8, bytes, count, values);
}

static void int4_decode(const uint8_t *bytes, int64_t count, float *values) {
    decode_blocks(CODEC_INT4, bytes, count, values);
}

static void add_block(enum codec codec, const uint8_t *bytes, int64_t count, float weight,
                      float *sums) {
    float scale = codec_load_scale(codec, bytes);
    const uint8_t *codes = bytes + codec_scale_bytes(codec);
    for (int64_t i = 0; i < count; i++) {
        sums[i] = sums[i] + weight * ((float)load_code(codec, codes, i) * scale);
    }
}

static void add_blocks(enum codec codec, const uint8_t *bytes, int64_t count, float weight,
                       float *sums) {
    int64_t length = codec_block_elements(codec);
    for (int64_t first = 0; first < count; first += length) {
        int64_t left = count - first;
        add_block(codec, bytes, left < length ? left : length, weight, sums + first);
        bytes += codec_bytes(codec, length);
    }
}

static void int8_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    add_blocks(CODEC_INT8, bytes, count, weight, sums);
}

static void int4_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    add_blocks(CODEC_INT4, bytes, count, weight, sums);
}

const struct codec_loops CODEC_PORTABLE[CODEC_COUNT] = {
    [CODEC_FP32] = {.encode = fp32_encode, .decode = fp32_decode, .add = fp32_add},
    [CODEC_BF16] = {.encode = bf16_encode, .decode = bf16_decode, .add = bf16_add},
    [CODEC_INT8] = {.encode = int8_encode, .decode = int8_decode, .add = int8_add},
    [CODEC_INT4] = {.encode = int4_encode, .decode = int4_decode, .add = int4_add},
};

void codec_kernels_init(struct codec_kernels *kernels, enum cpu_level level) {
    memcpy(kernels->loops, CODEC_PORTABLE, sizeof kernels->loops);
    OVERLAY_X86(codec, kernels, level);
    OVERLAY_NEON(codec, kernels, level);
}
