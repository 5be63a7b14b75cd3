/* keys: signatures of simulated nodes. A hash replaces Ed25519, which would take most of the time
 * of a schedule; all code that signs and verifies is the real one. */
#include "tests/sim/parts.h"

#include <string.h>

void __wrap_keys_sign(const struct key_pairs *keys, const char *context, const void *bytes,
                      size_t count, uint8_t signature[static SIGNATURE_BYTES]);
bool __wrap_keys_verify(const uint8_t sign_key[static KEY_BYTES], const char *context,
                        const void *bytes, size_t count,
                        const uint8_t signature[static SIGNATURE_BYTES]);

const struct identity TRACKER_ID = {{0}};
const struct identity OPERATOR_ID = {{0xff}};

struct key_pairs keys_of(const struct identity *id) {
    struct key_pairs keys = {.public_keys.curve = {0}};
    memcpy(keys.public_keys.sign, id->bytes, KEY_BYTES);
    return keys;
}

static struct hash hash_signed(const uint8_t *sign_key, const char *context, const void *bytes,
                               size_t count) {
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, sign_key, KEY_BYTES);
    hash_add(&state, context, strlen(context) + 1);
    hash_add(&state, bytes, count);
    return hash_end(&state);
}

void __wrap_keys_sign(const struct key_pairs *keys, const char *context, const void *bytes,
                      size_t count, uint8_t signature[static SIGNATURE_BYTES]) {
    const struct hash hash = hash_signed(keys->public_keys.sign, context, bytes, count);
    memset(signature, 0, SIGNATURE_BYTES);
    memcpy(signature, hash.bytes, HASH_BYTES);
}

bool __wrap_keys_verify(const uint8_t sign_key[static KEY_BYTES], const char *context,
                        const void *bytes, size_t count,
                        const uint8_t signature[static SIGNATURE_BYTES]) {
    static const uint8_t ZEROS[SIGNATURE_BYTES - HASH_BYTES];
    const struct hash hash = hash_signed(sign_key, context, bytes, count);
    return memcmp(hash.bytes, signature, HASH_BYTES) == 0 &&
           memcmp(ZEROS, signature + HASH_BYTES, sizeof(ZEROS)) == 0;
}
