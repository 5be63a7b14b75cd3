/* noise: the random bits of stochastic rounding, a pure function of a key and a position. */
#ifndef SKEP_KERNELS_LOOPS_NOISE_H
#define SKEP_KERNELS_LOOPS_NOISE_H

#include <stdint.h>

/* Multiplying by the golden ratio separates the keys of neighbouring streams. */
static const uint32_t NOISE_STREAM_FACTOR = 0x9e3779b9;

/* The multipliers of NOISE_HASH.
 * source  C. Wellons 2018, "Prospecting for hash functions": the permutation of this form with the
 *         smallest known bias: each input bit flips each output bit with probability 1/2 within
 *         0.17 % */
static const uint32_t NOISE_FACTORS[] = {0x7feb352d, 0x846ca68b};

/* NOISE_HASH: permute 32-bit words in place; the argument is one word or a vector. */
#define NOISE_HASH(words)                                                                          \
    do {                                                                                           \
        (words) ^= (words) >> 16;                                                                  \
        (words) *= NOISE_FACTORS[0];                                                               \
        (words) ^= (words) >> 15;                                                                  \
        (words) *= NOISE_FACTORS[1];                                                               \
        (words) ^= (words) >> 16;                                                                  \
    } while (0)

/* noise_key: the key for a step's noise and the tensor with this stream number. */
static inline uint32_t noise_key(uint32_t noise, uint32_t stream) {
    uint32_t key = noise + stream * NOISE_STREAM_FACTOR;
    NOISE_HASH(key);
    return key;
}

/* noise_at: 32 random bits for the element at `position` of a tensor. */
static inline uint32_t noise_at(uint32_t key, int64_t position) {
    uint32_t word = (uint32_t)position ^ key;
    NOISE_HASH(word);
    return word;
}

#endif
