#include "tests/kernels/codec_reference.h"

#include "base/dtype.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A quotient or product of floats, made in fp64 and rounded to fp32, is the one that fp32 gives. */
static float block_scale(enum codec codec, int64_t count, const float *meant) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)meant[i]));
    }
    float scale = (float)(largest / (codec == CODEC_INT8 ? 127.0 : 7.0));
    if (codec == CODEC_INT4) {
        scale = bf16_to_f32(bf16_from_f32(scale));
    }
    return scale < 0x1p-126f ? 0 : scale;
}

static uint8_t *put_word(uint8_t *bytes, uint32_t word, int size) {
    for (int i = 0; i < size; i++) {
        *bytes++ = (uint8_t)(word >> 8 * i);
    }
    return bytes;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint8_t *encode_block(enum codec codec, int64_t count, const float *meant, uint8_t *bytes,
                             float *decoded) {
    float scale = block_scale(codec, count, meant);
    float inverse = scale == 0 ? 0 : (float)(1.0 / (double)scale);
    if (codec == CODEC_INT8) {
        bytes = put_word(bytes, bits_of(scale), 4);
    } else {
        bytes = put_word(bytes, bits_of(scale) >> 16, 2);
    }
    int nibbles = 0;
    for (int64_t i = 0; i < count; i++) {
        int code = (int)nearbyint((double)(float)((double)meant[i] * (double)inverse));
        decoded[i] = (float)((double)code * (double)scale);
        if (codec == CODEC_INT8) {
            *bytes++ = (uint8_t)(code + 256);
        } else if (i % 2 == 0) {
            nibbles = (code + 16) % 16;
            *bytes = (uint8_t)nibbles;
            bytes += i == count - 1;
        } else {
            *bytes++ = (uint8_t)(nibbles + 16 * ((code + 16) % 16));
        }
    }
    return bytes;
}

void codec_reference_encode(enum codec codec, int64_t count, const float *meant, uint8_t *bytes,
                            float *decoded) {
    int64_t block = codec == CODEC_INT8 ? 256 : codec == CODEC_INT4 ? 64 : 1;
    for (int64_t i = 0; i < count; i += block) {
        if (codec == CODEC_FP32) {
            bytes = put_word(bytes, bits_of(meant[i]), 4);
            decoded[i] = meant[i];
        } else if (codec == CODEC_BF16) {
            uint16_t bits = bf16_from_f32(meant[i]);
            bytes = put_word(bytes, bits, 2);
            decoded[i] = bf16_to_f32(bits);
        } else {
            int64_t left = count - i < block ? count - i : block;
            bytes = encode_block(codec, left, meant + i, bytes, decoded + i);
        }
    }
}

const struct compute *codec_compute(enum cpu_level level) {
    static struct pool pool;
    static struct kernel_table tables[CPU_LEVEL_COUNT];
    static struct compute computes[CPU_LEVEL_COUNT];
    if (pool.thread_count == 0) {
        struct fault fault;
        assert_int_equal(pool_init(&pool, 1, &fault), OK);
    }
    kernel_table_init(&tables[level], level);
    computes[level] = (struct compute){.table = &tables[level], .pool = &pool};
    return &computes[level];
}

double codec_step(enum codec codec, int64_t index, const uint8_t *bytes) {
    if (codec == CODEC_INT8) {
        float scale;
        memcpy(&scale, bytes + index / 256 * 260, sizeof scale);
        return (double)scale;
    }
    uint16_t bits;
    memcpy(&bits, bytes + index / 64 * 34, sizeof bits);
    return (double)bf16_to_f32(bits);
}
