/* random: counter-based generators, so that any value can be made from (key, index) alone, in any
 * order, with the same bits on every machine.
 * source  Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox 4x32-10) */
#ifndef SKEP_BASE_RANDOM_H
#define SKEP_BASE_RANDOM_H

#include <stdint.h>

/* random_block: the four 32-bit words of counter `index` under `key`. */
void random_block(uint64_t key, uint64_t index, uint32_t words[static 4]);

/* random_key: a key from a seed and a name (a parameter's, a purpose's), by BLAKE2b. */
uint64_t random_key(uint64_t seed, const char *name);

/* random_uniform: value `index` of the stream, uniform in [0, 1), 53 bits. */
double random_uniform(uint64_t key, uint64_t index);

/* random_normal: value `index`, standard normal. Built from additions and multiplications of
 * integers only (a sum of twelve 21-bit uniforms less six), so the bits agree on every ISA;
 * support [-6, 6], kurtosis 2.9. */
float random_normal(uint64_t key, uint64_t index);

/* random_permute: where position `index` of [0, count) goes under a keyed permutation.
 * limits  0 <= index < count < 2^62
 * source  Feistel network with cycle walking, Black and Rogaway 2002 */
uint64_t random_permute(uint64_t key, uint64_t index, uint64_t count);

#endif
