/* entry: one entry of the ledger as plain data; it is encoded, hashed and kept elsewhere. */
#ifndef SKEP_SWARM_LEDGER_ENTRY_H
#define SKEP_SWARM_LEDGER_ENTRY_H

#include "base/hash.h"
#include "runtime/swarm/ledger/limits.h"

#include <stdint.h>

enum entry_kind {
    ENTRY_GENESIS,  /* the manifest and the root everybody starts from; round 0, prev all zero */
    ENTRY_OPEN,     /* a round's roster, sample ranges and deadline */
    ENTRY_COMMIT,   /* the round's result, signed by a quorum of its roster */
    ENTRY_ABORT,    /* the round ended without a result */
    ENTRY_ROLLBACK, /* back to the newest root that can be reached */
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

/* The data cursor after an entry: no sample at or above `position` was ever given out; `returned`
 * were given out and came back unused; ascending, disjoint, never touching. */
struct data_cursor {
    uint64_t position;
    uint32_t returned_count;
    struct sample_range returned[SWARM_RETURNED_MAX];
};

/* A place in a round's roster. Its index, the seat, is the bit of the member in `contributors` and
 * its turn in every sum. */
struct entry_seat {
    struct identity id;
    uint32_t session; /* one start of the member's process, numbered by the tracker */
    uint32_t range_count;
    struct sample_range ranges[SWARM_SEAT_RANGES_MAX];
};

struct entry_member {
    uint64_t tokens; /* trained, as declared */
    uint64_t weight; /* its weight in every slice that names it */
};

struct entry_slice {
    uint64_t begin; /* of the flat index space, in parameters */
    uint64_t end;
    uint32_t owner; /* seat of the member whose result this is */
    uint32_t epoch;
    uint64_t contributors; /* bit s: seat s is in the sum */
    uint64_t weight;       /* the contributors' weights together */
    struct hash hash;      /* of the encoded result */
};

struct entry_signature {
    uint32_t seat;
    struct signature signature;
};

/* entry: one line of the ledger.
 * hash       BLAKE2b of the canonical encoding of every other field, `signatures` excepted; it is
 *            what voters (of a commit) and the tracker (of every other kind) sign
 * roster     `seats` has the identities for every kind but genesis (a commit and an abort repeat
 *            their OPEN's), so that an entry reads alone: a commit's member s is seats[s].id with
 *            members[s], its slice's owner is seats[owner].id
 * memory     `slices` is an array of the entry's owner, `slice_count` of it filled; used by commits
 *            only. An entry copied by assignment shares it.
 * unused     fields of other kinds are zero */
struct entry {
    enum entry_kind kind;
    uint32_t incarnation; /* of the tracker that wrote it; never falls along the chain */
    uint32_t round;       /* never used twice for a commit or an abort */
    uint32_t commits;     /* in the chain up to this entry, itself included */
    struct hash prev;     /* the hash of the entry before */
    struct hash hash;
    struct data_cursor cursor; /* after this entry */
    struct hash root;          /* of the outer state that stands after this entry, for every kind */
    struct hash manifest;      /* genesis */
    uint32_t deadline_ms;      /* open: from its receipt to the member's declaration */
    uint32_t seat_count;
    struct entry_seat seats[SWARM_MEMBERS_MAX];
    struct entry_member members[SWARM_MEMBERS_MAX]; /* commit: one per seat */
    uint32_t slice_count;                           /* commit */
    struct entry_slice *slices;
    uint32_t signature_count; /* commit: a quorum or more, ascending seats; else none or one */
    struct entry_signature signatures[SWARM_MEMBERS_MAX];
};

/* entry_quorum: the least number of votes that is more than half of a roster. */
static inline uint32_t entry_quorum(uint32_t seat_count) {
    return seat_count / 2 + 1;
}

/* entry_copy: all of `from`, its slices into the array that `to` has. */
void entry_copy(struct entry *to, const struct entry *from);

#endif
