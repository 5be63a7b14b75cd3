/* keys: see keys.h. */
#include "transport/identity/keys.h"

#include "base/hash.h"
#include "transport/identity/base32.h"

#include <sodium.h>
#include <string.h>

/* First byte of encoded keys. Its upper five bits become the first letter of the text: p or s. */
enum {
    KIND_PUBLIC = 15 << 3 | 1, /* public keys, version 1 (the lower three bits) */
    KIND_SECRET = 18 << 3 | 1, /* secret keys, version 1 */
    CHECKSUM_BYTES = 5,        /* size of the checksum in a key's text */
    PACKED_BYTES = 1 + 2 * KEY_BYTES + CHECKSUM_BYTES /* size of kind, two keys and checksum */
};

_Static_assert(BASE32_LETTERS(PACKED_BYTES) == KEYS_TEXT_LETTERS, "length of the text");
_Static_assert(KEY_BYTES == crypto_box_PUBLICKEYBYTES && KEY_BYTES == crypto_box_SECRETKEYBYTES &&
                   KEY_BYTES == crypto_sign_PUBLICKEYBYTES && KEY_BYTES == crypto_sign_SEEDBYTES &&
                   SIGNATURE_BYTES == crypto_sign_BYTES,
               "libsodium's sizes");
_Static_assert(sizeof(struct public_keys) == 2 * KEY_BYTES, "no padding");

static void compute_checksum(const uint8_t *packed, uint8_t check[static CHECKSUM_BYTES]) {
    static const char PURPOSE[] = "skep key string"; /* with its NUL */
    struct hash_state state;
    hash_begin(&state);
    hash_add(&state, PURPOSE, sizeof PURPOSE);
    hash_add(&state, packed, PACKED_BYTES - CHECKSUM_BYTES);
    const struct hash hash = hash_end(&state);
    memcpy(check, hash.bytes, CHECKSUM_BYTES);
}

static const char *write_keys_text(uint8_t kind, const void *first, const void *second,
                                   char text[static KEYS_TEXT_BYTES]) {
    uint8_t packed[PACKED_BYTES];
    packed[0] = kind;
    memcpy(packed + 1, first, KEY_BYTES);
    memcpy(packed + 1 + KEY_BYTES, second, KEY_BYTES);
    compute_checksum(packed, packed + PACKED_BYTES - CHECKSUM_BYTES);
    base32_write(packed, PACKED_BYTES, text);
    sodium_memzero(packed, sizeof packed);
    return text;
}

static const char *kind_error(uint8_t given, uint8_t expected) {
    if (given == KIND_SECRET) {
        return "is a secret key, but a public key is needed";
    }
    if (given == KIND_PUBLIC) {
        return "is a public key, but a secret key is needed";
    }
    return given >> 3 == expected >> 3 ? "is from another version of Skep" : "is not a Skep key";
}

static const char *read_keys_text(const char *text, uint8_t kind,
                                  uint8_t keys[static 2 * KEY_BYTES]) {
    uint8_t packed[PACKED_BYTES];
    uint8_t check[CHECKSUM_BYTES];
    const char *error = NULL;
    if (strnlen(text, KEYS_TEXT_LETTERS + 1) != KEYS_TEXT_LETTERS) {
        return "is not 112 characters long";
    }
    if (!base32_read(text, packed, PACKED_BYTES)) {
        return "has a character other than the letters a-z and the digits 2-7";
    }
    compute_checksum(packed, check);
    if (packed[0] != kind) {
        error = kind_error(packed[0], kind);
    } else if (memcmp(check, packed + PACKED_BYTES - CHECKSUM_BYTES, CHECKSUM_BYTES) != 0) {
        error = "has a mistyped character: its checksum does not match";
    } else {
        memcpy(keys, packed + 1, (size_t)(2 * KEY_BYTES));
    }
    sodium_memzero(packed, sizeof packed);
    return error;
}

void keys_from_secrets(const uint8_t secrets[static 2 * KEY_BYTES], struct key_pairs *keys) {
    uint8_t expanded[crypto_sign_SECRETKEYBYTES];
    memcpy(keys->curve_secret, secrets, KEY_BYTES);
    memcpy(keys->sign_seed, secrets + KEY_BYTES, KEY_BYTES);
    int failed = crypto_scalarmult_base(keys->public_keys.curve, keys->curve_secret);
    failed |= crypto_sign_seed_keypair(keys->public_keys.sign, expanded, keys->sign_seed);
    ASSERT(failed == 0);
    sodium_memzero(expanded, sizeof expanded);
}

void keys_generate(struct key_pairs *keys) {
    uint8_t secrets[2 * KEY_BYTES];
    /* sodium_init prepares the random number generator. A second call does nothing. */
    int failed = sodium_init();
    ASSERT(failed >= 0);
    randombytes_buf(secrets, sizeof secrets);
    keys_from_secrets(secrets, keys);
    sodium_memzero(secrets, sizeof secrets);
}

void keys_wipe(struct key_pairs *keys) {
    sodium_memzero(keys->curve_secret, sizeof keys->curve_secret);
    sodium_memzero(keys->sign_seed, sizeof keys->sign_seed);
}

const char *public_keys_write(const struct public_keys *keys, char text[static KEYS_TEXT_BYTES]) {
    return write_keys_text(KIND_PUBLIC, keys->curve, keys->sign, text);
}

const char *public_keys_read(const char *text, struct public_keys *keys) {
    uint8_t read[2 * KEY_BYTES];
    const char *error = read_keys_text(text, KIND_PUBLIC, read);
    if (error == NULL) {
        memcpy(keys->curve, read, KEY_BYTES);
        memcpy(keys->sign, read + KEY_BYTES, KEY_BYTES);
    }
    return error;
}

bool public_keys_equal(const struct public_keys *a, const struct public_keys *b) {
    return memcmp(a->curve, b->curve, KEY_BYTES) == 0 && memcmp(a->sign, b->sign, KEY_BYTES) == 0;
}

const char *secret_keys_write(const struct key_pairs *keys, char text[static KEYS_TEXT_BYTES]) {
    return write_keys_text(KIND_SECRET, keys->curve_secret, keys->sign_seed, text);
}

const char *secret_keys_read(const char *text, struct key_pairs *keys) {
    uint8_t read[2 * KEY_BYTES];
    const char *error = read_keys_text(text, KIND_SECRET, read);
    if (error == NULL) {
        keys_from_secrets(read, keys);
        sodium_memzero(read, sizeof read);
    }
    return error;
}

static struct hash compute_digest(const char *context, const void *bytes, size_t count) {
    static const char PURPOSE[] = "skep signature"; /* with its NUL */
    size_t length = strnlen(context, SIGN_CONTEXT_MAX + 1);
    struct hash_state state;
    ASSERT(length >= 1 && length <= SIGN_CONTEXT_MAX);
    hash_begin(&state);
    hash_add(&state, PURPOSE, sizeof PURPOSE);
    hash_add(&state, &(uint8_t){(uint8_t)length}, 1);
    hash_add(&state, context, length);
    hash_add(&state, bytes, count);
    return hash_end(&state);
}

void keys_sign(const struct key_pairs *keys, const char *context, const void *bytes, size_t count,
               uint8_t signature[static SIGNATURE_BYTES]) {
    uint8_t expanded[crypto_sign_SECRETKEYBYTES];
    const struct hash digest = compute_digest(context, bytes, count);
    memcpy(expanded, keys->sign_seed, KEY_BYTES);
    memcpy(expanded + KEY_BYTES, keys->public_keys.sign, KEY_BYTES);
    int failed = crypto_sign_detached(signature, NULL, digest.bytes, HASH_BYTES, expanded);
    ASSERT(failed == 0);
    sodium_memzero(expanded, sizeof expanded);
}

bool keys_verify(const uint8_t sign_key[static KEY_BYTES], const char *context, const void *bytes,
                 size_t count, const uint8_t signature[static SIGNATURE_BYTES]) {
    const struct hash digest = compute_digest(context, bytes, count);
    return crypto_sign_verify_detached(signature, digest.bytes, HASH_BYTES, sign_key) == 0;
}
