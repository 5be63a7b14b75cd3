/* random: counter-based generators. A value depends only on its key and index, so values can be
 * made in any order, with the same bits on every machine.
 * source  Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox 4x32-10) */
#ifndef SKEP_BASE_RANDOM_H
#define SKEP_BASE_RANDOM_H

#include <stdint.h>

/* The parameters of Philox 4x32-10, for implementations that compute several blocks at a time. */
enum { PHILOX_ROUNDS = 10 };
static const uint32_t PHILOX_FACTORS[] = {0xD2511F53u, 0xCD9E8D57u};
static const uint32_t PHILOX_KEY_STEPS[] = {0x9E3779B9u, 0xBB67AE85u}; /* added after each round */

/* random_block: compute the four random 32-bit words for the counter `index` and `key`. */
void random_block(uint64_t key, uint64_t index, uint32_t words[static 4]);

/* random_key: derive a key from a seed and a name, such as a parameter's name, with BLAKE2b. */
uint64_t random_key(uint64_t seed, const char *name);

/* random_uniform: value `index` of the stream `key`, uniform in [0, 1), with 53 bits. */
double random_uniform(uint64_t key, uint64_t index);

/* random_normal: value `index` of the stream `key`, approximately standard normal: the sum of
 * twelve 21-bit uniform values minus six, with support [-6, 6] and kurtosis 2.9. The sum is
 * computed with integers, so the bits are equal on every ISA. */
float random_normal(uint64_t key, uint64_t index);

/* random_permute: the image of `index` under the permutation of [0, count) that `key` selects.
 * limits  0 <= index < count < 2^62
 * source  Feistel network with cycle walking, Black and Rogaway 2002 */
uint64_t random_permute(uint64_t key, uint64_t index, uint64_t count);

#endif
