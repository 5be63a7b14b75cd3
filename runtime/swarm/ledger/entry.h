/* entry: one entry of the ledger as plain data. entry_bytes encodes and hashes it. */
#ifndef SKEP_SWARM_LEDGER_ENTRY_H
#define SKEP_SWARM_LEDGER_ENTRY_H

#include "base/hash.h"
#include "runtime/swarm/ledger/limits.h"

#include <stdint.h>

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
    struct sample_range returned[SWARM_RETURNED_MAX];
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

#endif
