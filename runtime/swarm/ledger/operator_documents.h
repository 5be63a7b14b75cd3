/* operator_documents: what the operator of a swarm signs besides its manifest and its orders: the
 * delegation, which names the tracker's keys, and the roster epoch, which names the members that
 * may have a seat. The operator's key can therefore stay offline, while the tracker's key is
 * replaced, or the members change.
 *
 * A document travels and is stored as a frame:
 *
 *     "SKEP"  4 bytes | version 1 byte | kind 1 byte | length 2 bytes, little-endian | document
 *
 * The document is one MessagePack map (packer.h): the signed map, and the signature of its bytes.
 *
 *     delegation   document: swarm, serial, expires_s, curve, sign;   signature
 *     roster       document: swarm, serial, is_open, members {32};    signature
 *
 * Of two documents of one kind, the one with the higher serial is the newer one. */
#ifndef SKEP_SWARM_LEDGER_OPERATOR_DOCUMENTS_H
#define SKEP_SWARM_LEDGER_OPERATOR_DOCUMENTS_H

#include "base/check.h"
#include "base/hash.h"
#include "transport/identity/keys.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    OPERATOR_FRAME_VERSION = 1,       /* version in the frame of a document */
    OPERATOR_FRAME_HEADER_BYTES = 8,  /* size of the header of a document's frame */
    DELEGATION_FRAME_BYTES_MAX = 512, /* largest frame of a delegation, which strangers receive */
    /* Largest number of keys in a roster epoch: four times the seats of a round, because members
     * come and go. Guests of an open swarm are not listed. */
    ROSTER_KEYS_MAX = 256,
    /* Smallest number of listed members of an open swarm. In a smaller one, every vote would be
     * needed for a quorum. */
    ROSTER_VOTERS_MIN = 3,
    /* largest frame of a roster epoch */
    ROSTER_FRAME_BYTES_MAX = 512 + ROSTER_KEYS_MAX * KEY_BYTES,
};

/* The operator's statement of which public keys the tracker has. */
struct delegation {
    uint64_t serial;    /* Unix time of signing in seconds, or a higher number; 0: no delegation */
    uint64_t expires_s; /* Unix time at which the delegation expires, in seconds; 0: never */
    struct public_keys tracker;         /* keys of the tracker */
    uint8_t signature[SIGNATURE_BYTES]; /* signature of the operator */
};

/* The operator's list of the members that may have a seat. */
struct roster_epoch {
    uint64_t serial; /* Unix time of signing in seconds, or a higher number; 0: no roster epoch */
    /* 1: others may have a seat too, as guests, which neither own slices nor vote */
    uint32_t is_open;
    uint32_t count; /* number of keys in use */
    /* [count]: members' Ed25519 public keys, ascending */
    uint8_t members[ROSTER_KEYS_MAX][KEY_BYTES];
    uint8_t signature[SIGNATURE_BYTES];
};

/* operator_next_serial: the serial of the next document of a kind, so that an operator needs no
 * record of earlier ones: the time, but above `newest`, the highest known serial of that kind.
 * limits  now_s > 0 */
uint64_t operator_next_serial(uint64_t newest, uint64_t now_s);

/* delegation_sign: sign all fields but `signature`, for the swarm with this manifest hash.
 * delegation_is_signed: whether the operator signed the fields for this swarm. */
void delegation_sign(const struct key_pairs *operator_keys, const struct hash *swarm,
                     struct delegation *delegation);
MUST_CHECK bool delegation_is_signed(const uint8_t operator_key[static KEY_BYTES],
                                     const struct hash *swarm, const struct delegation *delegation);

/* delegation_is_expired: whether the delegation has an expiry time, and that has passed. */
bool delegation_is_expired(const struct delegation *delegation, uint64_t now_s);

/* delegation_write: write the frame. Returns its size.
 * delegation_read: read a frame, which may be untrusted.
 * errors  a text that describes the error (not a frame, another version, not canonical, a serial of
 *         0), else NULL; the outputs are then undefined. The signature is not verified. */
size_t delegation_write(const struct hash *swarm, const struct delegation *delegation,
                        uint8_t bytes[static DELEGATION_FRAME_BYTES_MAX]);
MUST_CHECK const char *delegation_read(const uint8_t *bytes, size_t count, struct hash *swarm,
                                       struct delegation *delegation);

/* As for a delegation: sign, verify, write and read a roster epoch.
 * roster_epoch_error: a text that describes the first error in the fields, or NULL: a count above
 * the limit, keys that are not ascending, an open swarm with fewer than ROSTER_VOTERS_MIN named
 * members.
 * roster_epoch_has_key: whether the epoch names this key. */
void roster_epoch_sign(const struct key_pairs *operator_keys, const struct hash *swarm,
                       struct roster_epoch *epoch);
MUST_CHECK bool roster_epoch_is_signed(const uint8_t operator_key[static KEY_BYTES],
                                       const struct hash *swarm, const struct roster_epoch *epoch);
MUST_CHECK const char *roster_epoch_error(const struct roster_epoch *epoch);
bool roster_epoch_has_key(const struct roster_epoch *epoch, const uint8_t key[static KEY_BYTES]);
size_t roster_epoch_write(const struct hash *swarm, const struct roster_epoch *epoch,
                          uint8_t bytes[static ROSTER_FRAME_BYTES_MAX]);
MUST_CHECK const char *roster_epoch_read(const uint8_t *bytes, size_t count, struct hash *swarm,
                                         struct roster_epoch *epoch);

#endif
