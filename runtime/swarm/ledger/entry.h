/* entry: one entry of the ledger as plain data, its canonical bytes, the cursor over samples, and
 * the limits of a swarm. */
#ifndef SKEP_SWARM_LEDGER_ENTRY_H
#define SKEP_SWARM_LEDGER_ENTRY_H

#include "base/check.h"
#include "base/hash.h"
#include "runtime/swarm/ledger/packer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The limits of a swarm, each with the reason for its size. */
enum {
    SWARM_PROTOCOL_VERSION = 1, /* raised when members of different versions cannot work together */
    SWARM_MEMBERS_MAX = 64,     /* a roster is one 64-bit word of seats */
    SWARM_SLICES_MAX = 16384,   /* 16 GiB encoded: 15 billion parameters in int8 */
    SWARM_SEAT_RANGES_MAX = 4,  /* a round's new range, and those of three aborted rounds */
    SWARM_RETURNED_RANGES_MAX = 512, /* all ranges of all seats, of two aborted rounds in a row */
    ROLLBACK_STATES_MAX = 32,        /* committed states that a rollback can return to */
    REPLAY_ROUNDS_MAX = 7,   /* rounds that a returning member replays, and whose results members
                                   store: in int8 they are nearly as large as the state */
    SWARM_EPOCH_MAX = 65535, /* of a slice in a round: a frame has two bytes for it */
    CONTRIBUTION_SLOTS_PER_MEMBER = 4, /* contributions of one member that an owner requested or has
                                   not summed: 4 MiB, a link of 500 Mbit/s at 60 ms */
    RESULT_REQUESTS_MAX = 8,    /* results requested from one member: twice as many, since an owner
                                   may sum while its uplink is idle */
    SWARM_REQUESTS_MAX = 1024,  /* open at once: every window of every member, with room */
    SWARM_IDENTITY_BYTES = 32,  /* an Ed25519 public key */
    SWARM_SIGNATURE_BYTES = 64, /* an Ed25519 signature */
};

_Static_assert(SWARM_REQUESTS_MAX >=
                   SWARM_MEMBERS_MAX * (CONTRIBUTION_SLOTS_PER_MEMBER + RESULT_REQUESTS_MAX),
               "all requests that the windows allow can be sent in one step");
_Static_assert(SWARM_RETURNED_RANGES_MAX >= 2 * SWARM_MEMBERS_MAX * SWARM_SEAT_RANGES_MAX,
               "the cursor has room for what two rounds without a commit return");

enum entry_kind {
    ENTRY_GENESIS,  /* the manifest, and the root that all start from; round 0, prev all zero */
    ENTRY_OPEN,     /* a round's roster, sample ranges and deadline */
    ENTRY_COMMIT,   /* the round's result, signed by a quorum of its roster */
    ENTRY_ABORT,    /* the round ended without a result */
    ENTRY_ROLLBACK, /* makes an older root current: no member has the newest state */
};

/* An identity: the Ed25519 public key that a member signs with. */
struct identity {
    uint8_t bytes[SWARM_IDENTITY_BYTES];
};

struct signature {
    uint8_t bytes[SWARM_SIGNATURE_BYTES];
};

/* Samples [begin, end). */
struct sample_range {
    uint64_t begin;
    uint64_t end;
};

/* The data cursor after an entry. Samples at or above `position` were never handed out. Those in
 * `returned` were handed out and returned unused: ascending ranges with gaps between them. */
struct data_cursor {
    uint64_t position;
    uint32_t returned_count;
    struct sample_range returned[SWARM_RETURNED_RANGES_MAX];
};

/* A row of a round's roster. Its index, the seat, is the bit of the member in `contributors` and
 * its position in every sum. */
struct entry_seat {
    struct identity id;
    uint32_t session; /* the member session, a number that the tracker gives */
    uint32_t range_count;
    struct sample_range ranges[SWARM_SEAT_RANGES_MAX];
};

struct entry_member {
    uint64_t tokens; /* trained, as declared */
    uint64_t weight; /* its weight in each slice that it contributed to */
};

struct entry_slice {
    uint64_t begin; /* of the flat parameter space */
    uint64_t end;
    uint32_t owner; /* seat of the member whose result this is */
    uint32_t epoch;
    uint64_t contributors; /* bit s: seat s is in the sum */
    uint64_t weight;       /* sum of the contributors' weights */
    struct hash hash;      /* of the encoded result */
};

struct entry_signature {
    uint32_t seat;
    struct signature signature;
};

/* entry: one line of the ledger.
 * hash       BLAKE2b of the canonical encoding of all other fields except `signatures`. Voters sign
 *            it for a commit, the tracker for the other kinds.
 * roster     `seats` has the identities in every kind but genesis: a commit and an abort repeat
 *            those of their OPEN, so that an entry can be read alone. Member s of a commit is
 *            seats[s].id with members[s]; the owner of a slice is seats[owner].id.
 * memory     `slices` belongs to the caller; the first `slice_count` are used, by commits only. An
 *            entry that is copied by assignment shares the array.
 * unused     fields of other kinds are zero */
struct entry {
    enum entry_kind kind;
    uint32_t incarnation; /* of the tracker that wrote it; never decreases along the chain */
    uint32_t round;       /* at most one commit or abort has it */
    uint32_t commits;     /* in the chain up to and including this entry */
    struct hash prev;     /* the hash of the entry before */
    struct hash hash;
    struct data_cursor cursor; /* after this entry */
    struct hash root;          /* of the current outer state after this entry, in every kind */
    struct hash manifest;      /* genesis */
    uint32_t deadline_ms;      /* open: for a member's declaration, from the arrival of the OPEN */
    uint32_t seat_count;
    struct entry_seat seats[SWARM_MEMBERS_MAX];
    struct entry_member members[SWARM_MEMBERS_MAX]; /* commit: one per seat */
    uint32_t slice_count;                           /* commit */
    struct entry_slice *slices;
    uint32_t signature_count; /* commit: a quorum or more, ascending seats; else none or one */
    struct entry_signature signatures[SWARM_MEMBERS_MAX];
};

/* entry_quorum: the smallest number of votes that is more than half of a roster. */
static inline uint32_t entry_quorum(uint32_t seat_count) {
    return seat_count / 2 + 1;
}

/* entry_copy: copy all of `from`; its slices go into the array that `to` has. */
void entry_copy(struct entry *to, const struct entry *from);

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

enum {
    ENTRY_RANGE_BYTES = 16,
    ENTRY_SEAT_BYTES = SWARM_IDENTITY_BYTES + 8 + SWARM_SEAT_RANGES_MAX * ENTRY_RANGE_BYTES,
    ENTRY_SLICE_BYTES = 72,
    ENTRY_SIGNATURE_BYTES = 4 + SWARM_SIGNATURE_BYTES,
    /* The longest record, a commit with every table full. */
    ENTRY_RECORD_BYTES_MAX =
        24 + 3 * HASH_BYTES + 12 + SWARM_RETURNED_RANGES_MAX * ENTRY_RANGE_BYTES + 4 +
        SWARM_MEMBERS_MAX * (ENTRY_SEAT_BYTES + 16) + 4 + SWARM_SLICES_MAX * ENTRY_SLICE_BYTES +
        HASH_BYTES + 4 + SWARM_MEMBERS_MAX * ENTRY_SIGNATURE_BYTES,
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

/* entry_pack_fields: pass over the fields that are hashed. entry_pack_signatures: over the hash and
 * signatures after them. For reading, *entry is zero except for `slices`; only the form is checked.
 * */
void entry_pack_fields(struct packer *packer, struct entry *entry, uint32_t slice_max);
void entry_pack_signatures(struct packer *packer, struct entry *entry);

/* entry_error: the error in the fields of an entry, without the rest of its chain, in words, else
 * NULL: a field that its kind does not use, a cursor out of order, a seat that is empty or given
 * twice, slices with gaps, a commit that is not counted, a weight that differs from its
 * contributors', signatures out of order. Counts are checked first, so that *entry may have any
 * content. */
MUST_CHECK const char *entry_error(const struct entry *entry);

/* cursor: the samples that can still be handed out: a position and a bounded list of returned
 * ranges. */

/* cursor_hand_out: the next range of at most `count` samples: the first returned range or its head,
 * else new samples at the position. Never empty.
 * limits  count > 0 */
struct sample_range cursor_hand_out(struct data_cursor *cursor, uint64_t count);

/* cursor_reclaim: remove exactly `range` from the returned samples. False when not all of it is
 * returned; the cursor is then untouched. */
bool cursor_reclaim(struct data_cursor *cursor, struct sample_range range);

/* cursor_return: add a range that was handed out and not used. A range that would need a row beyond
 * SWARM_RETURNED_RANGES_MAX is never used: no sample is used twice.
 * limits  range.end <= position; disjoint from every returned range */
void cursor_return(struct data_cursor *cursor, struct sample_range range);

#endif
