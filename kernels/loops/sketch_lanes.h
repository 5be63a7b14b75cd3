/* sketch lanes: the loops of sketches over vectors of 16 elements, in the compiler's portable
 * notation; included once for each instruction set, whose switches decide the instructions.
 *
 * A group of 256 elements is 16 rows. Element e is lane e % 16 of row e / 16, so four stages of the
 * transform add whole rows, two stages add lanes of a row, and the four transforms of a group stay
 * in neighbouring lanes, which are added last. */
#ifndef SKEP_KERNELS_LOOPS_SKETCH_LANES_H
#define SKEP_KERNELS_LOOPS_SKETCH_LANES_H

#include "kernels/loops/sketch.h"

#include <string.h>

#ifndef ALWAYS_INLINE
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

enum {
    SKETCH_LANES = 16,                         /* elements of a row */
    SKETCH_ROWS = SKETCH_GROUP / SKETCH_LANES, /* rows of a group */
    SKETCH_WORDS = 4,                          /* words of 64 random bits, for 256 signs */
    SKETCH_WORDS_OF_GROUP =
        2 * SKETCH_WORDS /* words for the signs before and after the transforms */
};

_Static_assert((int)CODEC_INT8_BLOCK == (int)SKETCH_GROUP, "a group has one scale");

/* Vectors have the alignment of their elements, because they are loaded from encoded bytes. */
typedef int16_t sketch_row __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint16_t sketch_bits __attribute__((vector_size(32), aligned(2), may_alias));
typedef int8_t sketch_codes __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint16_t sketch_halves __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint32_t sketch_words __attribute__((vector_size(64), aligned(4), may_alias));
typedef float sketch_floats __attribute__((vector_size(64), aligned(1), may_alias));
typedef int32_t sketch_pairs __attribute__((vector_size(32), aligned(4), may_alias));
typedef double sketch_sums __attribute__((vector_size(64), aligned(8), may_alias));
typedef double sketch_doubles __attribute__((vector_size(128), aligned(8), may_alias));

/* The random signs before and after the transforms of a group, 256 each. Bit k of word l is the
 * sign of lane l in row k. */
struct sketch_signs {
    sketch_bits before, after; /* signs before the transforms; signs after them */
};

/* source  Steele, Lea, Flood 2014: SplitMix64, a counter-based generator */
ALWAYS_INLINE uint64_t sketch_random(uint64_t key, uint64_t counter) {
    uint64_t word = key + counter * UINT64_C(0x9e3779b97f4a7c15);
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

ALWAYS_INLINE void sketch_draw_signs(uint64_t key, int64_t group, struct sketch_signs *signs) {
    uint64_t words[SKETCH_WORDS_OF_GROUP];
    for (uint64_t i = 0; i < SKETCH_WORDS_OF_GROUP; i++) {
        words[i] = sketch_random(key, (uint64_t)group * SKETCH_WORDS_OF_GROUP + i);
    }
    memcpy(&signs->before, words, sizeof signs->before);
    memcpy(&signs->after, words + SKETCH_WORDS, sizeof signs->after);
}

/* SKETCH_MASK: 0 or -1 in each lane of a row, for a sign of + or -. */
#define SKETCH_MASK(bits, row)      ((sketch_row)((bits) << (15 - (row))) >> 15)
#define SKETCH_NEGATE(values, mask) (((values) ^ (mask)) - (mask))

/* The last two stages of the transform exchange lanes of a row: the pairs of lanes, and a mask of
 * the upper lane of each pair. */
#define SKETCH_SWAP_8(row)                                                                         \
    __builtin_shufflevector(row, row, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define SKETCH_SWAP_4(row)                                                                         \
    __builtin_shufflevector(row, row, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define SKETCH_UPPER_8                                                                             \
    { 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1 }
#define SKETCH_UPPER_4                                                                             \
    { 0, 0, 0, 0, -1, -1, -1, -1, 0, 0, 0, 0, -1, -1, -1, -1 }

/* The four stages of the transform between rows, which stay in registers. */
#define SKETCH_TRANSFORM_ROWS(rows)                                                                \
    _Pragma("GCC unroll 4") for (int stride = SKETCH_ROWS / 2; stride > 0; stride /= 2) {          \
        _Pragma("GCC unroll 16") for (int i = 0; i < SKETCH_ROWS; i++) {                           \
            if ((i & stride) == 0) {                                                               \
                sketch_row low = (rows)[i], high = (rows)[i + stride];                             \
                (rows)[i] = low + high;                                                            \
                (rows)[i + stride] = low - high;                                                   \
            }                                                                                      \
        }                                                                                          \
    }

/* Computes with 16-bit numbers, which do not overflow: a transform of 64 codes is at most 64 x
 * 127. */
static void sketch_int8(const struct sketch_part *part, double *sums) {
    static const sketch_row UPPER_8 = SKETCH_UPPER_8, UPPER_4 = SKETCH_UPPER_4;
    for (int64_t g = 0; g < part->group_count; g++) {
        const uint8_t *bytes = part->bytes + g * (CODEC_INT8_SCALE_BYTES + SKETCH_GROUP);
        const double scale = codec_load_scale(CODEC_INT8, bytes);
        const sketch_codes *codes = (const sketch_codes *)(bytes + CODEC_INT8_SCALE_BYTES);
        struct sketch_signs signs;
        sketch_row rows[SKETCH_ROWS];
        sketch_draw_signs(part->key, part->first_group + g, &signs);
#pragma GCC unroll 16
        for (int i = 0; i < SKETCH_ROWS; i++) {
            sketch_row mask = SKETCH_MASK(signs.before, i);
            rows[i] = SKETCH_NEGATE(__builtin_convertvector(codes[i], sketch_row), mask);
        }
        SKETCH_TRANSFORM_ROWS(rows)
#pragma GCC unroll 16
        for (int i = 0; i < SKETCH_ROWS; i++) {
            sketch_row mask = SKETCH_MASK(signs.after, i);
            sketch_row row = rows[i];
            row = SKETCH_SWAP_8(row) + SKETCH_NEGATE(row, UPPER_8);
            row = SKETCH_SWAP_4(row) + SKETCH_NEGATE(row, UPPER_4);
            row = SKETCH_NEGATE(row, mask);
            sketch_pairs pairs = ((sketch_pairs)row << 16 >> 16) + ((sketch_pairs)row >> 16);
            sketch_sums *sum = (sketch_sums *)sums + i;
            *sum = *sum + scale * __builtin_convertvector(pairs, sketch_sums);
        }
    }
}

/* Signs as factors of 1 and -1, which change no other bit. */
#define SKETCH_FACTORS(mask) __builtin_convertvector((mask) | 1, sketch_doubles)

/* Adds one group, whose values are in `rows`, with the same order of additions as for int8. The
 * loops are not unrolled: with vectors that would be 13 to 26 % faster, but all variants together
 * would be 59 KB larger. */
static __attribute__((noinline)) void
sketch_add_doubles(sketch_doubles *rows, const struct sketch_signs *signs, double *sums) {
    static const sketch_row UPPER_8 = SKETCH_UPPER_8, UPPER_4 = SKETCH_UPPER_4;
#pragma GCC unroll 1
    for (int i = 0; i < SKETCH_ROWS; i++) {
        rows[i] = rows[i] * SKETCH_FACTORS(SKETCH_MASK(signs->before, i));
    }
#pragma GCC unroll 1
    for (int stride = SKETCH_ROWS / 2; stride > 0; stride /= 2) {
#pragma GCC unroll 1
        for (int i = 0; i < SKETCH_ROWS; i++) {
            if ((i & stride) == 0) {
                sketch_doubles low = rows[i], high = rows[i + stride];
                rows[i] = low + high;
                rows[i + stride] = low - high;
            }
        }
    }
#pragma GCC unroll 1
    for (int i = 0; i < SKETCH_ROWS; i++) {
        sketch_doubles row = rows[i];
        row = SKETCH_SWAP_8(row) + row * SKETCH_FACTORS(UPPER_8);
        row = SKETCH_SWAP_4(row) + row * SKETCH_FACTORS(UPPER_4);
        row = row * SKETCH_FACTORS(SKETCH_MASK(signs->after, i));
        sketch_sums even = __builtin_shufflevector(row, row, 0, 2, 4, 6, 8, 10, 12, 14);
        sketch_sums odd = __builtin_shufflevector(row, row, 1, 3, 5, 7, 9, 11, 13, 15);
        sketch_sums *sum = (sketch_sums *)sums + i;
        *sum = *sum + (even + odd);
    }
}

static void sketch_bf16(const struct sketch_part *part, double *sums) {
    for (int64_t g = 0; g < part->group_count; g++) {
        const sketch_halves *halves = (const sketch_halves *)(part->bytes + 2 * SKETCH_GROUP * g);
        struct sketch_signs signs;
        sketch_doubles rows[SKETCH_ROWS];
        for (int i = 0; i < SKETCH_ROWS; i++) {
            sketch_words words = __builtin_convertvector(halves[i], sketch_words) << 16;
            rows[i] = __builtin_convertvector((sketch_floats)words, sketch_doubles);
        }
        sketch_draw_signs(part->key, part->first_group + g, &signs);
        sketch_add_doubles(rows, &signs, sums);
    }
}

static void sketch_fp32(const struct sketch_part *part, double *sums) {
    for (int64_t g = 0; g < part->group_count; g++) {
        const sketch_floats *floats = (const sketch_floats *)(part->bytes + 4 * SKETCH_GROUP * g);
        struct sketch_signs signs;
        sketch_doubles rows[SKETCH_ROWS];
        for (int i = 0; i < SKETCH_ROWS; i++) {
            rows[i] = __builtin_convertvector(floats[i], sketch_doubles);
        }
        sketch_draw_signs(part->key, part->first_group + g, &signs);
        sketch_add_doubles(rows, &signs, sums);
    }
}

static void sketch_lanes_init(struct sketch_kernels *kernels) {
    *kernels =
        (struct sketch_kernels){.int8 = sketch_int8, .bf16 = sketch_bf16, .fp32 = sketch_fp32};
}

#endif
