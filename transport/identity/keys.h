/* keys: the two key pairs of an identity, CURVE for connections and Ed25519 for signatures, and one
 * text for both public keys. */
#ifndef SKEP_TRANSPORT_IDENTITY_KEYS_H
#define SKEP_TRANSPORT_IDENTITY_KEYS_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KEY_BYTES = 32,                          /* size of an X25519 or Ed25519 key */
    SIGNATURE_BYTES = 64,                    /* size of an Ed25519 signature */
    KEYS_TEXT_LETTERS = 112,                 /* base32 of 70 bytes: kind 1, keys 64, checksum 5 */
    KEYS_TEXT_BYTES = KEYS_TEXT_LETTERS + 1, /* KEYS_TEXT_LETTERS and a NUL */
    SIGN_CONTEXT_MAX = 32,                   /* length of a context such as "skep ledger entry" */
};

/* The public part of an identity. */
struct public_keys {
    uint8_t curve[KEY_BYTES]; /* X25519 key, for ZeroMQ's CURVE */
    uint8_t sign[KEY_BYTES];  /* Ed25519 key, for signatures */
};

/* An identity. Only the two secrets are stored on disk; the public keys are derived from them. */
struct key_pairs {
    struct public_keys public_keys;
    uint8_t curve_secret[KEY_BYTES]; /* X25519 secret key, for ZeroMQ's CURVE */
    uint8_t sign_seed[KEY_BYTES];    /* Ed25519 seed, from which signatures are made */
};

/* keys_generate: create a new identity with the operating system's random numbers. */
void keys_generate(struct key_pairs *keys);

/* keys_from_secrets: derive an identity from 64 bytes: curve_secret, then sign_seed. */
void keys_from_secrets(const uint8_t secrets[static 2 * KEY_BYTES], struct key_pairs *keys);

/* keys_wipe: overwrite the secrets, in a way that the compiler cannot remove. */
void keys_wipe(struct key_pairs *keys);

/* public_keys_write: write both keys as one text of KEYS_TEXT_LETTERS lower-case base32 letters. It
 * always begins with 'p'. Returns `text`.
 * public_keys_read: parse such a text. A checksum of 40 bits (BLAKE2b) detects mistyped letters.
 * limits  reads at most KEYS_TEXT_LETTERS + 1 characters
 * errors  NULL: valid. Else what is wrong with it, as the rest of a sentence ("is not 112
 *         characters long"); *keys is then unchanged */
const char *public_keys_write(const struct public_keys *keys, char text[static KEYS_TEXT_BYTES]);
MUST_CHECK const char *public_keys_read(const char *text, struct public_keys *keys);

/* secret_keys_write, secret_keys_read: write and parse the two secrets as text in the same way. The
 * text begins with 's' and is stored only in the identity file. */
const char *secret_keys_write(const struct key_pairs *keys, char text[static KEYS_TEXT_BYTES]);
MUST_CHECK const char *secret_keys_read(const char *text, struct key_pairs *keys);

/* public_keys_equal: whether both the signing keys and the channel keys are equal. */
bool public_keys_equal(const struct public_keys *a, const struct public_keys *b);

/* keys_sign: sign `context` and `bytes` with Ed25519. The context names the purpose, so that a
 * signature is not valid for any other purpose. The signed digest is BLAKE2b-256("skep signature"
 * NUL, the length of `context` in one byte, `context`, `bytes`). The same input always gives the
 * same signature.
 * limits  context of 1 .. SIGN_CONTEXT_MAX characters
 * source  Bernstein et al. 2011, "High-speed high-security signatures"; RFC 8032 */
void keys_sign(const struct key_pairs *keys, const char *context, const void *bytes, size_t count,
               uint8_t signature[static SIGNATURE_BYTES]);

/* keys_verify: whether the signature of these bytes and this context was made with `sign_key`. Weak
 * keys and malleable signatures are rejected. */
MUST_CHECK bool keys_verify(const uint8_t sign_key[static KEY_BYTES], const char *context,
                            const void *bytes, size_t count,
                            const uint8_t signature[static SIGNATURE_BYTES]);

#endif
