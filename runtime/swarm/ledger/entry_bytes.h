/* entry_bytes: the canonical bytes of an entry, which are hashed, stored and sent.
 *
 * The form is fixed rather than msgpack: bytes that are hashed must have one spelling, and msgpack
 * has several for most integers. All integers are little-endian; a count comes before its items:
 *     version 4 (1), kind 4, incarnation 4, round 4, commits 4, deadline_ms 4,
 *     prev 32, root 32, manifest 32,
 *     cursor: position 8, count 4, {begin 8, end 8} ...
 *     seats:  count 4, {id 32, session 4, ranges: count 4, {begin 8, end 8} ...} ...
 *     members (as many as seats; commits only): {tokens 8, weight 8} ...
 *     slices: count 4, {begin 8, end 8, owner 4, epoch 4, contributors 8, weight 8, hash 32} ...
 * and in a record, but not under the hash: hash 32, signatures: count 4, {seat 4, signature 64} ...
 */
#ifndef SKEP_SWARM_LEDGER_ENTRY_BYTES_H
#define SKEP_SWARM_LEDGER_ENTRY_BYTES_H

#include "base/check.h"
#include "runtime/swarm/ledger/entry.h"
#include "runtime/swarm/ledger/packer.h"

#include <stddef.h>
#include <stdint.h>

enum {
    ENTRY_RANGE_BYTES = 16,
    ENTRY_SEAT_BYTES = SWARM_IDENTITY_BYTES + 8 + SWARM_SEAT_RANGES_MAX * ENTRY_RANGE_BYTES,
    ENTRY_SLICE_BYTES = 72,
    ENTRY_SIGNATURE_BYTES = 4 + SWARM_SIGNATURE_BYTES,
    /* The longest record, a commit with every table full. */
    ENTRY_RECORD_MAX = 24 + 3 * HASH_BYTES + 12 + SWARM_RETURNED_MAX * ENTRY_RANGE_BYTES + 4 +
                       SWARM_MEMBERS_MAX * (ENTRY_SEAT_BYTES + 16) + 4 +
                       SWARM_SLICES_MAX * ENTRY_SLICE_BYTES + HASH_BYTES + 4 +
                       SWARM_MEMBERS_MAX * ENTRY_SIGNATURE_BYTES,
};

/* entry_hash: the hash that identifies an entry and that is signed: BLAKE2b of "skep ledger entry"
 * with its NUL and the canonical bytes. It does not depend on entry->hash and the signatures.
 * limits  entry_error(entry) is NULL, or at least its counts are within their limits */
struct hash entry_hash(const struct entry *entry);

/* entry_record_bytes: the length of an entry's record. */
size_t entry_record_bytes(const struct entry *entry);

/* entry_write: write the record into `bytes`, which has room for entry_record_bytes. Returns its
 * length. */
size_t entry_write(const struct entry *entry, uint8_t *bytes, size_t capacity);

/* entry_read: a record from the disk or from a peer.
 * memory  entry->slices is set to `slices`, which has room for slice_max; *entry and slices are
 *         undefined after an error
 * errors  the error (truncated, too long, a count above its limit, entry_error, a hash that does
 *         not match), else NULL. Signatures are not verified here. */
MUST_CHECK const char *entry_read(const uint8_t *bytes, size_t count, struct entry_slice *slices,
                                  uint32_t slice_max, struct entry *entry);

/* entry_pack: pass over the fields that are hashed. entry_pack_proof: over the hash and signatures
 * after them. For reading, *entry is zero except for `slices`; only the form is checked. */
void entry_pack(struct packer *packer, struct entry *entry, uint32_t slice_max);
void entry_pack_proof(struct packer *packer, struct entry *entry);

/* entry_error: the error in the fields of an entry, without the rest of its chain, in words, else
 * NULL: a field that its kind does not use, a cursor out of order, a seat that is empty or given
 * twice, slices with gaps, a commit that is not counted, a weight that differs from its
 * contributors', signatures out of order. Counts are checked first, so that *entry may have any
 * content. */
MUST_CHECK const char *entry_error(const struct entry *entry);

#endif
