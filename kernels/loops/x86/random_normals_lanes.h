/* random_normals lanes: normal values over vectors of 64-bit lanes; included once for each
 * instruction set, after the definitions of
 *
 *   normal_words             a vector of uint64_t
 *   normal_product(a, b)     the products of the low halves of all lanes
 *   normal_joined(low, high) the low halves of `low` below the low halves of `high`
 *   normal_store(to, sums, factor, deviation)
 *                            deviation * (factor * sum) for each lane; |sum| < 2^24
 *
 * A lane has one element. Its two blocks of Philox have neighbouring counters. A word of a block is
 * the low half of a lane, and the upper half has no meaning: products ignore it, and an exclusive
 * or does not carry. */
#ifndef SKEP_KERNELS_LOOPS_X86_RANDOM_NORMALS_LANES_H
#define SKEP_KERNELS_LOOPS_X86_RANDOM_NORMALS_LANES_H

#include "base/random.h"
#include "kernels/loops/random_normals.h"

enum { NORMAL_LANES = sizeof(normal_words) / sizeof(uint64_t) };

/* The eight words of each lane's element, as 256 bits in ascending order. */
struct normal_bits {
    normal_words quarters[4];
};

/* One block of Philox 4x32-10 for each lane: quarters[at] and quarters[at + 1] of *bits. */
ALWAYS_INLINE void normal_block(uint64_t key, normal_words counter, int at,
                                struct normal_bits *bits) {
    normal_words word0 = counter;
    normal_words word1 = counter >> 32;
    normal_words word2 = counter ^ counter;
    normal_words word3 = word2;
    uint32_t key0 = (uint32_t)key;
    uint32_t key1 = (uint32_t)(key >> 32);
    _Pragma("GCC unroll 10") for (int round = 0; round < PHILOX_ROUNDS; round++) {
        normal_words a = normal_product(word0, PHILOX_FACTORS[0]);
        normal_words b = normal_product(word2, PHILOX_FACTORS[1]);
        word0 = b >> 32 ^ word1 ^ key0;
        word2 = a >> 32 ^ word3 ^ key1;
        word1 = b;
        word3 = a;
        key0 += PHILOX_KEY_STEPS[0];
        key1 += PHILOX_KEY_STEPS[1];
    }
    bits->quarters[at] = normal_joined(word0, word1);
    bits->quarters[at + 1] = normal_joined(word2, word3);
}

/* The sum of the twelve fields of 21 bits, less the mean of such sums. Field i begins at bit
 * 21 * i, so three of them, at the bits 63, 126 and 189, are in two quarters each. */
ALWAYS_INLINE normal_words normal_sum(const struct normal_bits *bits) {
    const uint64_t field = 0x1fffff;
    normal_words a = bits->quarters[0];
    normal_words b = bits->quarters[1];
    normal_words c = bits->quarters[2];
    normal_words d = bits->quarters[3];
    normal_words sum = (a & field) + (a >> 21 & field) + (a >> 42 & field);
    sum += ((a >> 63 | b << 1) & field) + (b >> 20 & field) + (b >> 41 & field);
    sum += ((b >> 62 | c << 2) & field) + (c >> 19 & field) + (c >> 40 & field);
    sum += ((c >> 61 | d << 3) & field) + (d >> 18 & field) + (d >> 39 & field);
    return sum - 6 * field;
}

static void random_normals_lanes(uint64_t key, uint64_t first, int64_t count, float deviation,
                                 float *values) {
    int64_t whole = count / NORMAL_LANES * NORMAL_LANES;
    normal_words steps;
    for (int lane = 0; lane < NORMAL_LANES; lane++) {
        steps[lane] = 2 * (uint64_t)lane;
    }
    for (int64_t i = 0; i < whole; i += NORMAL_LANES) {
        normal_words counter = 2 * (first + (uint64_t)i) + steps;
        struct normal_bits bits;
        normal_block(key, counter, 0, &bits);
        normal_block(key, counter + 1, 2, &bits);
        normal_store(values + i, normal_sum(&bits), 0x1p-21f, deviation);
    }
    random_normals_portable(key, first + (uint64_t)whole, count - whole, deviation, values + whole);
}

#endif
