#include "kernels/loops/codec.h"

#include "kernels/loops/element.h"

static uint32_t size_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & CODEC_SIZE_MASK;
}

static float meant_at(const struct codec_part *part, int64_t i) {
    return part->feedback == NULL ? part->source[i] : part->source[i] + part->feedback[i];
}

/* ---- fp32 and bf16 ---- */

static bool plain_encode(const struct codec_part *part, enum dtype dtype) {
    uint32_t peak = 0;
    for (int64_t i = 0; i < part->count; i++) {
        float meant = meant_at(part, i);
        float decoded = element_round(meant, dtype);
        uint32_t size = size_bits(decoded);
        peak = size > peak ? size : peak;
        element_store(part->bytes, dtype, i, meant);
        if (part->residual != NULL) {
            part->residual[i] = meant - decoded;
        }
    }
    return peak < CODEC_INFINITY_BITS;
}

static bool fp32_encode(const struct codec_part *part) {
    return plain_encode(part, DTYPE_F32);
}

static bool bf16_encode(const struct codec_part *part) {
    return plain_encode(part, DTYPE_BF16);
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

/* Adding this rounds a number of size below 2^22 to an integer, ties to even, because the sum has
 * no bits for fractions. */
static const float NEAREST = 0x1.8p23f;

static void code_put(enum codec codec, uint8_t *codes, int64_t i, int code) {
    if (codec == CODEC_INT8) {
        codes[i] = (uint8_t)code;
    } else if (i % 2 == 0) {
        codes[i / 2] = (uint8_t)(code & 0xf);
    } else {
        codes[i / 2] = (uint8_t)(codes[i / 2] | (unsigned)(code & 0xf) << 4);
    }
}

static int code_get(enum codec codec, const uint8_t *codes, int64_t i) {
    if (codec == CODEC_INT8) {
        return (int8_t)codes[i];
    }
    int nibble = i % 2 == 0 ? codes[i / 2] & 0xf : codes[i / 2] >> 4;
    return (nibble ^ 8) - 8;
}

static bool block_encode(enum codec codec, const struct codec_part *block) {
    uint32_t peak = 0;
    for (int64_t i = 0; i < block->count; i++) {
        uint32_t size = size_bits(meant_at(block, i));
        peak = size > peak ? size : peak;
    }
    float scale;
    if (!codec_scale(codec, peak, &scale)) {
        return false;
    }
    float inverse = codec_inverse(scale);
    codec_scale_put(codec, block->bytes, scale);
    uint8_t *codes = block->bytes + codec_scale_bytes(codec);
    for (int64_t i = 0; i < block->count; i++) {
        float meant = meant_at(block, i);
        float code = (meant * inverse + NEAREST) - NEAREST;
        code_put(codec, codes, i, (int)code);
        if (block->residual != NULL) {
            block->residual[i] = meant - code * scale;
        }
    }
    return true;
}

static bool blocks_encode(enum codec codec, const struct codec_part *part) {
    int64_t length = codec_block(codec);
    int64_t bytes = (int64_t)codec_bytes(codec, length);
    for (int64_t first = 0; first < part->count; first += length) {
        struct codec_part block = codec_part_from(part, first, first / length * bytes);
        block.count = block.count < length ? block.count : length;
        if (!block_encode(codec, &block)) {
            return false;
        }
    }
    return true;
}

static bool int8_encode(const struct codec_part *part) {
    return blocks_encode(CODEC_INT8, part);
}

static bool int4_encode(const struct codec_part *part) {
    return blocks_encode(CODEC_INT4, part);
}

static void blocks_decode(enum codec codec, const uint8_t *bytes, int64_t count, float *values) {
    int64_t length = codec_block(codec);
    for (int64_t first = 0; first < count; first += length) {
        float scale = codec_scale_get(codec, bytes);
        int64_t end = count - first < length ? count : first + length;
        for (int64_t i = first; i < end; i++) {
            values[i] = (float)code_get(codec, bytes + codec_scale_bytes(codec), i - first) * scale;
        }
        bytes += codec_bytes(codec, length);
    }
}

static void int8_decode(const uint8_t *bytes, int64_t count, float *values) {
    blocks_decode(CODEC_INT8, bytes, count, values);
}

static void int4_decode(const uint8_t *bytes, int64_t count, float *values) {
    blocks_decode(CODEC_INT4, bytes, count, values);
}

static void block_add(enum codec codec, const uint8_t *bytes, int64_t count, float weight,
                      float *sums) {
    float scale = codec_scale_get(codec, bytes);
    const uint8_t *codes = bytes + codec_scale_bytes(codec);
    for (int64_t i = 0; i < count; i++) {
        sums[i] = sums[i] + weight * ((float)code_get(codec, codes, i) * scale);
    }
}

static void blocks_add(enum codec codec, const uint8_t *bytes, int64_t count, float weight,
                       float *sums) {
    int64_t length = codec_block(codec);
    for (int64_t first = 0; first < count; first += length) {
        int64_t left = count - first;
        block_add(codec, bytes, left < length ? left : length, weight, sums + first);
        bytes += codec_bytes(codec, length);
    }
}

static void int8_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    blocks_add(CODEC_INT8, bytes, count, weight, sums);
}

static void int4_add(const uint8_t *bytes, int64_t count, float weight, float *sums) {
    blocks_add(CODEC_INT4, bytes, count, weight, sums);
}

const struct codec_loops CODEC_PLAIN[CODEC_COUNT] = {
    [CODEC_FP32] = {.encode = fp32_encode, .decode = fp32_decode, .add = fp32_add},
    [CODEC_BF16] = {.encode = bf16_encode, .decode = bf16_decode, .add = bf16_add},
    [CODEC_INT8] = {.encode = int8_encode, .decode = int8_decode, .add = int8_add},
    [CODEC_INT4] = {.encode = int4_encode, .decode = int4_decode, .add = int4_add},
};

void codec_kernels_init(struct codec_kernels *kernels, enum cpu_level level) {
    memcpy(kernels->loops, CODEC_PLAIN, sizeof kernels->loops);
#if defined(__x86_64__)
    if (level >= CPU_AVX2) {
        codec_kernels_init_avx2(kernels);
    }
    if (level >= CPU_AVX512) {
        codec_kernels_init_avx512(kernels);
    }
#elif defined(__aarch64__)
    if (level == CPU_NEON) {
        codec_kernels_init_neon(kernels);
    }
#else
    (void)level;
#endif
}
