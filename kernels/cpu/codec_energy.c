/* codec_energy: the sum of the squares of an encoded vector, computed from its bytes. */
#include "base/check.h"
#include "kernels/items.h"
#include "kernels/loops/codec.h"

/* ---- fp32 and bf16 ---- */

static double element_energy(enum codec codec, const uint8_t *bytes, int64_t index) {
    float value;
    if (codec == CODEC_FP32) {
        memcpy(&value, bytes + 4 * index, sizeof value);
    } else {
        uint16_t bits;
        memcpy(&bits, bytes + 2 * index, sizeof bits);
        value = bf16_to_f32(bits);
    }
    return (double)value * (double)value;
}

static double elements_energy(enum codec codec, const uint8_t *bytes, int64_t count) {
    double energy = 0;
    for (int64_t i = 0; i < count; i++) {
        energy += element_energy(codec, bytes, i);
    }
    return energy;
}

/* ---- int8 and int4 ---- */

/* Returns the sum of the squares of the codes of one block. After an odd last element of int4, the
 * unused high bits are 0 and add nothing. */
static int32_t sum_code_squares(enum codec codec, const uint8_t *codes, int64_t code_bytes) {
    int32_t sum = 0;
    for (int64_t i = 0; codec == CODEC_INT8 && i < code_bytes; i++) {
        int32_t code = (int8_t)codes[i];
        sum += code * code;
    }
    for (int64_t i = 0; codec == CODEC_INT4 && i < code_bytes; i++) {
        int32_t low = ((codes[i] & 0xf) ^ 8) - 8;
        int32_t high = (codes[i] >> 4 ^ 8) - 8;
        sum += low * low + high * high;
    }
    return sum;
}

static double blocks_energy(enum codec codec, const uint8_t *bytes, int64_t count) {
    int64_t length = codec_block_elements(codec);
    uint64_t stride = codec_bytes(codec, length);
    int64_t blocks = items_count(count, length);
    double energy = 0;
    for (int64_t i = 0; i < blocks; i++) {
        const uint8_t *block = bytes + (uint64_t)i * stride;
        int64_t elements = item_length(count, length, i);
        int64_t code_bytes = codec == CODEC_INT8 ? elements : (elements + 1) / 2;
        double scale = codec_load_scale(codec, block);
        int32_t squares = sum_code_squares(codec, block + codec_scale_bytes(codec), code_bytes);
        energy += scale * scale * (double)squares;
    }
    return energy;
}

double codec_energy(enum codec codec, int64_t count, const uint8_t *bytes) {
    ASSERT(count >= 0 && codec < CODEC_COUNT);
    return codec == CODEC_FP32 || codec == CODEC_BF16 ? elements_energy(codec, bytes, count)
                                                      : blocks_energy(codec, bytes, count);
}
