#include "base/random.h"

#include "base/check.h"
#include "base/hash.h"

#include <stdbool.h>
#include <string.h>

enum {
    FEISTEL_ROUNDS = 6,   /* rounds of the Feistel network of random_permute */
    CYCLE_WALK_MAX = 256, /* limit of the evaluations of that network for one permuted index */
};

void random_block(uint64_t key, uint64_t index, uint32_t words[static 4]) {
    /* Separate variables stay in registers, which an array would not. */
    uint32_t word0 = (uint32_t)index;
    uint32_t word1 = (uint32_t)(index >> 32);
    uint32_t word2 = 0;
    uint32_t word3 = 0;
    uint32_t key0 = (uint32_t)key;
    uint32_t key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t a = (uint64_t)PHILOX_FACTORS[0] * word0;
        uint64_t b = (uint64_t)PHILOX_FACTORS[1] * word2;
        word0 = (uint32_t)(b >> 32) ^ word1 ^ key0;
        word2 = (uint32_t)(a >> 32) ^ word3 ^ key1;
        word1 = (uint32_t)b;
        word3 = (uint32_t)a;
        key0 += PHILOX_KEY_STEPS[0];
        key1 += PHILOX_KEY_STEPS[1];
    }
    words[0] = word0;
    words[1] = word1;
    words[2] = word2;
    words[3] = word3;
}

uint64_t random_key(uint64_t seed, const char *name) {
    struct hash_state state;
    uint8_t seed_bytes[8];
    for (int i = 0; i < 8; i++) {
        seed_bytes[i] = (uint8_t)(seed >> (8 * i));
    }
    hash_begin(&state);
    hash_add(&state, seed_bytes, sizeof seed_bytes);
    hash_add(&state, name, strlen(name));
    struct hash hash = hash_end(&state);
    uint64_t key = 0;
    for (int i = 0; i < 8; i++) {
        key |= (uint64_t)hash.bytes[i] << (8 * i);
    }
    return key;
}

double random_uniform(uint64_t key, uint64_t index) {
    uint32_t words[4];
    random_block(key, index, words);
    uint64_t bits = ((uint64_t)words[0] << 32 | words[1]) >> 11;
    return (double)bits * 0x1p-53;
}

float random_normal(uint64_t key, uint64_t index) {
    uint32_t words[9];
    words[8] = 0; /* read with the last field, which ends in words[7] */
    random_block(key, 2 * index, words);
    random_block(key, 2 * index + 1, words + 4);
    /* 256 bits hold twelve fields of 21 bits. The sum of twelve uniform values has variance 1. */
    int64_t sum = 0;
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++) {
        int bit = i * 21;
        uint64_t pair = words[bit / 32] | (uint64_t)words[bit / 32 + 1] << 32;
        sum += (int64_t)((pair >> (bit % 32)) & 0x1fffffu);
    }
    /* A field has the mean (2^21 - 1) / 2, so the sum of twelve has 6 * (2^21 - 1). */
    return (float)((double)(sum - 6 * (int64_t)0x1fffff) * 0x1p-21);
}

static uint64_t feistel_permute(uint64_t key, uint64_t value, int half_bits) {
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = value >> half_bits;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint32_t words[4];
        random_block(key + round * 0x9E3779B97F4A7C15u, right, words);
        uint64_t mixed = ((uint64_t)words[0] << 32 | words[1]) & mask;
        uint64_t next = left ^ mixed;
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

uint64_t random_permute(uint64_t key, uint64_t index, uint64_t count) {
    ASSERT(index < count && count < (uint64_t)1 << 62);
    int half_bits = 1;
    while (((uint64_t)1 << (2 * half_bits)) < count) {
        half_bits++;
    }
    /* The network's domain is below 4 * count, so 256 results in a row are outside [0, count) with
     * a probability below (3/4)^256 = 2^-106. */
    for (int walk = 0; walk < CYCLE_WALK_MAX; walk++) {
        index = feistel_permute(key, index, half_bits);
        if (index < count) {
            return index;
        }
    }
    ASSERT(false && "the cycle walk is longer than CYCLE_WALK_MAX");
    return 0;
}
