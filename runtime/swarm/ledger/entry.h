/* entry: one entry of the ledger as plain data, its canonical bytes, the cursor over samples, and
 * the limits of a swarm. */
#ifndef SKEP_SWARM_LEDGER_ENTRY_H
#define SKEP_SWARM_LEDGER_ENTRY_H

#include "base/check.h"
#include "base/hash.h"
#include "runtime/swarm/leases/leases.h"
#include "runtime/swarm/ledger/operator_documents.h"
#include "runtime/swarm/packer/packer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The limits of a swarm, each with the reason for its size. */
enum {
    /* Increased by each change after which members of both versions cannot work together. */
    SWARM_PROTOCOL_VERSION = 2, /* version of messages and ledger entries */
    SWARM_MEMBERS_MAX = 64,     /* seats of a roster: the bits of one 64-bit word */
    SWARM_SLICES_MAX = 16384, /* slices of a swarm: 16 GiB encoded, 15 billion parameters in int8 */
    /* A seat gets at most one new range, and ranges returned by three aborted rounds. */
    SWARM_SEAT_RANGES_MAX = 4, /* sample ranges of one seat */
    /* Room for all ranges of all seats of two consecutive aborted rounds. */
    SWARM_RETURNED_RANGES_MAX = 512, /* sample ranges returned unused */
    /* States in the history of a chain: the genesis and the newest 32, one of which is current. */
    ROLLBACK_STATES_MAX = 33,
    /* Number of rounds that a reconnecting member can replay. Members store the results of this
     * number of rounds, which in int8 are nearly as large as the outer state. */
    REPLAY_ROUNDS_MAX = 7,
    SWARM_EPOCH_MAX = 65535, /* Largest epoch of a slice: a frame stores the epoch in two bytes. */
    /* Maximum number of contributions of one member that an owner has requested but not yet summed.
     * The 4 MiB in transit keep a link of 500 Mbit/s with a round trip of 60 ms busy. */
    CONTRIBUTION_SLOTS_PER_MEMBER = 4,
    /* Maximum number of results requested from one member at a time: twice the contribution slots,
     * because an owner may be summing while its uplink is idle. */
    RESULT_REQUESTS_MAX = 8,
    /* Maximum number of open requests of a member: more than it can have at all peers together. */
    SWARM_REQUESTS_MAX = 1024,
    SWARM_IDENTITY_BYTES = 32,  /* Size of an Ed25519 public key. */
    SWARM_SIGNATURE_BYTES = 64, /* Size of an Ed25519 signature. */
};

_Static_assert(SWARM_REQUESTS_MAX >=
                   SWARM_MEMBERS_MAX * (CONTRIBUTION_SLOTS_PER_MEMBER + RESULT_REQUESTS_MAX),
               "one step can send all requests that a member may have open at all peers");
_Static_assert((int)ORDER_MEMBERS_MAX == (int)SWARM_MEMBERS_MAX,
               "an order to continue can list all members of a roster");
_Static_assert(SWARM_RETURNED_RANGES_MAX >= 2 * SWARM_MEMBERS_MAX * SWARM_SEAT_RANGES_MAX,
               "the cursor has room for all ranges that two aborted rounds return");

enum entry_kind {
    /* Holds the hash of the manifest and the root of the genesis; round 0, `prev` all zero. */
    ENTRY_GENESIS, /* First entry of a ledger: the initial state. */
    ENTRY_OPEN,    /* Starts a round: its roster, sample ranges and deadline. */
    ENTRY_COMMIT,  /* Ends a round with a new root, signed by a quorum of its roster. */
    ENTRY_ABORT,   /* Ends a round without a result. */
    /* Makes an older root current, because the operator ordered it or no member has the newest
     * state. */
    ENTRY_ROLLBACK,
    ENTRY_SUSPEND, /* Between rounds: suspends a member until a later round. */
};

/* Why a round counts as missed by a member: it did not do a part of the round for which it was
 * fast enough in earlier rounds, its contribution got no weight, or a statement of it was false. */
enum suspension_reason {
    SUSPENSION_NONE,          /* The round does not count as missed. */
    SUSPENSION_DECLARATION,   /* The member declared nothing by the end of training. */
    SUSPENSION_CONTRIBUTIONS, /* The member did not send its contributions, or their sketches. */
    SUSPENSION_RESULTS,       /* No result of the slices that the member owned was received. */
    SUSPENSION_LARGE_NORM,    /* The norm of the member's contribution was above the bound. */
    SUSPENSION_NO_EFFECT,  /* The norm of the member's contribution was below the effect bound. */
    SUSPENSION_REPETITION, /* The member's contribution repeats one declared in an earlier round. */
    /* The member signed a result that is not the mean of the contributions to it. */
    SUSPENSION_WRONG_SUM,
    SUSPENSION_WRONG_SKETCH, /* The member signed sketches that do not match its contribution. */
    SUSPENSION_INVALID,      /* Owners rejected values of the member's contributions. */
    /* The member signed a result, and did not send the voters its own contribution to it. */
    SUSPENSION_WITHHELD,
    SUSPENSION_OPPOSED, /* The contributions of the member opposed those of the others. */
    SUSPENSION_REASONS  /* number of reasons */
};

/* An identity: the Ed25519 public key that a member signs with. */
struct identity {
    uint8_t bytes[SWARM_IDENTITY_BYTES]; /* Ed25519 public key */
};

struct signature {
    uint8_t bytes[SWARM_SIGNATURE_BYTES];
};

/* The operator's order to roll back (rollback.h). */
struct rollback_order {
    /* Hash of the entry of the newest state when the operator signed; zero if there is no order. */
    struct hash newest;
    struct signature signature;
};

/* The operator's documents that become valid with an entry; a serial of 0: none. */
struct entry_documents {
    struct delegation delegation; /* names the keys of the entry's tracker */
    struct roster_epoch roster;   /* OPEN: members that may have a seat from now on */
};

/* Samples [begin, end). */
struct sample_range {
    uint64_t begin; /* Index of the first sample. */
    uint64_t end;   /* Index after the last sample. */
};

/* The samples that can still be assigned after an entry. */
struct data_cursor {
    uint64_t position;       /* Samples at or above this index were never assigned. */
    uint32_t returned_count; /* Number of returned ranges in use. */
    /* [returned_count]: ranges of samples that were assigned and returned unused, ascending, with
     * gaps between them */
    struct sample_range returned[SWARM_RETURNED_RANGES_MAX];
};

/* A row of a round's roster. Its index, the seat, is the bit of the member in `contributors` and
 * its position in every sum. */
struct entry_seat {
    struct identity id; /* Public key of the member. */
    uint32_t session;   /* Member session: the number that the tracker gives to one admission. */
    /* 1: a guest, or an elector that has resigned: it contributes, but does not own slices or vote;
     * else 0 */
    uint32_t is_guest;
    uint32_t range_count;                              /* Number of sample ranges of the seat. */
    struct sample_range ranges[SWARM_SEAT_RANGES_MAX]; /* Samples to train on. */
};

struct entry_member { /* what the member in one seat contributed to a commit */
    uint64_t tokens;  /* Number of tokens that the member declared as trained. */
    uint64_t weight;  /* Weight of the member in each slice that it contributed to. */
    uint64_t samples; /* Number of samples that the member trained: the first in its ranges. */
    double norm;      /* L2 norm of the whole contribution, as the member declared it (norms.h). */
    uint32_t contributed; /* COMMIT: number of slices with the member's contribution. */
    uint32_t owned;       /* COMMIT: number of slices whose results the member computed. */
};

/* The statement about one slice that a suspended member signed, and that more than half of the
 * roster found to be false. The round is that of the entry. */
struct entry_evidence {
    uint32_t slice;        /* index of the slice; of sketches: of the first slice of the page */
    uint32_t epoch;        /* of a result: epoch of the slice when the result was computed */
    uint64_t contributors; /* of a result: seats whose contributions are in the result */
    struct hash hash;      /* hash of the result, or of the page of sketches */
    struct hash seed;      /* WRONG_SKETCH: seed of the sketches */
    struct signature signature; /* signature of the member */
};

/* Why a member has no seat, and the first round in which it may have one again. */
struct entry_suspension {
    struct identity id;   /* public key of the suspended member */
    uint32_t reason;      /* enum suspension_reason */
    uint32_t until_round; /* first round in which the member may have a seat again */
    /* the false statement: WRONG_SUM, WITHHELD: about a result; WRONG_SKETCH: about sketches */
    struct entry_evidence evidence;
};

/* entry_has_evidence: whether a suspension is for a statement, which then is its evidence. */
static inline bool entry_has_evidence(const struct entry_suspension *suspension) {
    return suspension->reason == SUSPENSION_WRONG_SUM ||
           suspension->reason == SUSPENSION_WRONG_SKETCH ||
           suspension->reason == SUSPENSION_WITHHELD;
}

/* What allows a tracker to open the rounds after a state entry: the newest GENESIS, COMMIT or
 * ordered ROLLBACK of the chain. The voters of its roster are the electors, numbered in the order
 * of their seats. An ABORT has the number of the start that aborted its round, and no
 * resignations. The entry's own incarnation completes the identity of the start. */
struct entry_leases {
    struct hash state; /* hash of the state entry */
    uint64_t start;    /* number of the tracker's start; 0: members of this swarm give no leases */
    uint64_t resigned; /* bit e is set: elector e resigned */
    struct signature signatures[SWARM_MEMBERS_MAX]; /* [elector]: signature of its resignation */
    struct continue_order order; /* the operator's order to continue; count 0: none */
    uint32_t are_needed; /* GENESIS: 1: members give leases with their votes; 0: none does. */
};

/* A row of a commit: the result of one slice. Rows are not part of an entry's hashed content,
 * which has only the root over the rows and the counts of each member. */
struct entry_slice {
    uint64_t begin;        /* index of the slice's first element in the flat parameter space */
    uint64_t end;          /* index after the slice's last element */
    uint32_t owner;        /* Seat of the member that computed the result. */
    uint32_t epoch;        /* Epoch of the slice when its result was computed. */
    uint64_t contributors; /* Bit s is set if the contribution of seat s is in the sum. */
    uint64_t weight;       /* Sum of the weights of all contributors. */
    struct hash hash;      /* Hash of the encoded result. */
};

struct entry_signature {
    uint32_t seat; /* Seat of the signer. */
    struct signature signature;
};

/* entry: one entry of the ledger.
 * hash       BLAKE2b of the canonical encoding of all other fields except `signatures`. Voters sign
 *            it for a commit, the tracker for the other kinds.
 * roster     every kind but genesis has its identities in `seats`: a commit and an abort repeat
 *            the seats of their OPEN, so that an entry can be read alone; a rollback and a
 *            suspension repeat those of the entry before. Member s of a commit is seats[s].id
 *            with members[s]; the owner of a slice is seats[owner].id.
 * rows       a commit may be known with or without the rows of its results: slice_count is
 *            result_count or 0. Rows are stored for REPLAY_ROUNDS_MAX + 1 rounds only.
 * memory     `slices` belongs to the caller; the first `slice_count` are used, by commits only. An
 *            entry that is copied by assignment shares the array.
 * unused     fields that a kind does not use are zero */
struct entry {
    enum entry_kind kind;
    uint32_t incarnation; /* Incarnation of the tracker that wrote the entry; never decreases. */
    uint32_t round;       /* Round number. At most one commit or abort has the same number. */
    uint32_t commits;     /* Number of commits in the chain up to and including this entry. */
    struct hash prev;     /* Hash of the previous entry. */
    struct hash hash;
    struct data_cursor cursor;   /* State of the data cursor after this entry. */
    struct hash root;            /* Root of the outer state that is current after this entry. */
    struct hash manifest;        /* GENESIS: hash of the manifest. */
    struct rollback_order order; /* ROLLBACK: the operator's order; zero: there is none. */
    /* The operator's documents that become valid with this entry; all kinds but COMMIT. */
    struct entry_documents documents;
    /* OPEN: what allows the tracker to open the round; ABORT: number of the tracker's start that
     * aborts. */
    struct entry_leases leases;
    double reference_norm; /* Reference norm of the newest commit; 0: none (norms.h). */
    /* OPEN: ms from its arrival at a member to the deadline of declarations; in files:
     * deadline_ms */
    uint32_t train_ms;
    struct entry_suspension suspension;             /* SUSPEND: the member and the reason */
    uint32_t seat_count;                            /* Number of seats in the roster. */
    struct entry_seat seats[SWARM_MEMBERS_MAX];     /* Roster: the member in each seat. */
    struct entry_member members[SWARM_MEMBERS_MAX]; /* COMMIT: one row for each seat. */
    uint32_t result_count;                          /* COMMIT: number of slices. */
    struct hash results;  /* COMMIT: Merkle root over the rows of all slices. */
    struct hash chain;    /* COMMIT: hash of the chain's state before this entry (ledger.h). */
    uint32_t slice_count; /* Number of rows in `slices`: result_count, or 0. Not hashed. */
    struct entry_slice *slices; /* COMMIT: [slice_count]: results; caller's memory. Not hashed. */
    uint32_t signature_count;   /* signatures; COMMIT: at least a quorum; other kinds: 0 or 1 */
    struct entry_signature signatures[SWARM_MEMBERS_MAX]; /* Signatures, by ascending seat. */
};

/* entry_quorum: the smallest number of votes that is more than half of this number of voters. */
static inline uint32_t entry_quorum(uint32_t voter_count) {
    return voter_count / 2 + 1;
}

/* entry_voting_seats: the seats that vote and may own slices, as a mask: all but those of guests.
 * entry_voter_count: the number of these seats.
 * entry_votes_needed: the quorum of the roster. */
static inline uint64_t entry_voting_seats(const struct entry *entry) {
    uint64_t seats = 0;
    for (uint32_t seat = 0; seat < entry->seat_count; seat++) {
        seats |= (uint64_t)(entry->seats[seat].is_guest == 0) << seat;
    }
    return seats;
}

static inline uint32_t entry_voter_count(const struct entry *entry) {
    return (uint32_t)__builtin_popcountll(entry_voting_seats(entry));
}

static inline uint32_t entry_votes_needed(const struct entry *entry) {
    return entry_quorum(entry_voter_count(entry));
}

/* entry_sets_state: whether an entry of this kind sets the current root. Entries of other kinds
 * repeat the root of the entry before. */
static inline bool entry_sets_state(enum entry_kind kind) {
    return kind == ENTRY_GENESIS || kind == ENTRY_COMMIT || kind == ENTRY_ROLLBACK;
}

/* entry_lacks_contribution: whether a seat had a weight and the COMMIT has its contribution to no
 * slice. Its samples return, and an honest member may declare the same contribution again. */
static inline bool entry_lacks_contribution(const struct entry *commit, uint32_t seat) {
    return commit->members[seat].weight > 0 && commit->members[seat].contributed == 0;
}

/* The members that decide what follows a state entry: the voters of its roster. A GENESIS has
 * none. */
struct electors {
    struct hash state;                      /* hash of the state entry */
    uint32_t round;                         /* round of the state entry */
    uint32_t count;                         /* number of electors */
    struct identity ids[SWARM_MEMBERS_MAX]; /* electors, in the order of their seats */
};

/* The votes that a commit needs besides a quorum of its roster: those of more than half of `count`
 * members, or of half of them if the first one is among these. The members are the electors that
 * have not resigned, or those that the operator's order lists. Some may have no seat. */
struct needed_votes {
    uint64_t seats; /* mask of the seats of the needed voters in the round's roster */
    /* mask with the seat of the first elector, which decides between two halves; 0: the first
     * elector has no seat, or half of the votes is not enough */
    uint64_t first_elector;
    /* number of members of which more than half must vote; 0: the quorum is enough */
    uint32_t count;
};

/* entry_has_rollback_order: whether a ROLLBACK has an order of the operator.
 * entry_sets_electors: whether the entry is a state entry, whose voters are the electors of what
 * follows. An ABORT, a SUSPEND and a ROLLBACK without an order are not state entries, because a
 * tracker could choose its electors with them.
 * electors_of_entry: the electors of a state entry. */
bool entry_has_rollback_order(const struct entry *entry);
bool entry_sets_electors(const struct entry *entry);
void electors_of_entry(const struct entry *entry, struct electors *electors);

/* electors_error_in_open: a text that describes why these electors do not allow this OPEN, or NULL.
 * The OPEN needs seats of more than half of the electors that have not resigned, or of half of them
 * with the first one; or an order of the operator that lists the members in all seats, which are
 * more than half of the listed members. Signatures are not verified.
 * electors_signatures_error: a text that describes the first invalid signature in entry->leases, or
 * NULL. The operator's signature is verified unless operator_key is NULL.
 * electors_needed_votes: the votes that a commit of this OPEN needs.
 * has_needed_votes: whether `voters`, a mask of seats, are enough.
 * limits  entry_error(open) is NULL, and open->leases.start is not 0 */
MUST_CHECK const char *electors_error_in_open(const struct electors *electors,
                                              const struct entry *open);
MUST_CHECK const char *electors_signatures_error(const struct electors *electors,
                                                 const struct hash *swarm,
                                                 const uint8_t *operator_key,
                                                 const struct entry *open);
struct needed_votes electors_needed_votes(const struct electors *electors,
                                          const struct entry *open);
bool has_needed_votes(const struct needed_votes *needed, uint64_t voters);

/* entry_leases_error: as entry_error, for the leases of an entry. entry_pack_leases: pack the
 * leases of an OPEN or ABORT as fields of a message. */
MUST_CHECK const char *entry_leases_error(const struct entry *entry);
void entry_pack_leases(struct packer *packer, struct entry_leases *leases);

/* entry_copy: copy all of `from`; the slices are copied into the array that to->slices points
 * to. */
void entry_copy(struct entry *to, const struct entry *from);

/* entry_bytes: the record of an entry, which is stored and sent: one MessagePack map (packer.h), of
 * which the map `entry` is hashed. Lists are bins; numbers in them are little-endian.
 *     entry: protocol, kind, incarnation, round, commits, deadline_ms, prev, root, manifest,
 *         reference_norm, position and returned {begin 8, end 8} of the cursor,
 *         seat_count, seats {id 32}, sessions {4}, guests {1: 1 for a guest, else 0}, ranges: an
 *         array of {begin 8, end 8} ...,
 *         of all kinds but a commit: delegation (a serial), and unless that is 0: expires_s,
 *         tracker_curve, tracker_sign, delegation_signature,
 *         of a genesis: needs_leases, after deadline_ms,
 *         of an open: roster (a serial), and unless that is 0: is_open, roster_members {32},
 *         roster_signature,
 *         of an open or abort: start, and unless that is 0: state, resigned,
 *         resignation_signatures {64} of these electors, order_members {32}, and unless there are
 *         none order_to_continue, the signature,
 *         of a rollback: order_newest and order_signature,
 *         of a suspension: suspended, reason and until_round; of a false statement also slice,
 *         epoch, contributors, statement_hash, seed and statement_signature,
 *         of a commit: tokens {8}, weights {8}, samples {8}, norms {8, fp64}, contributed {4} and
 *         owned {4} of each seat, slice_count, results, chain
 *     hash, signature_count, signature_seats {1}, signatures {64}
 *     of a commit: row_count, which is slice_count or 0, and of each row begins {8}, ends {8},
 *         owners {1}, epochs {2}, contributors {8}, slice_weights {8}, hashes {32}
 * `results` is merkle_tree_root over the leaves of all rows; a leaf is H(MERKLE_RESULT, the fields
 * of the row in this order, with these sizes). */

enum {
    ENTRY_RANGE_BYTES = 16, /* encoded size of a sample range */
    /* Largest encoded size of a seat. The 2 bytes are the header of the bin with its ranges. */
    ENTRY_SEAT_BYTES = SWARM_IDENTITY_BYTES + 4 + 1 + 2 + SWARM_SEAT_RANGES_MAX * ENTRY_RANGE_BYTES,
    ENTRY_MEMBER_BYTES = 4 * 8 + 2 * 4, /* encoded size of a member of a commit */
    ENTRY_SLICE_BYTES = 8 + 8 + 1 + 2 + 8 + 8 + HASH_BYTES, /* encoded size of a slice */
    /* encoded size of a seat and its signature */
    ENTRY_SIGNATURE_BYTES = 1 + SWARM_SIGNATURE_BYTES,
    ENTRY_FIELDS_MAX = 71, /* Number of fields of a record, those of `entry` included. */
    /* Largest size of a record without the elements of its lists. */
    ENTRY_FIXED_BYTES_MAX = ENTRY_FIELDS_MAX * PACKER_FIELD_BYTES_MAX + 2 * PACKER_MAP_BYTES_MAX +
                            10 * HASH_BYTES + 2 * SWARM_SIGNATURE_BYTES + 2 * KEY_BYTES +
                            3 * SIGNATURE_BYTES,
    /* Largest size of the keys of a roster epoch, which few entries have. */
    ENTRY_ROSTER_BYTES_MAX = ROSTER_KEYS_MAX * KEY_BYTES,
    /* Largest size of the signatures of resignations and of the members of an order. */
    ENTRY_LEASES_BYTES_MAX = SWARM_MEMBERS_MAX * (SWARM_SIGNATURE_BYTES + KEY_BYTES),
    /* Size of the longest record: a commit in which all arrays are full. */
    ENTRY_RECORD_BYTES_MAX =
        ENTRY_FIXED_BYTES_MAX + ENTRY_ROSTER_BYTES_MAX + ENTRY_LEASES_BYTES_MAX +
        SWARM_RETURNED_RANGES_MAX * ENTRY_RANGE_BYTES +
        SWARM_MEMBERS_MAX * (ENTRY_SEAT_BYTES + ENTRY_MEMBER_BYTES + ENTRY_SIGNATURE_BYTES) +
        SWARM_SLICES_MAX * ENTRY_SLICE_BYTES,
};

/* entry_record_bytes_max: the length of the longest record of an entry with at most this number of
 * slices. */
static inline size_t entry_record_bytes_max(uint32_t slice_count) {
    ASSERT(slice_count <= SWARM_SLICES_MAX);
    return ENTRY_RECORD_BYTES_MAX - (size_t)(SWARM_SLICES_MAX - slice_count) * ENTRY_SLICE_BYTES;
}

/* entry_hash: the hash that identifies an entry and that is signed: BLAKE2b of "skep ledger entry"
 * with its NUL and the bytes of the map `entry`. It does not depend on entry->hash and the
 * signatures.
 * limits  entry_error(entry) is NULL, or at least its counts are within their limits */
struct hash entry_hash(const struct entry *entry);

/* Whether a commit is written with or without entry->slices. */
enum entry_form { ENTRY_WITHOUT_SLICES, ENTRY_WITH_SLICES };

/* entry_record_bytes: the length of the record of an entry. */
size_t entry_record_bytes(const struct entry *entry, enum entry_form form);

/* entry_write: write the record of an entry into `bytes`, which holds at least
 * entry_record_bytes(entry, form). Returns the length of the record. */
size_t entry_write(const struct entry *entry, enum entry_form form, uint8_t *bytes,
                   size_t capacity);

/* entry_derive_fields_from_rows: set the fields of a commit that follow from its rows:
 * result_count, results, and what each member contributed and owned.
 * limits  1 <= entry->slice_count <= SWARM_SLICES_MAX; owners and contributors are seats */
void entry_derive_fields_from_rows(struct entry *entry);

/* entry_count_results: add each row to the counts of its owner and of its contributors.
 * entry_results_root: the Merkle root over the rows.
 * shapes  contributed, owned [entry->seat_count]
 * limits  as of entry_derive_fields_from_rows */
void entry_count_results(const struct entry *entry, uint32_t *contributed, uint32_t *owned);
struct hash entry_results_root(const struct entry *entry);

/* entry_read: decode a record that was read from disk or received from a peer.
 * entry_read_next: decode the first of several consecutive records, and set *used to its length.
 * memory  entry->slices is set to `slices`, which has `slice_capacity` elements; *entry, slices and
 *         *used are undefined after an error
 * errors  the error (truncated, too long, not canonical, a count above its limit, entry_error, a
 *         hash that does not match), else NULL. Signatures are not verified here. */
MUST_CHECK const char *entry_read(const uint8_t *bytes, size_t count, struct entry_slice *slices,
                                  uint32_t slice_capacity, struct entry *entry);
MUST_CHECK const char *entry_read_next(const uint8_t *bytes, size_t count,
                                       struct entry_slice *slices, uint32_t slice_capacity,
                                       struct entry *entry, size_t *used);

/* entry_pack_content: pack the map `entry` as a field of a message. entry_pack_rows: pack the
 * row count and rows of a commit. entry_pack_record: pack the fields of a record. To read, zero
 * *entry except for `slices`; reading checks only the layout. */
void entry_pack_content(struct packer *packer, struct entry *entry);
void entry_pack_rows(struct packer *packer, struct entry *entry, uint32_t slice_capacity);
void entry_pack_record(struct packer *packer, struct entry *entry, uint32_t slice_capacity);

/* entry_error: a text that describes the first error in the fields of an entry, or NULL. The rest
 * of the chain is not needed. Errors are: a field that the kind does not use, a cursor out of
 * order, a seat that is empty or listed twice, a roster without a voter, a guest that voted or
 * owned a slice, a commit that is not counted, a norm that is not valid (norms.h), signatures out
 * of order; of rows: gaps, a weight that differs from the contributors', other counts or another
 * root than the commit has. Counts are checked first, so that *entry may contain any values. */
MUST_CHECK const char *entry_error(const struct entry *entry);

/* cursor: records which samples can still be assigned, as a position and a bounded list of
 * returned ranges. */

/* cursor_hand_out: assign the next range of at most `count` samples: the first returned range, or
 * its beginning; if there is none, new samples at the position. The range is never empty.
 * limits  count > 0 */
struct sample_range cursor_hand_out(struct data_cursor *cursor, uint64_t count);

/* cursor_take_returned_range: remove exactly `range` from the returned samples. Returns false, and
 * leaves the cursor unchanged, if a part of the range was not returned before. */
bool cursor_take_returned_range(struct data_cursor *cursor, struct sample_range range);

/* cursor_return_range: add an unused range to the returned samples. If the list has
 * SWARM_RETURNED_RANGES_MAX ranges already, the range is dropped and its samples are never used; no
 * sample is ever used twice.
 * limits  range.end <= position; disjoint from every returned range */
void cursor_return_range(struct data_cursor *cursor, struct sample_range range);

/* cursor_return_unused: add the samples to the cursor that the seats of an entry have not used: all
 * ranges of a seat that is not in the bitmap `used`, otherwise those after the first
 * members[seat].samples.
 * limits  as of cursor_return_range for each range */
void cursor_return_unused(struct data_cursor *cursor, const struct entry *entry, uint64_t used);

/* cursor_step_error: an error in how the cursor of `entry` follows from `before`, the cursor of the
 * entry before it, or NULL. An OPEN takes exactly the ranges of its seats, none of them twice; a
 * COMMIT or ABORT returns exactly the samples that were not used; a SUSPEND changes nothing. The
 * cursor of a ROLLBACK is not checked (rollback_error does).
 * limits  entry_error(entry) is NULL; a COMMIT or ABORT has the seats of the last OPEN */
MUST_CHECK const char *cursor_step_error(const struct data_cursor *before,
                                         const struct entry *entry);

#endif
