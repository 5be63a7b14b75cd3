#include "kernels/cpu/sparse_block.h"

#include "base/check.h"

enum { LEVEL_BYTES = 2, WORD_BITS = 64 }; /* size of a level, a bf16; bits of a word */

static int bytes_for_bits(int bits) {
    return (bits + 7) / 8;
}

bool sparse_shape_is_valid(struct sparse_shape shape) {
    bool has_keep = shape.keep == 32 || shape.keep == 64 || shape.keep == 128 || shape.keep == 256;
    return has_keep && (shape.value_bits == 1 || shape.value_bits == 2 || shape.value_bits == 4);
}

/* The quotients take the most bits if a block sends k elements: k bits of 1, and at most one bit of
 * 0 for every 2^b of the elements that it does not send. */
struct sparse_layout sparse_layout_of(struct sparse_shape shape) {
    ASSERT(sparse_shape_is_valid(shape));
    struct sparse_layout layout = {.keep = shape.keep, .value_bits = shape.value_bits};
    while (shape.keep << layout.remainder_bits < SPARSE_BLOCK / 2) {
        layout.remainder_bits++;
    }
    int zeros = (SPARSE_BLOCK - shape.keep) >> layout.remainder_bits;
    layout.values_at = shape.value_bits == 1 ? LEVEL_BYTES : 2 * LEVEL_BYTES;
    layout.remainders_at = layout.values_at + bytes_for_bits(shape.keep * shape.value_bits);
    layout.quotients_at = layout.remainders_at + bytes_for_bits(shape.keep * layout.remainder_bits);
    layout.bytes = layout.quotients_at + bytes_for_bits(shape.keep + zeros);
    return layout;
}

/* A remainder may end in the byte after the one that it begins in. The last remainder is followed
 * by the next field, so that this byte exists. */
static int load_remainder(const struct sparse_layout *layout, const uint8_t *bytes, int index) {
    int at = index * layout->remainder_bits;
    uint16_t word;
    memcpy(&word, bytes + layout->remainders_at + at / 8, sizeof word);
    return word >> at % 8 & ((1 << layout->remainder_bits) - 1);
}

static uint8_t load_code(const struct sparse_layout *layout, const uint8_t *bytes, int index) {
    int at = index * layout->value_bits;
    return (uint8_t)(bytes[layout->values_at + at / 8] >> at % 8 & ((1 << layout->value_bits) - 1));
}

/* The 0 bits before a 1 bit are the sum of the quotients so far. */
bool sparse_unpack(const struct sparse_layout *layout, const uint8_t *bytes, int length,
                   struct sparse_elements *elements) {
    int remainders = 0;
    elements->count = 0;
    for (int at = layout->quotients_at; at < layout->bytes; at += WORD_BITS / 8) {
        int left = layout->bytes - at;
        uint64_t word = 0;
        memcpy(&word, bytes + at, left < WORD_BITS / 8 ? (size_t)left : WORD_BITS / 8);
        for (; word != 0; word &= word - 1) {
            int place = (at - layout->quotients_at) * 8 + __builtin_ctzll(word);
            int n = elements->count;
            if (n == layout->keep) {
                return false;
            }
            remainders += load_remainder(layout, bytes, n);
            int index = ((place - n) << layout->remainder_bits) + remainders + n;
            if (index >= length) {
                return false;
            }
            elements->indices[n] = (uint16_t)index;
            elements->codes[n] = load_code(layout, bytes, n);
            elements->count++;
        }
    }
    return true;
}

void sparse_magnitudes(const struct sparse_layout *layout, const uint8_t *bytes,
                       float magnitudes[static SPARSE_LEVELS_MAX]) {
    const struct sparse_levels levels = sparse_load_levels(layout, bytes);
    const int last = (1 << (layout->value_bits - 1)) - 1;
    double low = (double)bf16_to_f32(levels.low);
    double high = (double)bf16_to_f32(levels.high);
    magnitudes[last] = (float)high;
    for (int m = 0; m < last; m++) {
        magnitudes[m] = (float)(low + (high - low) * m / last);
    }
}
