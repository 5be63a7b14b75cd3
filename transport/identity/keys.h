/* keys: what a process proves itself with: a CURVE key pair for its channels, an Ed25519 key pair
 * for what it signs, and one string for the two public keys. */
#ifndef SKEP_TRANSPORT_IDENTITY_KEYS_H
#define SKEP_TRANSPORT_IDENTITY_KEYS_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KEY_BYTES = 32,
    SIGNATURE_BYTES = 64,
    KEYS_TEXT_LETTERS = 112,                 /* kind 1, keys 64, check 5 bytes, in base32 */
    KEYS_TEXT_BYTES = KEYS_TEXT_LETTERS + 1, /* with its NUL */
    SIGN_CONTEXT_MAX = 32,                   /* "skep ledger entry" and the like */
};

/* The part that everybody may know. */
struct public_keys {
    uint8_t curve[KEY_BYTES]; /* X25519, as ZeroMQ's CURVE takes it */
    uint8_t sign[KEY_BYTES];  /* Ed25519 */
};

/* An identity. The two secrets are all that is stored; the rest follows from them. */
struct key_pairs {
    struct public_keys public_keys;
    uint8_t curve_secret[KEY_BYTES];
    uint8_t sign_seed[KEY_BYTES];
};

/* keys_generate: a new one from the system's source of randomness. */
void keys_generate(struct key_pairs *keys);

/* keys_from_secrets: the one that these 64 bytes (curve_secret, sign_seed) make. */
void keys_from_secrets(const uint8_t secrets[static 2 * KEY_BYTES], struct key_pairs *keys);

/* keys_wipe: overwrite the secrets, in a way that no compiler leaves out. */
void keys_wipe(struct key_pairs *keys);

/* public_keys_write: both keys as one string of KEYS_TEXT_LETTERS lower-case base32 letters, which
 * always begins with 'p'. Gives `text` back.
 * public_keys_read: the same backwards.
 * limits  exactly KEYS_TEXT_LETTERS characters; at most one more is looked at
 * errors  NULL when it is one of ours, else what is wrong with it: its length, a character, a
 *         secret where a public string belongs, another version, a mistyped letter (40 bits of
 *         BLAKE2b stand in it). *keys is then untouched */
const char *public_keys_write(const struct public_keys *keys, char text[static KEYS_TEXT_BYTES]);
MUST_CHECK const char *public_keys_read(const char *text, struct public_keys *keys);

/* secret_keys_write, secret_keys_read: the same for the secrets; the string begins with 's'. Only
 * the identity's file holds it. */
const char *secret_keys_write(const struct key_pairs *keys, char text[static KEYS_TEXT_BYTES]);
MUST_CHECK const char *secret_keys_read(const char *text, struct key_pairs *keys);

/* keys_sign: an Ed25519 signature of `context` and `bytes` together, so that what was signed for
 * one purpose proves nothing for another. Signed is the digest BLAKE2b-256("skep signature" NUL,
 * the length of `context` in one byte, `context`, `bytes`).
 * limits  context of 1 .. SIGN_CONTEXT_MAX characters, a constant of ours
 * errors  none; the same input gives the same signature
 * source  Bernstein et al. 2011, "High-speed high-security signatures"; RFC 8032 */
void keys_sign(const struct key_pairs *keys, const char *context, const void *bytes, size_t count,
               uint8_t signature[static SIGNATURE_BYTES]);

/* keys_verify: whether `sign_key` made the signature of these bytes for this purpose. Weak keys and
 * second spellings of a signature are refused. */
MUST_CHECK bool keys_verify(const uint8_t sign_key[static KEY_BYTES], const char *context,
                            const void *bytes, size_t count,
                            const uint8_t signature[static SIGNATURE_BYTES]);

#endif
