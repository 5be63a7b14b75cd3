/* hash: BLAKE2b-256 through libsodium. */
#ifndef SKEP_BASE_HASH_H
#define SKEP_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* size of a hash in bytes; size of its hexadecimal text with the NUL */
enum { HASH_BYTES = 32, HASH_HEX_BYTES = 65 };

struct hash {
    uint8_t bytes[HASH_BYTES];
};

/* The state of an unfinished hash: libsodium's structure, which is aligned to 64 bytes. */
struct hash_state {
    _Alignas(64) unsigned char libsodium_state[384]; /* struct of libsodium */
};

void hash_begin(struct hash_state *state);
void hash_add(struct hash_state *state, const void *bytes, size_t count);
struct hash hash_end(struct hash_state *state);
struct hash hash_of(const void *bytes, size_t count);

/* hash_hex: writes 64 lower-case hexadecimal digits and a NUL to `buffer`, and returns it. */
const char *hash_hex(const struct hash *hash, char buffer[static HASH_HEX_BYTES]);
int hash_equal(const struct hash *a, const struct hash *b);
int hash_is_zero(const struct hash *hash);

#endif
