/* sparse_block: the fields of one encoded block of kernels/sparse.h, for its encoder, decoder and
 * check. */
#ifndef SKEP_KERNELS_CPU_SPARSE_BLOCK_H
#define SKEP_KERNELS_CPU_SPARSE_BLOCK_H

#include "base/dtype.h"
#include "kernels/sparse.h"

enum { SPARSE_CODES_MAX = 16 };                    /* codes of a value: a sign and a level */
enum { SPARSE_LEVELS_MAX = SPARSE_CODES_MAX / 2 }; /* magnitudes that a code can state */

struct sparse_layout {
    int keep;                                   /* maximum number of elements that are sent */
    int value_bits, remainder_bits;             /* bits of a code; bits of a remainder */
    int values_at, remainders_at, quotients_at; /* offsets of the fields in bytes */
    int bytes;                                  /* size of the encoded block */
};

struct sparse_layout sparse_layout_of(struct sparse_shape shape);

/* The elements that a block sends. */
struct sparse_elements {
    int count;                         /* number of elements */
    uint16_t indices[SPARSE_KEEP_MAX]; /* [count]: positions in the block, ascending */
    uint8_t codes[SPARSE_KEEP_MAX];    /* [count]: sign and level of each element */
};

/* sparse_unpack: read the elements of a block of `length` values. Returns false if it
 * meets one element too many or an index beyond the block; *elements then has those before it. */
bool sparse_unpack(const struct sparse_layout *layout, const uint8_t *bytes, int length,
                   struct sparse_elements *elements);

/* sparse_magnitudes: the magnitudes of the 2^(value_bits - 1) levels of a block. */
void sparse_magnitudes(const struct sparse_layout *layout, const uint8_t *bytes,
                       float magnitudes[static SPARSE_LEVELS_MAX]);

/* The two magnitudes, as bits of a bf16, from which all levels of a block follow. */
struct sparse_levels {
    uint16_t low, high; /* low is 0 with 1 bit a value, and where all magnitudes are equal */
};

static inline struct sparse_levels sparse_load_levels(const struct sparse_layout *layout,
                                                      const uint8_t *bytes) {
    struct sparse_levels levels = {0};
    if (layout->value_bits > 1) {
        memcpy(&levels.low, bytes, sizeof levels.low);
        bytes += sizeof levels.low;
    }
    memcpy(&levels.high, bytes, sizeof levels.high);
    return levels;
}

static inline void sparse_store_levels(const struct sparse_layout *layout,
                                       struct sparse_levels levels, uint8_t *bytes) {
    if (layout->value_bits > 1) {
        memcpy(bytes, &levels.low, sizeof levels.low);
        bytes += sizeof levels.low;
    }
    memcpy(bytes, &levels.high, sizeof levels.high);
}

#endif
