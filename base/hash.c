#include "base/hash.h"

#include "base/check.h"

#include <sodium.h>
#include <string.h>

_Static_assert(sizeof(crypto_generichash_state) <= sizeof(struct hash_state), "libsodium's state");

void hash_begin(struct hash_state *state) {
    int failed = crypto_generichash_init((crypto_generichash_state *)(void *)state->libsodium_state,
                                         NULL, 0, HASH_BYTES);
    ASSERT(failed == 0);
}

void hash_add(struct hash_state *state, const void *bytes, size_t count) {
    crypto_generichash_update((crypto_generichash_state *)(void *)state->libsodium_state, bytes,
                              count);
}

struct hash hash_end(struct hash_state *state) {
    struct hash hash;
    crypto_generichash_final((crypto_generichash_state *)(void *)state->libsodium_state, hash.bytes,
                             sizeof hash.bytes);
    return hash;
}

struct hash hash_of(const void *bytes, size_t count) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, bytes, count);
    return hash_end(&state);
}

const char *hash_hex(const struct hash *hash, char buffer[static HASH_HEX_BYTES]) {
    return sodium_bin2hex(buffer, HASH_HEX_BYTES, hash->bytes, sizeof hash->bytes);
}

int hash_equal(const struct hash *a, const struct hash *b) {
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

int hash_is_zero(const struct hash *hash) {
    static const struct hash ZERO;
    return hash_equal(hash, &ZERO);
}
